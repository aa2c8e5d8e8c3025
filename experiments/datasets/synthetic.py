"""Generated problems with known answers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from similia.contract import Array, Indices, Matrix
from similia.validation import (
    Rule,
    boolean,
    check_parameters,
    non_negative,
    positive,
    positive_integer,
    seed,
)

BLOCK = 1 << 14
_share = Rule("a number above 0 and at most 1", lambda v: positive.holds(v) and v <= 1)


@dataclass(frozen=True)
class BilinearTriplets:
    """A bilinear similarity and triplets that follow it.

    queries (n_queries, m) and items (n_items, n) are the points, triplets (n_triplets, 3) rows of
    (query, better item, worse item), and W (m, n) the similarity qᵀWp behind them.
    """

    queries: Matrix
    items: Matrix
    triplets: Indices
    W: NDArray[np.float64]


@dataclass(frozen=True)
class Clusters:
    """Points X (n, d), labels y (n,), and the distance matrix M (d, d) that tells them apart.

    M is the projection on the informative directions: (x − z)ᵀM(x − z) ignores the nuisance.
    """

    X: NDArray[np.float64]
    y: Indices
    M: NDArray[np.float64]


def make_bilinear_triplets(
    n_queries: int = 100,
    n_items: int = 200,
    n_query_features: int = 20,
    n_item_features: int = 30,
    n_triplets: int = 5000,
    *,
    rank: int = 5,
    noise: float = 0.0,
    density: float = 1.0,
    random_state: int | np.random.RandomState | None = None,
) -> BilinearTriplets:
    """Draw triplets that a known bilinear similarity of low rank orders.

    W = ABᵀ/√rank with standard normal A, B. A query q and two different items p, p′ are drawn
    uniformly; with g = qᵀW(p − p′) and standard normal ε, p is the better one if
    g + noise · s · ε > 0, where s is the standard deviation of g over the triplets.

    Parameters
    ----------
    n_queries, n_items : int
        Numbers of points; at least two items.
    n_query_features, n_item_features : int
        Dimensions m and n, which may differ.
    n_triplets : int
        Triplets drawn, with replacement.
    rank : int
        Rank of W, at most the smaller dimension.
    noise : float
        0 makes W satisfy every triplet; 1 reverses about a quarter of them, as the sign of a sum of
        two independent variables of equal variance.
    density : float
        1 draws dense standard normal points; less draws csr_arrays with about this share of normal
        entries and at least one in each row.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.datasets import make_bilinear_triplets
    >>> data = make_bilinear_triplets(random_state=0)
    >>> scores = data.queries @ data.W @ data.items.T
    >>> query, better, worse = data.triplets.T
    >>> bool(np.all(scores[query, better] > scores[query, worse]))
    True
    """
    counts = ("n_queries", "n_items", "n_query_features", "n_item_features", "n_triplets", "rank")
    others = {"noise": non_negative, "density": _share, "random_state": seed}
    rules = {**dict.fromkeys(counts, positive_integer), **others}
    check_parameters("make_bilinear_triplets", rules, locals())
    if rank > min(n_query_features, n_item_features):
        raise ValueError(
            "make_bilinear_triplets: rank must be at most the smaller number of features, "
            f"{min(n_query_features, n_item_features)}, got {rank}."
        )
    if n_items < 2:
        raise ValueError("make_bilinear_triplets: n_items must be at least 2, got 1.")
    rng = check_random_state(random_state)
    A = rng.standard_normal((n_query_features, rank))
    B = rng.standard_normal((n_item_features, rank))
    W = A @ B.T / np.sqrt(rank)
    queries = _points(n_queries, n_query_features, density, rng)
    items = _points(n_items, n_item_features, density, rng)
    triplets = np.empty((n_triplets, 3), dtype=np.intp)
    triplets[:, 0] = rng.randint(n_queries, size=n_triplets)
    triplets[:, 1] = rng.randint(n_items, size=n_triplets)
    triplets[:, 2] = (triplets[:, 1] + rng.randint(1, n_items, size=n_triplets)) % n_items
    gaps = _gaps(queries @ A / np.sqrt(rank), items @ B, triplets)
    gaps += noise * gaps.std() * rng.standard_normal(n_triplets)
    swapped = gaps < 0
    triplets[swapped, 1:] = triplets[swapped, :0:-1]
    return BilinearTriplets(queries, items, triplets, W)


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
    scales = {"separation": non_negative, "nuisance": non_negative}
    rules = {
        **dict.fromkeys(counts, positive_integer),
        **scales,
        "rotate": boolean,
        "random_state": seed,
    }
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


def _points(n: int, n_features: int, density: float, rng: np.random.RandomState) -> Matrix:
    if density == 1:
        return rng.standard_normal((n, n_features))
    entries = sparse.random(
        n, n_features, density, random_state=rng, data_rvs=rng.standard_normal, format="csr"
    )
    # A row without entries would tie in every triplet.
    places = (np.arange(n), rng.randint(n_features, size=n))
    one_each = sparse.csr_array((rng.standard_normal(n), places), shape=(n, n_features))
    return sparse.csr_array(entries) + one_each


def _gaps(queries: Array, items: Array, triplets: Indices) -> NDArray[np.float64]:
    """<query, better − worse> for each triplet of low-rank vectors, a block at a time."""
    gaps = np.empty(len(triplets))
    for start in range(0, len(triplets), BLOCK):
        query, better, worse = triplets[start : start + BLOCK].T
        difference = items[better] - items[worse]
        np.einsum("ij,ij->i", queries[query], difference, out=gaps[start : start + BLOCK])
    return gaps


def _centers(
    n_classes: int, n_informative: int, separation: float, rng: np.random.RandomState
) -> NDArray[np.float64]:
    """Normal points, scaled so that the nearest two are `separation` apart."""
    centers = rng.standard_normal((n_classes, n_informative))
    return centers if n_classes == 1 else centers * (separation / pdist(centers).min())
