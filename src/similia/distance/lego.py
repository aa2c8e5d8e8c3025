"""LEGO: online LogDet metric learning."""

from typing import Any, ClassVar

import numpy as np

from similia.contract import Array
from similia.distance.base import MahalanobisDistance
from similia.updates.lego import lego_pass
from similia.validation import one_of, pair_of_numbers, positive


class LEGO(MahalanobisDistance):
    """Mahalanobis distance learnt from pairs by LogDet-regularised steps.

    A pair with difference z and target y for its squared distance ŷ = zᵀAz moves A to

        argmin over B ≻ 0 of D_logdet(B, A) + η/2 (zᵀBz - y)²,

    which is a rank-one change of A and keeps it positive definite without a projection [Jain2008].

    Parameters
    ----------
    feedback : {"labels", "distances"}
        What `learn` is given for a pair: +1 (similar) or -1 (dissimilar), as `fit` draws them from
        class labels; or the distance that the pair should have.
    bounds : "auto" or (number, number)
        With labels: similar pairs should be no farther apart than the first distance, dissimilar
        ones no closer than the second; pairs that are so already need no step. "auto" takes the 5th
        and 95th percentile of the Euclidean distances of random pairs, as ITML does.
    eta : positive number
        Larger eta follows each pair more closely.
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
    A_average_ : array of the same shape
        Mean of the states over the stream, with ``average=True``.
    components_ : array of shape (n_features or n_components, n_features)
        L with A = LᵀL.
    bounds_ : array of shape (2,)
        The distances in use.
    n_seen_, n_updates_ : int

    Notes
    -----
    A pair costs 4 d² flops in matrix products over blocks; the states are those of the
    one-at-a-time form up to rounding.

    References
    ----------
    .. [Jain2008] P. Jain, B. Kulis, I. Dhillon, K. Grauman, "Online Metric Learning and Fast
       Similarity Search", NIPS 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import LEGO
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = LEGO(n_pairs=2000, random_state=0).fit(X, y)
    >>> distance = learner.pairwise_distance(X[[0, 1, 149]])
    >>> bool(distance[0, 1] < distance[0, 2])
    True
    """

    divergence = "logdet"

    _rules: ClassVar = {
        **MahalanobisDistance._rules,
        "feedback": one_of("labels", "distances"),
        "bounds": one_of("auto") | pair_of_numbers,
        "eta": positive,
    }
    _state: ClassVar = (*MahalanobisDistance._state, "bounds_")

    def __init__(
        self,
        *,
        feedback: str = "labels",
        bounds: Any = "auto",
        eta: float = 0.1,
        average: bool = True,
        sampler: Any = "balanced",
        n_pairs: int = 50_000,
        n_components: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.feedback = feedback
        self.bounds = bounds
        self.eta = eta
        self.average = average
        self.sampler = sampler
        self.n_pairs = n_pairs
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def _init_state(self, X: Any) -> None:
        super()._init_state(X)
        bounds = self._typical_bounds(X) if isinstance(self.bounds, str) else self.bounds
        self.bounds_ = np.asarray(bounds, dtype=np.float64)

    def _checked_feedback(self, where: str, y: Array) -> Array:
        if self.feedback == "labels":
            return super()._checked_feedback(where, y)
        if y.ndim != 1 or y.dtype.kind not in "fiu" or not (np.isfinite(y) & (y >= 0)).all():
            raise ValueError(f"{where}: y must be an array of finite distances of at least 0.")
        return y.astype(np.float64)

    def _feedback_of_signs(self, signs: Array) -> Array:
        if self.feedback == "labels":
            return signs
        near, far = self.bounds_
        return np.asarray(np.where(signs > 0, near, far))

    def _learn_block(self, Z: Any, y: Array) -> int:
        return lego_pass(self.A_, self.moment_, self.n_seen_, Z, self._targets(y), float(self.eta))

    def _targets(self, y: Array) -> Array:
        """Give the lowest and the highest squared distance that needs no step, for each pair."""
        if self.feedback == "distances":
            return np.column_stack([y, y]) ** 2
        near, far = self.bounds_**2
        similar = y > 0
        return np.column_stack([np.where(similar, 0.0, far), np.where(similar, near, np.inf)])
