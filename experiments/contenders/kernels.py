"""Contenders for a kernel matrix over objects, given distances or bounds on distances.

They hand over the kernel, and quantities of the theory in the units of the paper: its X is half of
(e_a - e_b)(e_a - e_b)ᵀ, so that tr(WX) is half of a squared distance.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.problems import Problem
from similia import MEG, DefiniteBoost, DistanceConstraints


def squared_distances(K: Any) -> Any:
    own = np.diag(K).real
    squares = np.maximum(own[:, None] + own - 2.0 * K.real, 0.0)
    np.fill_diagonal(squares, 0.0)
    return squares


class TargetKernel:
    """The kernel that the distances are of; nothing is learnt."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.kernel = problem.context

    def learn_to(self, step: int) -> None:
        pass

    def quantities(self) -> dict[str, float]:
        return {}


class OnlineKernel:
    """MEG on distances of the target at random places; `eta` is the paper's."""

    stepwise = True
    note = ""

    def __init__(self, problem: Problem, seed: int, *, eta: float) -> None:
        self.target = problem.context
        self.distances = np.sqrt(squared_distances(self.target))
        self.learner = MEG(eta=eta / 4.0, trace=1.0, n_objects=len(self.target))
        self.rng = np.random.default_rng(seed)
        self.seen = 0

    def learn_to(self, step: int) -> None:
        # Floats, so that the stream is the same whatever the steps it is cut at.
        places = self.rng.random((step - self.seen, 2)) * len(self.target)
        pairs = places.astype(np.intp)
        self.learner.learn(None, pairs, self.distances[tuple(pairs.T)])
        self.seen = step

    @property
    def kernel(self) -> Any:
        return self.learner.K_

    def quantities(self) -> dict[str, float]:
        found = {"total_loss": self.learner.total_loss_ / 4.0}
        bound = self.learner.loss_bound(self.target) / 4.0
        return {**found, "loss_bound": bound} if np.isfinite(bound) else found


class BoundedKernel:
    """DefiniteBoost on the pairs that are closer than γ = `gamma`/d in the target: tr(WX) ≤ γ.

    With `n_constraints`, γ is the least for which so many pairs are, more where distances are tied.
    """

    stepwise = True

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        gamma: float = 0.2,
        n_constraints: int = 0,
        tol: float = 1e-4,
        **options: Any,
    ) -> None:
        target = problem.context
        d = len(target)
        pairs = np.column_stack(np.triu_indices(d, 1))
        squares = squared_distances(target)[tuple(pairs.T)]
        if n_constraints:
            gamma = float(np.sort(squares)[n_constraints - 1]) * d / 2.0 * (1.0 + 1e-9)
        near = squares < 2.0 * gamma / d
        self.gamma, bound = gamma, np.sqrt(2.0 * gamma / d)
        self.constraints = DistanceConstraints(pairs[near], bound, n_objects=d)
        self.options = {"nearest": False, "tol": 2.0 * tol, **options}
        self.note = f"{len(self.constraints)} constraints"

    def learn_to(self, step: int) -> None:
        """Begin again: the history, and the bound of the theorem, are then those of one run."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.boost = DefiniteBoost(max_iter=step, **self.options).fit(self.constraints)

    @property
    def kernel(self) -> Any:
        return self.boost.W_

    def quantities(self) -> dict[str, float]:
        boost, values = self.boost, self.constraints.values(self.boost.W_) / 2.0
        return {
            "dual": boost.dual_,
            "dual_bound": float(boost.history_["dual_bound"][-1]),
            "iterations": float(boost.n_iter_),
            "iteration_bound": boost.iteration_bound_,
            "constraints": float(len(values)),
            "gamma": self.gamma,
            "violated": float((values > self.options["tol"] / 2.0).sum()),
        }
