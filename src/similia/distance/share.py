"""How far to follow what was learnt from labels: as far as it classifies its own points better."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from similia.contract import Array
from similia.linalg.spectral import psd_factor

#: share of the way from the start to what was learnt, where all of it is too much
KEPT_SHARE = 0.25
#: points that are classified, and points that they are classified by
NEIGHBOR_QUERIES, NEIGHBOR_ITEMS = 5000, 10_000


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
