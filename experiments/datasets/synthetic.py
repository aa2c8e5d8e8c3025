"""A generated problem with a known answer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from similia.contract import Indices
from similia.validation import boolean, check_parameters, non_negative, positive_integer, seed


@dataclass(frozen=True)
class Clusters:
    """Points X (n, d), labels y (n,), and the distance matrix M (d, d) that tells them apart.

    M is the projection on the informative directions: (x − z)ᵀM(x − z) ignores the nuisance.
    """

    X: NDArray[np.float64]
    y: Indices
    M: NDArray[np.float64]


def make_clusters(
    n_samples: int = 300,
    n_features: int = 10,
    n_classes: int = 3,
    *,
    n_informative: int = 2,
    separation: float = 8.0,
    nuisance: float = 10.0,
    rotate: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> Clusters:
    """Draw classes that are clear in a few directions and drowned by the others.

    In the first `n_informative` coordinates class c is a standard normal cloud around its center,
    and the two nearest centers are `separation` apart; the other coordinates are normal with
    standard deviation `nuisance` and independent of the class. Then, with `rotate`, one random
    orthogonal matrix is applied to all points. Euclidean neighbors say little; under `M` nearly all
    neighbors are of one class.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
        Points, dimensions, classes; class sizes differ by at most one.
    n_informative : int
        Informative directions, at most `n_features`.
    separation : float
        Smallest distance between centers, in standard deviations of a class.
    nuisance : float
        Standard deviation of the other directions.
    rotate : bool
        Hide the informative directions from coordinate-wise methods.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> from experiments.datasets import make_clusters
    >>> data = make_clusters(random_state=0)
    >>> data.X.shape, int(round(data.M.trace()))
    ((300, 10), 2)
    """
    counts = ("n_samples", "n_features", "n_classes", "n_informative")
    scales = dict.fromkeys(("separation", "nuisance"), non_negative)
    others = {**scales, "rotate": boolean, "random_state": seed}
    rules = {**dict.fromkeys(counts, positive_integer), **others}
    check_parameters("make_clusters", rules, locals())
    if n_informative > n_features:
        raise ValueError(
            f"make_clusters: n_informative must be at most n_features, {n_features}, "
            f"got {n_informative}."
        )
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % n_classes).astype(np.intp)
    X = rng.standard_normal((n_samples, n_features))
    X[:, n_informative:] *= nuisance
    X[:, :n_informative] += _centers(n_classes, n_informative, separation, rng)[y]
    R = np.eye(n_features)
    if rotate:
        R = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    informative = R[:, :n_informative]
    return Clusters(X @ R.T, y, informative @ informative.T)


def _centers(
    n_classes: int, n_informative: int, separation: float, rng: np.random.RandomState
) -> NDArray[np.float64]:
    """Normal points, scaled so that the nearest two are `separation` apart."""
    centers = rng.standard_normal((n_classes, n_informative))
    return centers if n_classes == 1 else centers * (separation / pdist(centers).min())
