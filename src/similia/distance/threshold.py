"""Distances with a threshold between similar and dissimilar, learnt by projections."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import all_or_nothing
from similia.contract import Array, Indices, Matrix, State
from similia.distance.base import MahalanobisDistance
from similia.linalg.blas import row_products
from similia.linalg.blocks import squared
from similia.parameters import parameter
from similia.progress import progress
from similia.updates.pola import pola_pass
from similia.validation import (
    between,
    check_parameters,
    non_negative,
    none,
    one_of,
    positive,
    positive_integer,
)

#: lengths and scales beyond this could overflow in a fourth power
LARGEST = 1e70


class ThresholdedDistance(MahalanobisDistance):
    """What POLA and its kernel form share: the step, the threshold, passes, decisions on pairs."""

    gamma: float = parameter(
        default=1.0,
        rule=non_negative,
        doc="0 satisfies each pair in full; larger gamma makes shorter steps, for judgements that "
        "contradict each other: try 10 with many classes.",
    )
    start: str | Array = parameter(
        default="identity",
        rule=one_of("identity", "zero"),
        doc="The metric before the first pair: the distance of feature vectors, or none.",
    )
    start_scale: float = parameter(
        default=30.0,
        rule=between(0, LARGEST),
        doc='Mean squared distance of random points before the first pair, with "identity". The '
        "margin is 1, so the larger the scale, the fewer pairs need a step.",
    )
    unit: str | float = parameter(
        default="auto",
        rule=one_of("auto") | between(0, LARGEST),
        doc='Length that counts as 1, because |v|⁴ is compared with 1. "auto" takes the root mean '
        "square distance of random points, so that the units of X do not matter.",
    )
    threshold_rate: float = parameter(
        default=0.01,
        rule=positive,
        doc="How readily b moves, compared with A; 1 in the paper.",
    )
    beta: float | None = parameter(
        default=None,
        rule=none | positive,
        doc="With a number, `fit` and `fit_pairs` repeat their pairs until none has a larger loss.",
    )
    max_passes: int = parameter(
        default=100, rule=positive_integer, doc="Limit of those repetitions."
    )
    n_pairs: int = parameter(
        default=10_000,
        rule=positive_integer,
        doc="Pairs drawn by each call of `fit` and `partial_fit`.",
    )

    divergence = "frobenius"
    _state: ClassVar = (*MahalanobisDistance._state, "b_", "b_moment_", "unit_", "total_loss_")

    # -- learning ------------------------------------------------------------------------------

    def _init_state(self, X: Matrix) -> None:
        squares = self._random_squares(X)
        typical = float(squares.mean()) if len(squares) else 1.0
        self._check_typical(typical, X.dtype)
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.A_, b = self._start(X, typical)
        self._init_moment()
        self.b_ = float(max(b, 1.0))
        self.b_moment_ = 0.0
        self.unit_ = float(np.sqrt(typical) if isinstance(self.unit, str) else self.unit)
        self.total_loss_ = 0.0
        for name in {"n_passes_", "largest_loss_"} & set(vars(self)):
            delattr(self, name)

    def _check_typical(self, typical: float, dtype: np.dtype[np.floating]) -> None:
        """Refuse to scale by distances whose fourth powers vanish: states would turn into NaN."""
        least = float(np.finfo(dtype).max) ** -0.4
        identity = isinstance(self.start, str) and self.start == "identity"
        if (identity or isinstance(self.unit, str)) and typical < least:
            raise ValueError(
                f"{self._owner}: X must have points that typically differ by at least "
                f"{least**0.5:.1e} for {dtype}, got {typical**0.5:.1e}; scale it up."
            )

    @abstractmethod
    def _start(self, X: Matrix, typical: float) -> tuple[Array, float]:
        """A and b before the first pair, for points of that mean squared distance."""

    def _learn_block(self, Z: Matrix, targets: Array) -> int:
        threshold = np.array([self.b_, self.b_moment_])
        losses = np.zeros(len(targets))
        state = (self.A_, threshold, self.moment_, self.n_seen_)
        updates = pola_pass(*state, Z, targets, losses, self._rho, self._slack)
        self.b_, self.b_moment_ = threshold.tolist()
        self.total_loss_ += float(losses @ losses)
        return updates

    @property
    def _rho(self) -> float:
        return self.threshold_rate * self.unit_**4

    @property
    def _slack(self) -> float:
        return self.gamma * self.unit_**4

    def _merged_state(self, parts: Sequence[Self]) -> State:
        gap = self._mean_over(parts, [part.b_moment_ / (part.n_seen_ + 1) for part in parts])
        n_seen = self.n_seen_ + sum(part.n_seen_ - self.n_seen_ for part in parts)
        return {
            **super()._merged_state(parts),
            "b_": float(self._mean_over(parts, [part.b_ for part in parts])),
            "b_moment_": float(gap * (n_seen + 1)),
            "total_loss_": self.total_loss_ + sum(p.total_loss_ - self.total_loss_ for p in parts),
        }

    # -- passes over a fixed set of pairs ------------------------------------------------------

    def fit_pairs(
        self, X: Matrix, pairs: ArrayLike, y: ArrayLike, separator: float | None = None
    ) -> Self:
        """Forget, then pass over the pairs until none loses more than `beta`; once if it is None.

        If some A* ⪰ 0 and b* ≥ 1 leave no pair a loss, the losses of all passes satisfy

            Σ ℓ² ≤ R D,   D = |A* - A_1|² + (b* - b_1)²/ρ,   R = max |v|⁴ + ρ + σ,

        so ⌈RD/β²⌉ passes are enough; if the sum exceeds R D, there is no such metric.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X` that are compared.
        y : array of shape (n_pairs,)
            +1 for similar, -1 for dissimilar.
        separator : number or None
            D of a metric believed to exist: stop as soon as it is refuted.

        Returns
        -------
        The learner itself, with `n_passes_` and `largest_loss_`. If a pair still loses more than
        `beta`, a ConvergenceWarning says why. On an error nothing has changed.
        """
        self._check_parameters()
        rules, values = {"separator": none | non_negative}, {"separator": separator}
        check_parameters(f"{self._owner}.fit_pairs", rules, values)
        given, (X, pairs, y) = X, self._checked_judgements("fit_pairs", X, pairs, y, reset=True)
        with all_or_nothing(self):
            validate_data(self, given, reset=True, skip_check_array=True)
            self._init_state(X)
            self._pass(X, pairs, y, math.inf if separator is None else separator)
        return self

    def _learn_from_labels(self, X: Matrix, labels: Array) -> Self:
        if self.beta is None:
            return super()._learn_from_labels(X, labels)
        pairs, signs = map(np.concatenate, zip(*self._drawn(labels), strict=True))
        self._pass(X, pairs, signs, math.inf)
        return self

    def _pass(self, X: Matrix, pairs: Indices, y: Array, separator: float) -> None:
        """Repeat the pairs until all are satisfied, `separator` is refuted or passes run out."""
        beta = math.inf if self.beta is None else self.beta
        before = self.total_loss_
        passes = 0
        total = self.max_passes * len(pairs) if self.beta else len(pairs)
        with progress(self._owner, total, enabled=self.verbose) as advance:
            while True:
                self.learn_checked(X, pairs, y, advance)
                passes += 1
                largest, R, equal = self._judged(X, pairs, y)
                distance = (self.total_loss_ - before) / R
                if largest <= beta or distance > separator or passes == self.max_passes:
                    break
        self.n_passes_, self.largest_loss_ = passes, largest
        notices = []
        if equal:
            notices.append(
                f"{equal} pairs of equal points are called dissimilar; no metric can set them "
                "apart, so they are left out."
            )
        if largest > beta:
            notices.append(
                f"after {passes} passes a pair still loses {largest:.3g}, more than "
                f"beta = {beta:.3g}. {_why(distance, separator)}"
            )
        for notice in notices:
            warnings.warn(f"{self._owner}: {notice}", ConvergenceWarning, stacklevel=3)

    def _judged(self, X: Matrix, pairs: Indices, y: Array) -> tuple[float, float, int]:
        """Largest loss under the last state, R, and the number of hopeless pairs."""
        largest, longest, equal = 0.0, 0.0, 0
        for block in self._blocks(len(pairs)):
            Z = self._differences(X, pairs[block])
            lengths = np.asarray(squared(Z).sum(axis=1), dtype=np.float64).ravel()
            distances = row_products(np.asarray(Z @ self.A_), Z)
            losses = np.maximum(0.0, y[block] * (distances - self.b_) + 1.0)
            hopeless = (lengths == 0.0) & (y[block] < 0)
            equal += int(hopeless.sum())
            largest = max(largest, float(losses[~hopeless].max(initial=0.0)))
            longest = max(longest, float(lengths.max(initial=0.0)))
        return largest, longest**2 + self._rho + self._slack, equal

    # -- using ---------------------------------------------------------------------------------

    @property
    def b_average_(self) -> float:
        """Mean of the thresholds b_0 … b_T; kept only with ``average=True``."""
        self._check_average()
        return self.b_ - self.b_moment_ / (self.n_seen_ + 1)

    @property
    def threshold_(self) -> float:
        """Threshold that goes with the squared distances of `pairwise_score`."""
        check_is_fitted(self)
        return self.b_average_ if self.average else self.b_

    def decision_function(self, X: Matrix, pairs: ArrayLike | None = None) -> Array:
        """Threshold minus the squared distance of each pair: positive means similar.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2), optional
            Rows of `X` that are compared. Without it each row is compared with the origin, so `X`
            may hold the differences themselves.

        Returns
        -------
        decisions : array of shape (n_pairs,)
        """
        X = self._checked(X)
        if pairs is not None:
            return self.threshold_ - self._pair_squares("decision_function", X, pairs)
        return self.threshold_ - (np.asarray(self._mapped(X) @ self._factor().T) ** 2).sum(axis=1)

    def predict(self, X: Matrix, pairs: ArrayLike | None = None) -> Array:
        """+1 (similar) or -1 (dissimilar) for each pair; see `decision_function`."""
        return np.where(self.decision_function(X, pairs) >= 0, 1, -1)


def _why(distance: float, separator: float) -> str:
    if distance > separator:
        return (
            f"No metric with |A - A_1|² + (b - b_1)²/ρ ≤ {separator:.3g} separates these pairs: "
            "the losses would have stopped by now."
        )
    return (
        f"A metric that separates these pairs has |A - A_1|² + (b - b_1)²/ρ ≥ {distance:.3g}, if "
        "there is one; raise max_passes, or set beta=None and gamma > 0 for pairs that contradict."
    )
