"""The batch form of POLA: passes over the same pairs until none of them loses more than β."""

import math
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from similia.contract import Array
from similia.distance.threshold import ThresholdedDistance
from similia.linalg.blas import row_products
from similia.linalg.blocks import row_blocks, squared
from similia.progress import progress
from similia.validation import non_negative, none, positive, positive_integer


class BatchDistance(ThresholdedDistance):
    """What POLA and its kernel form share as batch learners."""

    _rules: ClassVar = {
        **ThresholdedDistance._rules,
        "beta": none | positive,
        "max_passes": positive_integer,
    }

    beta: float | None
    max_passes: int

    def fit_pairs(self, X: Any, pairs: Any, y: Any, separator: float | None = None) -> Self:
        """Forget, then pass over the pairs until none loses more than `beta`; once if it is None.

        If some A* ⪰ 0 and b* ≥ 1 leave no pair a loss, the losses of all passes satisfy

            Σ ℓ² ≤ R D,   D = |A* - A_1|² + (b* - b_1)²/ρ,   R = max |v|⁴ + ρ + σ,

        so that ⌈RD/β²⌉ passes are enough. And if the sum exceeds R D, there is no such metric: that
        is how far inseparable pairs can be told from those that need more passes.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X` that are compared.
        y : array of shape (n_pairs,)
            +1 for similar, -1 for dissimilar.
        separator : number or None
            D of a metric that is believed to exist: stop as soon as it is refuted.

        Returns
        -------
        The learner itself, with `n_passes_` and `largest_loss_`. A ConvergenceWarning says so if a
        pair still loses more than `beta`, and why. On an error nothing has changed.
        """
        self._check_parameters()
        where = f"{self._owner}.fit_pairs"
        if not (none | non_negative).holds(separator):
            raise ValueError(f"{where}: separator must be None or a number, got {separator!r}.")
        given = X
        X, pairs, y = self._checked_judgements(where, X, pairs, y)
        with self._all_or_nothing():
            validate_data(self, given, reset=True, skip_check_array=True)
            self._init_state(X)
            self._pass(X, pairs, y, math.inf if separator is None else separator)
        return self

    def _learn_from_labels(self, X: Any, y: Array) -> Self:
        if self.beta is None:
            return super()._learn_from_labels(X, y)
        drawn = list(self._drawn(y))
        pairs, feedback = (np.concatenate(column) for column in zip(*drawn, strict=True))
        self._pass(X, pairs, feedback, math.inf)
        return self

    def _init_state(self, X: Any) -> None:
        super()._init_state(X)
        for name in ("n_passes_", "largest_loss_"):
            self.__dict__.pop(name, None)

    def _pass(self, X: Any, pairs: NDArray[np.intp], y: Array, separator: float) -> None:
        """Pass over the pairs until all is well, or it is known or feared that it never will be."""
        beta = math.inf if self.beta is None else self.beta
        before = self.total_loss_
        passes = 0
        total = self.max_passes * len(pairs) if self.beta else len(pairs)
        with progress(self._owner, total, enabled=self.verbose) as advance:
            while True:
                self._learn(X, pairs, y, advance)
                passes += 1
                largest, R, equal = self._judged(X, pairs, y)
                distance = (self.total_loss_ - before) / R
                if largest <= beta or distance > separator or passes == self.max_passes:
                    break
        self.n_passes_, self.largest_loss_ = passes, largest
        if equal:
            warnings.warn(
                f"{self._owner}: {equal} pairs of equal points are called dissimilar; no metric "
                "can set them apart, so they are left out.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if largest > beta:
            warnings.warn(
                f"{self._owner}: after {passes} passes a pair still loses {largest:.3g}, more than "
                f"beta = {beta:.3g}. {_why(distance, separator)}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _judged(self, X: Any, pairs: NDArray[np.intp], y: Array) -> tuple[float, float, int]:
        """Give the largest loss under the last state, R, and how many pairs are hopeless."""
        largest, longest, equal = 0.0, 0.0, 0
        for block in row_blocks(len(pairs), self._block):
            Z = self._differences(X, pairs[block])
            lengths = np.asarray(squared(Z).sum(axis=1), dtype=np.float64).ravel()
            distances = row_products(np.asarray(Z @ self.A_), Z)
            losses = np.maximum(0.0, y[block] * (distances - self.b_) + 1.0)
            hopeless = (lengths == 0.0) & (y[block] < 0)
            equal += int(hopeless.sum())
            largest = max(largest, float(losses[~hopeless].max(initial=0.0)))
            longest = max(longest, float(lengths.max(initial=0.0)))
        return largest, longest**2 + self._rho + self._slack, equal


def _why(distance: float, separator: float) -> str:
    if distance > separator:
        return (
            f"No metric with |A - A_1|² + (b - b_1)²/ρ ≤ {separator:.3g} separates these pairs: "
            "it would have stopped the losses by now."
        )
    return (
        f"A metric that separates these pairs has |A - A_1|² + (b - b_1)²/ρ ≥ {distance:.3g}, if "
        "there is one; raise max_passes, or set beta=None and gamma > 0 for pairs that contradict."
    )
