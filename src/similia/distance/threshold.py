"""Distances with a threshold between similar and dissimilar, learnt by projections."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from similia.contract import Array
from similia.distance.base import MahalanobisDistance
from similia.linalg.blocks import difference_of_rows, row_blocks, rows_of
from similia.updates.pola import pola_pass
from similia.validation import between, check_tuples, non_negative, one_of, positive

#: lengths and scales beyond this could overflow in a fourth power
LARGEST = 1e70
#: pairs whose distances are measured at a time
BLOCK = 4096


class ThresholdedDistance(MahalanobisDistance):
    """What POLA and its kernel form share: the step, the threshold, decisions on pairs."""

    divergence = "frobenius"

    _rules: ClassVar = {
        **MahalanobisDistance._rules,
        "gamma": non_negative,
        "start_scale": between(0, LARGEST),
        "unit": one_of("auto") | between(0, LARGEST),
        "threshold_rate": positive,
    }
    _state: ClassVar = (*MahalanobisDistance._state, "b_", "b_moment_", "unit_", "total_loss_")

    gamma: float
    start: Any
    start_scale: float
    unit: str | float
    threshold_rate: float

    # -- learning ------------------------------------------------------------------------------

    def _init_state(self, X: Any) -> None:
        squares = self._random_squares(X)
        typical = float(squares.mean()) if len(squares) else 1.0
        self._check_typical(typical, X.dtype)
        A, b = self._start(X, typical)
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.A_ = A
        self._init_moment()
        self.b_ = float(max(b, 1.0))
        self.b_moment_ = 0.0
        self.unit_ = float(np.sqrt(typical) if isinstance(self.unit, str) else self.unit)
        self.total_loss_ = 0.0

    def _check_typical(self, typical: float, dtype: Any) -> None:
        """Refuse to scale by distances whose fourth powers vanish: states would turn into NaN."""
        least = float(np.finfo(dtype).max) ** -0.4
        identity = isinstance(self.start, str) and self.start == "identity"
        if (identity or isinstance(self.unit, str)) and typical < least:
            raise ValueError(
                f"{self._owner}: X must have points that typically differ by at least "
                f"{least**0.5:.1e} for {dtype}, got {typical**0.5:.1e}; scale it up."
            )

    @abstractmethod
    def _start(self, X: Any, typical: float) -> tuple[Array, float]:
        """Give A before the first pair, and b, for points of that mean squared distance."""

    def _learn_block(self, Z: Any, y: Array) -> int:
        threshold = np.array([self.b_, self.b_moment_])
        losses = np.zeros(len(y))
        updates = pola_pass(
            self.A_, threshold, self.moment_, self.n_seen_, Z, y, losses, self._rho, self._slack
        )
        self.b_, self.b_moment_ = threshold.tolist()
        self.total_loss_ += float(losses @ losses)
        return updates

    @property
    def _rho(self) -> float:
        return self.threshold_rate * self.unit_**4

    @property
    def _slack(self) -> float:
        return self.gamma * self.unit_**4

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        shares = self._shares(parts)
        b = sum(share * part.b_ for share, part in zip(shares, parts, strict=True))
        gap = sum(
            share * part.b_moment_ / (part.n_seen_ + 1)
            for share, part in zip(shares, parts, strict=True)
        )
        n_seen = self.n_seen_ + sum(part.n_seen_ - self.n_seen_ for part in parts)
        return {
            **super()._merged_state(parts),
            "b_": float(b),
            "b_moment_": float(gap * (n_seen + 1)),
            "total_loss_": self.total_loss_ + sum(p.total_loss_ - self.total_loss_ for p in parts),
        }

    # -- using ---------------------------------------------------------------------------------

    @property
    def b_average_(self) -> float:
        """Mean of the thresholds b_0 … b_T; kept only with ``average=True``."""
        self._check_average()
        return self.b_ - self.b_moment_ / (self.n_seen_ + 1)

    @property
    def threshold_(self) -> float:
        """The threshold of the squared distances that this learner gives."""
        check_is_fitted(self)
        return self.b_average_ if self.average else self.b_

    def decision_function(self, X: Any, pairs: Any = None) -> Array:
        """Give the threshold minus the squared distance of each pair: positive means similar.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X` that are compared. Without it each row is compared with the origin, so that
            `X` may hold the differences themselves.

        Returns
        -------
        Array of shape (n_pairs,).
        """
        X = self._checked(X)
        L = self._factor()
        if pairs is None:
            return self.threshold_ - _lengths(self._mapped(X), L)
        pairs = check_tuples(f"{self._owner}.decision_function", "pairs", pairs, (X.shape[0],) * 2)
        squares = np.empty(len(pairs), self.A_.dtype)
        for block in row_blocks(len(pairs), BLOCK):
            rows, places = np.unique(pairs[block], return_inverse=True)
            mapped = self._mapped(rows_of(X, rows, X.dtype))
            some, others = places.reshape(-1, 2).T
            squares[block] = _lengths(difference_of_rows(mapped, some, others, mapped.dtype), L)
        return self.threshold_ - squares

    def predict(self, X: Any, pairs: Any = None) -> Array:
        """Give +1 (similar) or -1 (dissimilar) for each pair; see `decision_function`."""
        return np.where(self.decision_function(X, pairs) >= 0, 1, -1)


def _lengths(Z: Any, L: Array) -> Array:
    """Give |Lz|² for each row z."""
    return (np.asarray(Z @ L.T) ** 2).sum(axis=1)
