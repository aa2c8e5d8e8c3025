"""A number for each row of a matrix, dense or CSR, by which equal rows are recognised."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.linalg.blocks import row_blocks

#: of the multipliers
KEY_SEED = 5
ROWS_A_BLOCK = 256  #: rows that are mixed at a time
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@cache
def _multipliers(n: int) -> NDArray[np.uint64]:
    """Odd random numbers."""
    drawn = np.random.default_rng(KEY_SEED).integers(2**63, size=n, dtype=np.uint64)
    return 2 * drawn + np.uint64(1)


@cache
def _key_of_zeros(n: int) -> np.uint64:
    return _mixed(np.zeros(n), _multipliers(n)).sum()


def row_keys(X: Any) -> NDArray[np.uint64]:
    """Σ_i mix((bits of x_i + 1) k_i), mixed again, modulo 2⁶⁴, for odd random k_i.

    Equal rows in single precision have equal keys, whether they are dense or sparse. Each place of
    a sparse matrix may have one entry at most.
    """
    k = _multipliers(X.shape[1])
    totals = np.zeros(X.shape[0], np.uint64)
    if sparse.issparse(X):
        # The sum of a row of zeros, with what its entries change.
        k = k[X.indices]
        changes = np.append(np.uint64(0), np.cumsum(_mixed(X.data, k) - _mixed(0.0 * X.data, k)))
        totals += _key_of_zeros(X.shape[1])
        totals += changes[X.indptr[1:]] - changes[X.indptr[:-1]]
    else:
        for block in row_blocks(len(X), ROWS_A_BLOCK):
            totals[block] = _mixed(X[block], k).sum(axis=1)
    return (totals ^ (totals >> np.uint64(32))) * GOLDEN


def _mixed(values, multipliers):
    bits = (np.asarray(values, np.float32) + np.float32(0)).view(np.uint32)  # -0 becomes 0
    mixed = (bits + np.uint64(1)) * multipliers
    return mixed ^ (mixed >> np.uint64(29))
