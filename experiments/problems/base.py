from typing import Any, NamedTuple

import numpy as np


class Problem(NamedTuple):
    """Training and test points with their labels, in random order, and how they are measured."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    measured_by: str = "retrieval"
    context: Any = None  # what is known beside the points: a target kernel, features of objects


def validation(problem: Problem, share: float, seed: int) -> Problem:
    """Training part of a problem, split again: what parameters may be chosen on.

    Of a stream that is filtered it is the stream before, as a whole; of queries with a database of
    their own, a part of the queries is held out. A search has queries for it.
    """
    if problem.measured_by == "search":
        return problem._replace(X_test=problem.context)
    if problem.measured_by == "filtering":
        return problem._replace(X_test=problem.X_train, y_test=problem.y_train)
    n = getattr(problem.context, "n_queries", 0) or len(problem.y_train)
    held_out, kept = np.split(np.random.default_rng(seed).permutation(n), [round(share * n)])
    if n < len(problem.y_train):
        items = np.arange(n, len(problem.y_train))
        context = problem.context._replace(n_queries=len(kept))
        problem, kept = problem._replace(context=context), np.concatenate([kept, items])
    X, y = problem.X_train, problem.y_train
    return problem._replace(
        X_train=X[kept], y_train=y[kept], X_test=X[held_out], y_test=y[held_out]
    )
