"""Contenders that adapt a search over frozen vectors: each learns qᵀWp from triplets, at once.

Items are never touched: what is handed over is a map of queries.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize
from scipy.special import expit

from experiments.peers.call import train_adapter
from experiments.problems import Problem
from similia.registry import learner_class


class QueryMap:
    """W as `similia.evaluate` takes it; no W is the identity."""

    geometry = "inner_product"

    def __init__(self, W: Any = None) -> None:
        self.W = W

    def query_vectors(self, Q: Any) -> Any:
        return Q if self.W is None else Q @ self.W

    def item_vectors(self, Z: Any) -> Any:
        return Z


class Adapter:
    """What they share; without more it is the base."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int, **parameters: Any) -> None:
        self.feedback, self.seed, self.parameters = problem.X_train, seed, parameters
        self.timings: dict[str, float] = {}
        self.W: Any = None

    def learn_to(self, step: int) -> None:
        W = self._fitted(**self.parameters)
        self.W = None if W is None else np.asarray(W, dtype=np.float32)

    def _fitted(self) -> Any:
        return None

    def scorers(self) -> dict[str, Any]:
        return {"inner_product": QueryMap(self.W)}


class Online(Adapter):
    """A learner of this library, which meets each triplet once, in order."""

    def __init__(self, name: str, problem: Problem, seed: int, **parameters: Any) -> None:
        super().__init__(problem, seed, **parameters)
        self.learner = learner_class(name)
        Q, Z, triplets = self.feedback
        self.learner().learn(Q, triplets[:2], items=Z)  # compiles, before the clock starts

    def _fitted(self, **parameters: Any) -> Any:
        Q, Z, triplets = self.feedback
        learner = self.learner(**parameters).learn(Q, triplets, items=Z)
        self.note = f"scale {learner.prior_scale_:.1f}, {learner.n_updates_} updates"
        return learner.query_vectors(np.eye(Q.shape[1], dtype=Q.dtype))


class Recent(Online):
    """The same, scored with a mean of its states in which a state counts as often as it is late.

    The states after each of `pieces` equal pieces of the feedback are averaged.
    """

    def _fitted(self, *, pieces: int = 50, **parameters: Any) -> Any:
        Q, Z, triplets = self.feedback
        learner, total = self.learner(average=False, **parameters), 0.0
        for k, piece in enumerate(np.array_split(triplets, pieces), start=1):
            total = total + k * learner.learn(Q, piece, items=Z).W_.astype(np.float64)
        return total / (pieces * (pieces + 1) / 2)


class ByTriplets(Adapter):
    """A batch learner: it takes the rows of queries and of differences."""

    def _fitted(self, **parameters: Any) -> Any:
        Q, Z, (query, better, worse) = *self.feedback[:2], self.feedback.triplets.T
        rows = (M.astype(np.float64) for M in (Q[query], Z[better] - Z[worse]))
        return self._from_rows(*rows, **parameters)

    @abstractmethod
    def _from_rows(self, Q: Any, P: Any, **parameters: Any) -> Any:
        """The matrix W of qᵀWz."""


class Ridge(ByTriplets):
    """Regress each query on itself, moved along better - worse by `rate`; W is drawn to I by `lam`.

    W = I + rate (QᵀQ + lam I)⁻¹ QᵀP, in closed form.
    """

    def _from_rows(self, Q: Any, P: Any, *, lam: float, rate: float) -> Any:
        eye = np.eye(Q.shape[1])
        return eye + rate * linalg.solve(Q.T @ Q + lam * eye, Q.T @ P, assume_a="pos")


class Reweighting(ByTriplets):
    """Logistic regression of the order on q⊙p: one weight a feature, drawn to `scale` by `lam`.

    `scale` is that of the base before the logistic function, as `prior_scale` is of the prior.
    """

    def _from_rows(self, Q: Any, P: Any, *, lam: float, scale: float) -> Any:
        X = Q * P
        start = np.full(X.shape[1], scale)

        def loss(w: Any) -> tuple[float, Any]:
            return reweighting_loss(w, X, lam, start)

        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
        return np.diag(found.x / scale)


class Torch(Adapter):
    """A linear map of queries, trained by Adam on the hinge loss of triplets, from the identity."""

    def _fitted(self, **parameters: Any) -> Any:
        W, self.timings = train_adapter(*self.feedback, {"seed": self.seed, **parameters})
        return W


def reweighting_loss(w: Any, X: Any, lam: float, start: Any) -> tuple[float, Any]:
    """Σ log(1 + exp(-xᵀw)) + lam/2 |w - start|² and its slope."""
    scores, away = X @ w, w - start
    value = np.logaddexp(0.0, -scores).sum() + 0.5 * lam * away @ away
    return float(value), lam * away - X.T @ expit(-scores)
