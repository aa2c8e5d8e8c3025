"""POLA: pseudo-metrics learnt online by projections."""

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from similia.contract import Array, Indices, Matrix, State
from similia.distance.base import SINGLE_ROUNDING, MahalanobisDistance
from similia.distance.feedback import LARGEST_NUMBER
from similia.linalg.blas import row_products
from similia.linalg.blocks import dense, rows_of
from similia.linalg.spectral import hermitian_part, psd_factor
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import progress
from similia.safety.whole import all_or_nothing
from similia.updates.pola import pola_pass
from similia.validation import (
    Rule,
    array,
    between,
    check_hermitian,
    check_parameters,
    non_negative,
    none,
    one_of,
    positive,
    repetitions,
)

#: share of the way from the start to what was learnt, where all of it is too much
KEPT_SHARE = 0.25
#: points that are classified, and points that they are classified by
NEIGHBOR_QUERIES, NEIGHBOR_ITEMS = 5000, 10_000


class POLA(MahalanobisDistance):
    """Pseudo-metric and threshold learnt from pairs by projections.

    Similar pairs should be closer than √(b - 1), dissimilar ones farther apart than √(b + 1), where
    b is a learnt threshold. A pair with difference v (y = 1: similar, -1: dissimilar) that is not
    so moves (A, b) to the nearest point that satisfies it, and from there to the nearest one with
    A ⪰ 0 and b ≥ 1 [ShalevShwartz2004]:

        ℓ = max(0, y(vᵀAv - b) + 1),   α = ℓ / (|v|⁴ + ρ + σ),   A -= yα vvᵀ,   b += yρα,

    with ρ = `threshold_rate` unit⁴ and σ = `gamma` unit⁴; then the one negative eigenvalue that a
    similar pair can cause is removed. The paper's form is
    ``POLA(gamma=0, start="zero", unit=1, threshold_rate=1, average=False)``; the defaults adapt
    the Euclidean distance instead, measure with the mean of all states, and in `fit` go only part
    of the way where that classifies better.

    Attributes
    ----------
    A_ : array of shape (n_features, n_features)
    b_ : float
        Threshold of the squared distances under `A_`.
    A_average_, b_average_ : array of the same shape, float
        Means of the states over the stream, with ``average=True``.
    threshold_ : float
        `b_average_` or `b_`, whichever goes with the distances.
    components_ : array of shape (n_features or n_components, n_features)
        L with A = LᵀL.
    unit_ : float
        The unit of length in use.
    total_loss_ : float
        Sum of ℓ² over the stream: Theorem 1 bounds it where some metric explains all pairs.
    share_ : float
        After `fit`: the share of the way that was kept. Below 1, the threshold is the one that
        tells the last pairs apart best.
    n_passes_, largest_loss_ : int, float
        With `beta` or `fit_pairs`: passes made, and the largest loss of a pair under the final
        `A_` and `b_`.
    n_seen_, n_updates_ : int
        Pairs learnt from, and those of them that changed the state.

    Notes
    -----
    Lanczos started at v finds the negative eigenvalue in tens of products with A, and rank-one
    terms wait until they can be added together; the states are those of the one-at-a-time form up
    to rounding.

    Equal points change nothing, even if called dissimilar: no metric can set them apart, and the
    printed update would only reset b to 1.

    References
    ----------
    .. [ShalevShwartz2004] S. Shalev-Shwartz, Y. Singer, A. Ng, "Online and Batch Learning of
       Pseudo-Metrics", ICML 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import POLA
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = POLA(n_pairs=2000, random_state=0).fit(X, y)
    >>> learner.predict(X, [[0, 1], [0, 149]])
    array([ 1, -1])
    """

    gamma: float = parameter(
        default=1.0,
        rule=non_negative,
        doc="0 satisfies each pair in full; larger gamma makes shorter steps, for judgements that "
        "contradict each other.",
    )
    start: str | Array = parameter(
        default="identity",
        rule=one_of("identity", "zero") | array,
        doc="A before the first pair: the Euclidean distance, zero, or a positive semidefinite "
        "array of shape (n_features, n_features).",
    )
    start_threshold: str | float = parameter(
        default="auto",
        rule=one_of("auto")
        | Rule(f"a number from 1 to {LARGEST_NUMBER:g}", kind=Real, least=1, below=LARGEST_NUMBER),
        doc='b before the first pair: a number, 1 in the paper, or with "auto" the mean squared '
        "distance of random points at the start, at least 1.",
    )
    start_scale: float = parameter(
        default=30.0,
        rule=between(0, LARGEST_NUMBER),
        doc='Mean squared distance of random points before the first pair, with "identity". The '
        "margin is 1, so the larger the scale, the fewer pairs need a step.",
    )
    unit: str | float = parameter(
        default="auto",
        rule=one_of("auto") | between(0, LARGEST_NUMBER),
        doc='Length that counts as 1, because |v|⁴ is compared with 1. "auto" takes the root mean '
        "square distance of random points, so that the units of X do not matter.",
    )
    share: str | float = parameter(
        default="auto",
        rule=one_of("auto") | Rule("a number from 0 to 1", kind=Real, least=0, below=1 + 1e-12),
        doc="Share of the way from the start to what was learnt that the first `fit` keeps, 1 for "
        'all of it. "auto" is 1/4 unless points of X are classified better by their three nearest '
        "others after all of the way, beyond a standard error or as well exactly; with a start of "
        "zero or `beta` it is 1. `learn` keeps everything.",
    )
    threshold_rate: float = parameter(
        default=0.01, rule=positive, doc="How readily b moves, compared with A; 1 in the paper."
    )
    beta: float | None = parameter(
        default=None,
        rule=none | positive,
        doc="With a number, `fit` and `fit_pairs` repeat their pairs until none has a larger loss.",
    )
    max_passes: int = parameter(default=100, rule=repetitions, doc="Limit of those repetitions.")
    n_pairs: int = parameter(
        default=10_000, rule=repetitions, doc="Pairs drawn by `fit` and by `partial_fit`."
    )

    divergence = "frobenius"
    _state: ClassVar = (*MahalanobisDistance._state, "b_", "b_moment_", "unit_", "total_loss_")

    # -- learning ------------------------------------------------------------------------------

    def _init_metric(self, X: Matrix) -> None:
        squares = self._random_squares(X)
        typical = float(squares.mean()) if len(squares) else 1.0
        identity = isinstance(self.start, str) and self.start == "identity"
        least = float(np.finfo(X.dtype).max) ** -0.4  # below, fourth powers vanish
        if (identity or isinstance(self.unit, str)) and typical < least:
            raise ValueError(
                f"{self._owner}: X must have points that typically differ by at least "
                f"{least**0.5:.1e} for {X.dtype}, got {typical**0.5:.1e}; scale it up."
            )
        self.A_, b = self._start(X, typical)
        given = self.start_threshold
        self.b_ = float(max(b, 1.0) if isinstance(given, str) else given)
        self.unit_ = float(np.sqrt(typical) if isinstance(self.unit, str) else self.unit)
        self.b_moment_ = self.total_loss_ = 0.0
        for name in {"n_passes_", "largest_loss_", "share_"} & set(vars(self)):
            delattr(self, name)

    def _start(self, X: Matrix, typical: float) -> tuple[Array, float]:
        n = X.shape[1]
        if not isinstance(self.start, str):
            check_hermitian(self._owner, self.start, n, "fiu", SINGLE_ROUNDING)
            A = hermitian_part(self.start)
            if np.linalg.eigvalsh(A)[0] < -SINGLE_ROUNDING * np.abs(A).max():
                raise ValueError(f"{self._owner}: start must be positive semidefinite.")
            return A.astype(X.dtype), typical * float(np.trace(A)) / n
        scale = self.start_scale if self.start == "identity" else 0.0
        return np.eye(n, dtype=X.dtype) * X.dtype.type(scale / typical), scale

    def _learn_block(self, Z: Matrix, targets: Array) -> int:
        threshold, losses = np.array([self.b_, self.b_moment_]), np.zeros(len(targets))
        state = (self.A_, threshold, self.moment_, self.n_seen_)
        updates = pola_pass(*state, Z, targets, losses, *self._rates)
        self.b_, self.b_moment_ = threshold.tolist()
        self.total_loss_ += float(losses @ losses)
        return updates

    @property
    def _rates(self) -> tuple[float, float]:
        """The paper's ρ and σ, in units of the data."""
        return self.threshold_rate * self.unit_**4, self.gamma * self.unit_**4

    def _bolder(self, n: int) -> dict[str, Any]:
        return {"gamma": float(self.gamma) / n}

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
        with all_or_nothing(self):
            X = self._checked_points(X, reset=True)
            pairs, y = self._checked_pairs("fit_pairs", X, pairs, y)
            with single_blas_thread():
                self._init_state(X)
            self._pass(X, pairs, y, math.inf if separator is None else separator)
        return self

    def _learn_from_labels(self, X: Matrix, labels: Array) -> None:
        if self.beta is not None:
            pairs, signs = map(np.concatenate, zip(*self._drawn(labels), strict=True))
            self._pass(X, pairs, signs, math.inf)
            return
        first = self.A_.copy() if self.n_seen_ == 0 else None
        with progress(self._owner, self.n_pairs, enabled=self.verbose) as advance:
            for pairs, signs in self._drawn(labels):
                self._learn(X, pairs, signs, advance)
        if first is not None:
            self._keep_share(X, labels, self._first_metric(first), pairs, signs)

    def _first_metric(self, A: Array) -> Array:
        """The metric before the first pair, in the coordinates of `A_`."""
        return A

    def _keep_share(
        self, X: Matrix, labels: Array, first: Array, pairs: Indices, signs: Array
    ) -> None:
        """Go part of the way back to the first metric, if neighbors are better there."""
        share = self.share
        if isinstance(share, str):
            share = 1.0
            if first.any() and len(labels) > 3:
                rows = np.random.default_rng(0).permutation(len(labels))[:NEIGHBOR_ITEMS]
                Z = dense(self._mapped(rows_of(X, rows, X.dtype)))
                learnt = self._scoring_state()
                share = chosen_share(Z, labels[rows], first, learnt, self.n_components)
        self.share_ = float(share)
        if self.share_ == 1.0:
            return
        self.A_ = (1 - self.share_) * first + self.share_ * self.A_
        self.moment_ = self.share_ * self.moment_
        squares = self._pair_squares("fit", X, pairs)
        threshold = best_threshold(squares, signs)
        if threshold is not None:
            self.b_, self.b_moment_ = max(threshold, 1.0), 0.0

    def _pass(self, X: Matrix, pairs: Indices, y: Array, separator: float) -> None:
        """Repeat the pairs until all are satisfied, `separator` is refuted or passes run out."""
        beta = math.inf if self.beta is None else self.beta
        before, passes = self.total_loss_, 0
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
            lengths = row_products(Z, Z)
            distances = row_products(np.asarray(Z @ self.A_), Z)
            losses = np.maximum(0.0, y[block] * (distances - self.b_) + 1.0)
            hopeless = (lengths == 0.0) & (y[block] < 0)
            equal += int(hopeless.sum())
            largest = max(largest, float(losses[~hopeless].max(initial=0.0)))
            longest = max(longest, float(lengths.max(initial=0.0)))
        return largest, longest**2 + sum(self._rates), equal

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


# -- how far to follow what was learnt from labels -------------------------------------------------


def chosen_share(
    Z: Array, labels: Array, first: Array, learnt: Array, n_components: int | None = None
) -> float:
    """`KEPT_SHARE`, or 1 if all of `learnt` classifies the rows of Z better than that share of it.

    Each row is classified by its three nearest others. Better means right more often by at least
    the standard error of the difference, so that what makes none is kept.
    """
    part = (1 - KEPT_SHARE) * first + KEPT_SHARE * learnt
    some, whole = (_right(Z @ psd_factor(A, n_components).T, labels) for A in (part, learnt))
    gain = whole.astype(np.int8) - some
    return 1.0 if gain.mean() >= gain.std() / np.sqrt(len(gain)) else KEPT_SHARE


def _right(Z: Array, labels: Array) -> Array:
    """Whether each of the first rows has the label of most of its three nearest others."""
    index = NearestNeighbors(n_neighbors=min(4, len(Z)), algorithm="brute").fit(Z)
    found = index.kneighbors(Z[:NEIGHBOR_QUERIES], return_distance=False)
    own = np.arange(len(found))[:, None]
    # A row comes after its duplicates, or not at all.
    order = np.argsort(found == own, axis=1, kind="stable")
    a, b, c = labels[np.take_along_axis(found, order, axis=1)[:, :3]].T
    return np.where(b == c, b, a) == labels[: len(found)]


def best_threshold(squares: Array, signs: Array) -> float | None:
    """Threshold that tells similar (+1) from dissimilar pairs best, both kinds counting alike.

    None if only one kind is given.
    """
    order = np.argsort(squares, kind="stable")
    similar = signs[order] > 0
    if similar.all() or not similar.any():
        return None
    rise = np.where(similar, 1.0 / similar.sum(), -1.0 / (~similar).sum())
    i = int(np.cumsum(rise).argmax())
    return float(squares[order[i : i + 2]].mean())
