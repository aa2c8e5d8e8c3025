"""POLA: pseudo-metrics learnt online by projections."""

from typing import Any, ClassVar

import numpy as np

from similia.contract import Array
from similia.distance.passes import BatchDistance
from similia.validation import array, one_of


class POLA(BatchDistance):
    """Pseudo-metric and threshold learnt from pairs by projections.

    Similar pairs should be closer than the threshold, √(b - 1), dissimilar ones farther apart than
    √(b + 1). A pair with difference v that is not (y = 1: similar, -1: dissimilar) moves (A, b) to
    the nearest point that satisfies it, and from there to the nearest with A ⪰ 0 and b ≥ 1
    [ShalevShwartz2004]:

        ℓ = max(0, y(vᵀAv - b) + 1),   α = ℓ / (|v|⁴ + ρ + σ),   A -= yα vvᵀ,   b += yρα,

    with ρ = `threshold_rate` unit⁴ and σ = `gamma` unit⁴, and the one negative eigenvalue that a
    similar pair can cause is removed. The paper's form is
    ``POLA(gamma=0, start="zero", unit=1, threshold_rate=1, average=False)``. The defaults are those
    of an adapter: they start from the distance that is there, and measure with the mean of all
    states.

    Parameters
    ----------
    gamma : number of at least 0
        0 satisfies each pair in full; a larger number makes smaller steps, for judgements that
        contradict each other: try 10 where classes are many.
    start : {"identity", "zero"} or array of shape (n_features, n_features)
        A before the first pair: the Euclidean distance, nothing, or a positive semidefinite matrix.
        The threshold starts at the mean squared distance of random points, at least at 1.
    start_scale : positive number
        That mean squared distance with "identity". The margin is 1, so the larger it is, the fewer
        pairs are in need of a step.
    unit : "auto" or positive number
        Length that counts as 1, for it matters how |v|⁴ compares with 1. "auto" takes the root
        mean square distance of random points, so that the units of X do not matter.
    threshold_rate : positive number
        How readily b moves, against A; 1 in the paper.
    beta : positive number or None
        With a number, `fit` and `fit_pairs` go through their pairs again and again, until none of
        them has a loss above it.
    max_passes : int
        Most passes they make then.
    average : bool
        Measure with the mean of the states over the stream instead of the last one.
    sampler : {"balanced", "uniform"} or function (y, n, rng) -> (pairs, signs)
        How `fit` and `partial_fit` draw pairs from labels.
    n_pairs : int
        How many they draw at each call.
    n_components : int or None
        Directions that distances and `transform` keep, those of the largest eigenvalues; None: all.
    random_state : int, RandomState or None
        Seed of that drawing.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    A_ : array of shape (n_features, n_features)
    b_ : float
        Threshold of the squared distances under `A_`.
    A_average_, b_average_ : array of the same shape, float
        Means of the states over the stream, with ``average=True``.
    threshold_ : float
        The one of the two thresholds that goes with the distances.
    components_ : array of shape (n_features or n_components, n_features)
        L with A = LᵀL.
    unit_ : float
        The unit of length in use.
    total_loss_ : float
        Sum of ℓ² over the stream: Theorem 1 bounds it where some metric explains all pairs.
    n_passes_, largest_loss_ : int, float
        Passes that were made with `beta` or by `fit_pairs`, and the largest loss of a pair under
        `A_` and `b_` at their end.
    n_seen_, n_updates_ : int

    Notes
    -----
    The negative eigenvalue is found by Lanczos started at v, in tens of products with A, and
    rank-one terms wait until they can be added together; the states are those of the one-at-a-time
    form up to rounding.

    Two equal points that are called similar change nothing. Neither do two equal points that are
    called dissimilar, for no metric can set them apart: the printed update would put b back to 1.

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

    _rules: ClassVar = {
        **BatchDistance._rules,
        "start": one_of("identity", "zero") | array,
    }

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        start: Any = "identity",
        start_scale: float = 30.0,
        unit: Any = "auto",
        threshold_rate: float = 0.01,
        beta: float | None = None,
        max_passes: int = 100,
        average: bool = True,
        sampler: Any = "balanced",
        n_pairs: int = 10_000,
        n_components: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.gamma = gamma
        self.start = start
        self.start_scale = start_scale
        self.unit = unit
        self.threshold_rate = threshold_rate
        self.beta = beta
        self.max_passes = max_passes
        self.average = average
        self.sampler = sampler
        self.n_pairs = n_pairs
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def _start(self, X: Any, typical: float) -> tuple[Array, float]:
        n = X.shape[1]
        if not isinstance(self.start, str):
            A = self._checked_start(n)
            return A.astype(X.dtype), typical * float(np.trace(A)) / n
        scale = self.start_scale if self.start == "identity" else 0.0
        return np.eye(n, dtype=X.dtype) * X.dtype.type(scale / typical), scale

    def _checked_start(self, n: int) -> Array:
        """Give the given matrix, exactly symmetric, or raise the house error."""
        start = self.start
        if start.shape != (n, n) or start.dtype.kind not in "fiu" or not np.isfinite(start).all():
            raise ValueError(
                f"{self._owner}: start must be a finite array of shape {(n, n)}, "
                f"got one of shape {start.shape} and dtype {start.dtype}."
            )
        half = 0.5 * (start + start.T)
        size = np.abs(half).max()
        if np.abs(start - half).max() > 1e-6 * size or np.linalg.eigvalsh(half)[0] < -1e-6 * size:
            raise ValueError(
                f"{self._owner}: start must be a symmetric positive semidefinite matrix."
            )
        return half
