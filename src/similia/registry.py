"""The one list of public learners.

Persistence, the command line, the common tests and the benchmarks read it; so one line here makes a
learner saved, reachable, tested and timed. Modules are named, not imported: naming costs nothing.
"""

from importlib import import_module
from typing import Any

LEARNERS = {
    "FactoredAROMA": "similia.similarity.aroma",
    "DiagonalAROMA": "similia.similarity.aroma",
    "OASIS": "similia.similarity.oasis",
    "LEGO": "similia.distance.lego",
    "POLA": "similia.distance.pola",
    "KernelPOLA": "similia.distance.pola",
    "MEG": "similia.distance.meg",
    "AROW": "similia.linear.arow",
    "SLNDClassifier": "similia.linear.slnd",
    "SGDOneVsRest": "similia.linear.sgd",
}

#: learners of a whole labelled set: saved as well, but with no stream of single judgements
BATCH_LEARNERS = {
    "NeighborhoodGerrymandering": "similia.neighbors.gerrymandering",
}
ALL_LEARNERS = {**LEARNERS, **BATCH_LEARNERS}


def learner_class(name: str) -> Any:
    """Public learner of that name."""
    if name not in ALL_LEARNERS:
        raise ValueError(f"learner must be one of {', '.join(ALL_LEARNERS)}, got {name!r}.")
    return getattr(import_module(ALL_LEARNERS[name]), name)
