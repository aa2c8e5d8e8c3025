"""Compile ahead, so that the first judgement waits for nothing."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from similia.files import Judgements
from similia.registry import learner_class
from similia.stream.lessons import lessons_for

FORMS = {
    "dense float32": lambda X: X.astype(np.float32),
    "dense float64": lambda X: X,
    "sparse float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "sparse float64": lambda X: sparse.csr_array(X),
}
# One of the two triplets is a mistake of any similarity, so that something is learnt.
_TUPLES = {"triplets": [[0, 1, 2], [0, 2, 1]], "pairs": [[0, 1], [2, 3]], "labels": [[0], [1]]}
_VALUES = {"triplets": None, "pairs": [1, 1], "labels": [0, 1]}


def warm_up(names: Sequence[str], forms: Sequence[str] = tuple(FORMS)) -> Iterator[dict[str, Any]]:
    """Teach and ask learners a few judgements of each form; yield name, form and seconds."""
    X = np.random.default_rng(0).normal(size=(8, 4))
    for name in names:
        for form in forms:
            started = time.perf_counter()
            _try(learner_class(name)(), FORMS[form](X))
            seconds = time.perf_counter() - started
            yield {"learner": name, "form": form, "seconds": seconds}


def _try(model: Any, X: Any) -> None:
    kind, values = model.learns_from, _VALUES[model.learns_from]
    part = Judgements(
        np.array(_TUPLES[kind]), None if values is None else np.array(values), np.arange(1, 3)
    )
    lessons = lessons_for(model, X, classes=np.array([0, 1]))
    lessons.start(model)
    lessons.teach(model, part)
    if lessons.scored:
        lessons.n_right(model, part)
    if hasattr(model, "query_vectors"):
        model.query_vectors(X)
