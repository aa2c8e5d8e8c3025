"""The rank of SLND's Hessian that decides best on held-out examples."""

from typing import Any

import numpy as np
from sklearn.base import clone

from similia.linalg.blocks import row_blocks, rows_of
from similia.linear.hessian import Eigenpairs, augmented


def best_rank(learner: Any, pairs: Eigenpairs, task: Any, rng: np.random.Generator) -> int:
    """Give the rank among 8, 16, 32, … up to all whose classifier is most often right.

    Each is learnt in one pass from the task's rows and judged on those held out. Ties go to the
    smaller rank. The candidates share one eigendecomposition.
    """
    if len(pairs.values) == 0:
        return 0
    candidates = [k for k in 2 ** np.arange(3, 20) if k < len(pairs.values)] + [len(pairs.values)]
    seed = int(rng.integers(2**31))
    found = []
    for k in map(int, candidates):
        trial = clone(learner).set_params(rank=k, max_iter=1, early_stopping=False, verbose=False)
        trial.n_features_in_ = learner.n_features_in_
        trial._start(task.X, task.labels)
        trial._set_hessian(pairs.first(k), learner.n_hessian_)
        scale, eta, horizon = trial._scale_and_step()
        part = trial._part(task, range(task.labels.n_rows), scale, eta, horizon, shared=True)
        order = np.random.default_rng(seed).permutation(len(task.rows))
        if learner.sampling == "balanced":
            trial._balanced_pass(task, part, 0, np.random.default_rng(seed))
        else:
            trial._full_pass(task, part, 0, order)
        found.append(_accuracy(task, part.frame.back(part.Z), learner.fit_intercept))
    return int(candidates[int(np.argmax(found))])


def _accuracy(task: Any, w: Any, intercept: bool) -> float:
    right = 0.0
    for block in row_blocks(len(task.held_out), 1024):
        rows = task.held_out[block]
        scores = np.asarray(augmented(rows_of(task.X, rows, w.dtype), intercept) @ w.T).T
        right += task.labels.accuracy(scores, rows) * len(rows)
    return right
