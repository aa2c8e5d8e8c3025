"""Distances to aim at where only classes are known."""

from typing import Any

import numpy as np

from similia.base import Array
from similia.linalg.blocks import dense, difference_of_rows

#: random pairs from which the bounds are estimated
SAMPLE = 1000


def typical_bounds(X: Any) -> Array:
    """Give the 5th and the 95th percentile of the Euclidean distances of random pairs of rows."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(X.shape[0], size=(SAMPLE, 2))
    Z = dense(difference_of_rows(X, pairs[:, 0], pairs[:, 1], np.float64))
    distances = np.sqrt((Z**2).sum(axis=1))
    distances = distances[distances > 0]
    return np.percentile(distances, [5, 95]) if len(distances) else np.ones(2)
