"""What items have in common: the few directions in which any two of them differ most."""

import numpy as np

from similia.contract import Array, Matrix
from similia.linalg.blocks import dense, rows_of
from similia.linalg.threads import single_blas_thread

#: random pairs of items from which directions are measured, and how many are kept
PAIRS, DIRECTIONS = 1000, 64


def common_directions(items: Matrix) -> tuple[float, Array]:
    """Return a and A of S = a(I - AAᵀ), how a vector for one query varies before any feedback.

    A vector changes the scores of all items, most of them by mistake. The one that does least for
    what it says about a few is small where items differ most: with the covariance C of differences
    between two random items, of length 1, S is that of the precision I + nC. C is measured on N
    items, so it counts as if there were n more that differ in all n directions alike. Of S only the
    leading directions are kept, and a leaves the mean of uᵀSu over the differences u at 1.
    """
    n, N = items.shape[1], min(items.shape[0], PAIRS)
    A = np.zeros((n, min(n, DIRECTIONS)), items.dtype)
    one, other = np.random.default_rng(2).integers(items.shape[0], size=(2, PAIRS))
    rows = [dense(rows_of(items, chosen, np.float64)) for chosen in (one, other)]
    with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
        apart = rows[0] - rows[1]
        apart /= np.maximum(np.abs(apart).max(axis=1, keepdims=True), 1e-300)
        apart /= np.linalg.norm(apart, axis=1, keepdims=True)
        apart = apart[np.isfinite(apart).all(axis=1)]
        if not len(apart):
            return 1.0, A
        narrow = apart if len(apart) < n else apart.T
        values, vectors = np.linalg.eigh(narrow @ narrow.T / len(apart))
        first = np.argsort(-values, kind="stable")[: A.shape[1]]
        values, vectors = values[first], vectors[:, first]
        if len(apart) < n:
            vectors = apart.T @ vectors / np.sqrt(len(apart) * np.maximum(values, 1e-12))
        # precision along each direction, relative to one in which items do not differ
        even = n / (N + n)
        precision = (1 + even + (1 - even) * n * np.maximum(values, 0.0)) / (1 + even)
        left = 1 - 1 / precision
        A[:, : len(first)] = vectors * np.sqrt(left)
    return float(1 / (1 - left @ values)), A
