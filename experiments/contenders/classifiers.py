"""Linear classifiers of fixed features, learnt at once; how many passes is a parameter."""

import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier

from experiments.contenders.sgd_qn import SGDQN
from experiments.problems import Problem
from similia import SGDOneVsRest, SLNDClassifier
from similia.linear.hessian import leading_eigenpairs

LEARNERS = {
    learner.__name__: learner
    for learner in (SLNDClassifier, SGDOneVsRest, SGDQN, SGDClassifier, LogisticRegression)
}


class Classifier:
    """A learner with parameters, and the processor time that it took.

    eta_scale is the step in units of 1/(F''(0) mean |x|²), for SLND of 1/k or, diagonal, of 1/d.
    """

    stepwise = False
    note = ""

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        learner: str,
        eta_scale: float | None = None,
        **parameters: Any,
    ) -> None:
        self.X, self.y = problem.X_train, problem.y_train
        if eta_scale is not None:
            parameters["eta"] = eta_scale / self._typical(learner, parameters.get("rank"))
        self.model = LEARNERS[learner](random_state=seed, **parameters)
        self._fit(slice(0, 300))  # compiles, before the clock starts

    def _typical(self, learner: str, rank: int | None) -> float:
        """Mean of F''(0)|u|² over the rows u of the steps."""
        if learner == "SLNDClassifier":
            return float(rank or self.X.shape[1])
        squares = self.X.multiply(self.X) if sparse.issparse(self.X) else self.X**2
        return 0.25 * float(squares.sum() / self.X.shape[0])

    def _fit(self, some: slice) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(self.X[some], self.y[some])

    def learn_to(self, step: int) -> None:
        begun = time.process_time()
        self._fit(slice(None))
        self.spent = time.process_time() - begun

    def scores(self, X: Any) -> Any:
        """Classes, and scores (rows, classes)."""
        return self.model.classes_, self.model.decision_function(X)

    def quantities(self) -> dict[str, float]:
        found = {"processor_seconds": self.spent}
        if isinstance(self.model, SLNDClassifier):
            found["rank"], found["damping"] = float(self.model.rank_), self.model.damping_
        return found


class Spectrum:
    """Eigenvalues of the second moment of 5,000 training rows, over their sum."""

    stepwise = False
    note = ""

    def __init__(self, problem: Problem, seed: int, *, rank: int = 1000) -> None:
        self.X, self.seed, self.rank = problem.X_train[:5000], seed, rank

    def learn_to(self, step: int) -> None:
        self.pairs = leading_eigenpairs(self.X, None, self.rank, self.seed)

    def scores(self, X: Any) -> Any:
        return None

    def quantities(self) -> dict[str, float]:
        values = self.pairs.values / self.pairs.energy
        places = sorted({round(p) for p in np.geomspace(1, len(values), 25)})
        shares = {f"eigenvalue@{p}": float(values[p - 1]) for p in places}
        return {**shares, **{f"energy@{p}": float(values[:p].sum()) for p in places}}
