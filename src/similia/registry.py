"""The one list of public learners.

Persistence, the command line, the common tests and the benchmarks read it; so one line here makes a
learner saved, reachable, tested and timed. Modules are named, not imported: naming costs nothing.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

LEARNERS = {
    "Blend": "similia.similarity.blend",
    "FactoredAROMA": "similia.similarity.aroma",
    "DiagonalAROMA": "similia.similarity.aroma",
    "OASIS": "similia.similarity.oasis",
    "LEGO": "similia.distance.lego",
    "POLA": "similia.distance.pola",
    "KernelPOLA": "similia.distance.kernel_pola",
    "MEG": "similia.distance.meg",
    "AROW": "similia.linear.arow",
    "SLNDClassifier": "similia.linear.slnd",
    "SGDOneVsRest": "similia.linear.sgd",
}

#: the learner of those who name none
DEFAULT = "Blend"

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


def new_learner(name: str, parameters: Mapping[str, object]) -> Any:
    """A learner with some parameters set."""
    learner = learner_class(name)()
    known = learner.get_params()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"{name}: parameters must be among {', '.join(known)}, got {unknown[0]}.")
    return learner.set_params(**parameters)
