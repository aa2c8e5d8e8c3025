"""What is proven of the total loss of matrix exponentiated gradient, wherever it starts."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from similia.contract import Array
from similia.distance.instances import checked_labels
from similia.distance.spectral import SpectralMetric
from similia.distance.start import SINGLE
from similia.linalg.blas import row_products
from similia.linalg.blocks import difference_of_rows, row_blocks, squared
from similia.linalg.bregman import von_neumann_divergence
from similia.linalg.spectral import from_eigenpairs
from similia.validation import check_tuples, non_negative

#: eta="auto" is this over the square of an instance's range: Lemma 3.2 with c = 6
RATE = 1.5
#: instances whose losses are computed at a time
BLOCK = 512


class BoundedLoss(SpectralMetric):
    """A learner that counts its losses, and the bound of them."""

    _state: ClassVar = (*SpectralMetric._state, "total_loss_", "range_")

    eta: Any

    def _init_state(self, X: Any) -> None:
        super()._init_state(X)
        self.total_loss_ = 0.0
        self.range_ = 0.0

    def _rate(self) -> tuple[float, bool]:
        """Give η, or the factor of `step_size` and True."""
        if isinstance(self.eta, str):
            return (RATE if self.normalized else 1.0), True
        return float(self.eta), False

    def _merged_state(self, parts: Any) -> dict[str, Any]:
        losses = (part.total_loss_ - self.total_loss_ for part in parts)
        return {
            **super()._merged_state(parts),
            "total_loss_": self.total_loss_ + sum(losses),
            "range_": max(part.range_ for part in parts),
        }

    def loss_bound(self, U: Any, loss: float = 0.0) -> float:
        """Bound `total_loss_` by what it can be at most, given one matrix to compare with.

        With c such that η = 2c/(ρ²(2 + c)), for any U ⪰ 0 with the trace of A,

            total_loss_ ≤ (1 + c/2) loss(U) + (1/2 + 1/c) ρ² Δ(U/s, W₁)      [Tsuda2005, Lemma 3.2]

        where W₁ is the start, made to have trace one: I/n, unless another one was given.

        Parameters
        ----------
        U : array of shape (n, n)
            The true matrix, if there is one.
        loss : number
            Its own loss on the same instances, `comparison_loss`; zero if it explains them.

        Returns
        -------
        The bound; infinite where eta is too large for one (η ρ² > 2).
        """
        U = self._checked_comparison("loss_bound", U)
        if not self.normalized:
            raise ValueError(
                f"{self._owner}.loss_bound: normalized must be True, as no other bound is proven."
            )
        if not non_negative.holds(loss):
            raise ValueError(
                f"{self._owner}.loss_bound: loss must be {non_negative.words}, got {loss!r:.60}."
            )
        rate, relative = self._rate()
        rate = rate if relative else rate * self.range_**2
        if rate > 2.0 or (rate == 2.0 and loss > 0.0):
            return np.inf
        values, rows = self._start(len(U))
        start = from_eigenpairs(values / values.sum(), rows.T)
        divergence = von_neumann_divergence(U / self.trace_, start)
        # rate = 2c/(2 + c), so 1/2 + 1/c = 1/rate and 1 + c/2 = 2/(2 - rate).
        own = 2.0 / (2.0 - rate) * loss if loss > 0.0 else 0.0
        return float(own + self.range_**2 * divergence / rate) if rate > 0.0 else float(own)

    def comparison_loss(self, U: Any, X: Any, pairs: Any, y: Any) -> float:
        """Give the total loss Σ (zᵀUz - y²)² of one matrix on given distances, for `loss_bound`.

        With ``eta="auto"`` each counts (range_/ρ)² times, as the bound needs it where the ranges ρ
        of instances differ.
        """
        U = self._checked_comparison("comparison_loss", U)
        X = self._checked(X)
        where = f"{self._owner}.comparison_loss"
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0], X.shape[0]))
        y = checked_labels(where, y, len(pairs))
        total = 0.0
        for block in row_blocks(len(pairs), BLOCK):
            Z = difference_of_rows(X, pairs[block, 0], pairs[block, 1], np.float64)
            spread = self.trace_ * np.asarray(squared(Z).sum(axis=1)).ravel()
            weights = np.ones(len(spread))
            if isinstance(self.eta, str):
                np.divide(self.range_, spread, out=weights, where=spread > 0.0)
            found = row_products(np.asarray(Z @ U.real), Z)
            total += float(np.sum((weights * (found - y[block] ** 2)) ** 2))
        return total

    def _checked_comparison(self, method: str, U: Any) -> Array:
        check_is_fitted(self)
        U, n = np.asarray(U), self.n_features_in_
        if U.shape != (n, n) or not np.isclose(np.trace(U).real, self.trace_, rtol=1e-6):
            trace = f" and trace {np.trace(U).real:.6g}" if U.ndim == 2 else ""
            raise ValueError(
                f"{self._owner}.{method}: U must be of shape ({n}, {n}) and trace "
                f"{self.trace_:.6g}, got shape {U.shape}{trace}."
            )
        if not np.abs(U - U.conj().T).max() <= SINGLE * np.abs(U).max():
            raise ValueError(
                f"{self._owner}.{method}: U must be a finite symmetric or Hermitian matrix."
            )
        return U
