"""Triplets (a, b, c), a more like b than like c, as constraints on a kernel matrix."""

from typing import Any

import numpy as np

from similia.constraints.base import Constraints


class TripletConstraints(Constraints):
    """The mean of d(a, b)² - d(a, c)² over each group of consecutive triplets is ≤ -margin.

    Triplets that do not fill a group are left out.
    """

    def __init__(self, triplets: Any, n_objects: int, margin: float, group: int = 1) -> None:
        n = len(triplets) // group
        self.triplets, self.group = triplets[: n * group], group
        self.n_features = n_objects
        self.shifts = np.full(n, -margin)
        # The matrix of one triplet has the eigenvalues ±√3; a mean has none beyond.
        self._lowest, self._highest = np.full(n, -np.sqrt(3.0)), np.full(n, np.sqrt(3.0))

    def _values(self, W: Any, which: Any) -> Any:
        a, b, c = self.triplets.T
        own = np.diag(W)
        differences = own[b] - own[c] - 2.0 * (W[a, b] - W[a, c])
        return differences.reshape(-1, self.group).mean(axis=1)[which]

    def _combination(self, weights: Any) -> Any:
        each = np.repeat(weights / self.group, self.group)
        return weighted_sum(self.triplets, each, self.n_features)

    def matrix(self, j: int) -> Any:
        """C_j, dense."""
        weights = np.zeros(len(self))
        weights[j] = 1.0
        return self.combination(weights)


def weighted_sum(triplets: Any, weights: Any, n: int) -> Any:
    """M with tr(WM) = Σ weights·(d(a, b)² - d(a, c)²): the Laplacian of a signed graph."""
    a, b, c = triplets.T
    near, far = (np.bincount(a * n + other, weights, n * n) for other in (b, c))
    edges = (near - far).reshape(n, n)
    edges = edges + edges.T
    return np.diag(edges.sum(axis=1)) - edges
