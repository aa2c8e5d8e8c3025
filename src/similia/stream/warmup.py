"""Compile ahead, so that no first judgement, evaluation or question waits."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from similia.contract import Matrix, Posterior, Ranker
from similia.feedback.impressions import Impressions
from similia.registry import BATCH_LEARNERS, learner_class
from similia.retrieval import evaluate, top_k

ROW_FORMS = {
    "dense float32": lambda X: X.astype(np.float32),
    "dense float64": lambda X: X,
    "sparse float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "sparse float64": lambda X: sparse.csr_array(X),
}
#: few and many features, and queries: loops differ
ROW_WIDTHS, N_QUERIES = (4, 400), (8, 40)


def warm_up(
    names: Sequence[str], forms: Sequence[str] = tuple(ROW_FORMS)
) -> Iterator[dict[str, Any]]:
    """Use learners as the commands do, on a few rows of each form; yield name, form and seconds."""
    rng = np.random.default_rng(0)
    for name in names:
        for form in forms:
            started = time.perf_counter()
            for width in ROW_WIDTHS:
                X = ROW_FORMS[form](rng.normal(size=(max(N_QUERIES), width)))
                model = learner_class(name)()
                _teach(model, X, name in BATCH_LEARNERS)
                for scorer in (model, "cosine") if isinstance(model, Ranker) else ():
                    _rank(scorer, X)
            yield {"learner": name, "form": form, "seconds": time.perf_counter() - started}


def _teach(model: Any, X: Matrix, whole: bool) -> None:
    labels = np.arange(X.shape[0]) % 2
    if whole:
        model.fit(X, labels)
    elif model.learns_from == "labels":
        model.partial_fit(X, labels, classes=[0, 1]).predict(X)
    elif model.learns_from == "pairs":
        model.learn(X, [[0, 1], [2, 3]], [1, 1])
    else:
        # One of the two is a mistake of any similarity, so that something is learnt.
        triplets = np.array([[0, 1, 2], [0, 2, 1]])
        model.learn(X, triplets).triplet_scores(X, triplets)
        if model.learns_lists:
            places = np.arange(1, 4)
            model.learn(X, Impressions.from_rows([0] * 3, places, [0, 1, 0], position=places))
        if isinstance(model, Posterior):
            model.suggest(X, triplets)


def _rank(scorer: Ranker | str, X: Matrix) -> None:
    top_k(scorer, X, X, 2)
    for n in N_QUERIES:
        grades = np.eye(n, X.shape[0], 1)
        evaluate(scorer, X[:n], labels=np.arange(n) % 2)
        evaluate(scorer, X[:n], X, relevance=sparse.csr_array(grades), exclude_self=True)
