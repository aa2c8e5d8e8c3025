"""Sets of other reports, classified by a fixed number of nearest training points."""

from experiments.problems.base import Problem
from experiments.problems.domains import isolet, office_domain, usps


def by_neighbors(seed: int, *, data: str) -> Problem:
    """Isolet, USPS or a domain of Office–Caltech as the report on gerrymandering has them."""
    known = {"isolet": isolet, "usps": usps}
    problem = known[data](seed) if data in known else office_domain(seed, domain=data)
    return problem._replace(measured_by="neighbors", context=None)
