"""The one list of public learners.

Persistence, the command line, the common tests and the benchmarks read it; so one line here makes a
learner saved, reachable, tested and timed. Modules are named, not imported: naming costs nothing.
"""

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

LEARNERS = {
    "Blend": "similia.similarity.blend.blend",
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

#: the default learner
DEFAULT = "Blend"

#: learners that need the whole labelled set: saved, but not streamed
BATCH_LEARNERS = {
    "NeighborhoodGerrymandering": "similia.neighbors.gerrymandering",
}
ALL_LEARNERS = {**LEARNERS, **BATCH_LEARNERS}


def learner_class(text: str) -> Any:
    """Public learner of that name, ignoring case."""
    names = {name.casefold(): name for name in ALL_LEARNERS}
    name = names.get(text.casefold())
    if name is None:
        near = get_close_matches(text.casefold(), names, n=1)
        advice = f" Did you mean {names[near[0]]}?" if near else ""
        raise ValueError(f"learner must be one of {', '.join(ALL_LEARNERS)}, got {text!r}.{advice}")
    return getattr(import_module(ALL_LEARNERS[name]), name)


def summary(name: str) -> str:
    """First line of a learner's documentation, read from its source: nothing is imported."""
    path = Path(__file__).parent.joinpath(*ALL_LEARNERS[name].split(".")[1:]).with_suffix(".py")
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n")[0]
    raise LookupError(f"{path} defines no class {name}.")


def new_learner(name: str, parameters: Mapping[str, object]) -> Any:
    """A learner with some parameters set."""
    learner = learner_class(name)()
    known = learner.get_params()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"{type(learner).__name__}: parameters must be among {', '.join(known)}, "
            f"got {unknown[0]}."
        )
    return learner.set_params(**parameters)
