"""AROW: adaptive regularisation of weight vectors, the ancestor of AROMA."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from similia.contract import Array, Matrix, State
from similia.linalg.blas import products, row_products
from similia.linalg.blocks import squared
from similia.linalg.gaussian import mean_posterior, mean_variances
from similia.linear.base import LinearOneVsRest
from similia.parameters import parameter
from similia.safety.bounds import check_room
from similia.updates.aroma import diagonal_pass
from similia.updates.arow import arow_pass
from similia.validation import one_of, positive


class AROW(LinearOneVsRest):
    """Linear classifier with a Gaussian over its weights.

    An example x with label y = ±1 that scores y xᵀw < 1 moves, with v = xᵀΣx before the update,

        w += (1 - y xᵀw)/(r+v) y Σx,   Σ -= Σx xᵀΣ/(r+v)                        [Crammer2009]

    or, with ``covariance="diagonal"``, the same with Σ's diagonal alone.

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        Mean of the distribution after the last example, intercept last.
    Sigma_ : array of shape (1 or n_classes, d, d) or, diagonal, (1 or n_classes, d)
        Covariance of each weight vector.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    The full form runs in matrix products over blocks; the states are those of the one-at-a-time
    form up to rounding. The diagonal form is d-AROMA's pass on a matrix of one row.

    References
    ----------
    .. [Crammer2009] K. Crammer, A. Kulesza, M. Dredze, "Adaptive Regularization of Weight Vectors",
       NIPS 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import AROW
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = AROW(random_state=0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.9)
    True
    """

    r: float = parameter(
        default=1.0,
        rule=positive,
        doc="Larger r follows each example less closely and lets uncertainty shrink more slowly.",
    )
    covariance: str = parameter(
        default="full",
        rule=one_of("full", "diagonal"),
        doc="For each step and weight vector, full costs d² operations, diagonal as many as the "
        "row has non-zeros.",
    )

    _state: ClassVar = (*LinearOneVsRest._state, "Sigma_")

    def _init_state(self) -> None:
        rows, d = self.w_.shape
        if self.covariance == "full":
            check_room(self._owner, d, self.w_.dtype, (rows, d, d))
            self.Sigma_ = np.tile(np.eye(d, dtype=self.w_.dtype), (rows, 1, 1))
        else:
            self.Sigma_ = np.ones((rows, d), dtype=self.w_.dtype)

    def _learn_block(self, rows: Matrix, signs: Array, weights: Array) -> int:
        r, steps = float(self.r), 0
        for j, y in enumerate(signs):
            if self.covariance == "full":
                moment = self.moment_[j] if self.average else self.moment_
                state = (self.w_[j], self.Sigma_[j], moment, self.n_seen_)
                steps += int(arow_pass(*state, rows, y, r))
            else:
                one = slice(j, j + 1)
                state = (self.w_[one], self.Sigma_[one], self.moment_[one], self.n_seen_)
                Q = sparse.csr_array(y[:, None]) if sparse.issparse(rows) else y[:, None]
                steps += int(diagonal_pass(*state, Q, rows, r, 1.0, False))
        return steps

    def decision_std(self, X: Matrix) -> Array:
        """Posterior standard deviation of each score of `decision_function`."""
        X = self._checked_rows(X)
        if self.covariance == "full":
            moved = products(*((X, S) for S in self.Sigma_))
            variances = np.column_stack([row_products(XS, X) for XS in moved])
        else:
            variances = np.asarray(squared(X) @ self.Sigma_.T)
        return self._per_class(np.sqrt(np.maximum(variances, 0.0)))

    def _bolder(self, n: int) -> dict[str, Any]:
        return {"r": float(self.r) / n}

    def _merged_state(self, parts: Sequence[Self]) -> State:
        if self.covariance == "diagonal":
            variances = mean_variances([part.Sigma_ for part in parts])
            return {**super()._merged_state(parts), "Sigma_": variances}
        vectors = zip(*(zip(part.w_, part.Sigma_, strict=True) for part in parts), strict=True)
        w, Sigma = zip(*map(mean_posterior, vectors), strict=True)
        return {"w_": np.array(w), "Sigma_": np.array(Sigma)}

    def _steps_to_merge(self) -> int:
        """Six for each weight, over all weight vectors."""
        return 6 * self.w_.size
