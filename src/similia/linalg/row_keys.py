"""A number for each row of a matrix, dense or CSR, by which equal rows are recognised."""

from functools import cache

import numpy as np
from scipy import sparse

from similia.linalg.compiled import compiled

#: of the multipliers
KEY_SEED = 5
LAST = np.uint64(0x9E3779B97F4A7C15)
MINUS_ZERO = np.uint32(0x80000000)


@cache
def _multipliers(n):
    """Odd random numbers."""
    drawn = np.random.default_rng(KEY_SEED).integers(2**63, size=n, dtype=np.uint64)
    return 2 * drawn + np.uint64(1)


def row_keys(X):
    """Σ_i mix((bits of x_i + 1) k_i), mixed again, modulo 2⁶⁴, for odd random k_i.

    Equal rows in single precision have equal keys, whether they are dense or sparse. Each place of
    a sparse matrix may have one entry at most.
    """
    values = X.data if sparse.issparse(X) else X
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    multipliers = _multipliers(X.shape[1])
    if sparse.issparse(X):
        return _sparse_keys(X.indptr, X.indices, bits, multipliers)
    return _dense_keys(bits, multipliers)


@compiled
def _mixed(bits, multiplier):
    known = np.uint64(0) if bits == MINUS_ZERO else np.uint64(bits)  # -0 is 0
    mixed = (known + np.uint64(1)) * multiplier
    return mixed ^ (mixed >> np.uint64(29))


@compiled
def _key(total):
    return (total ^ (total >> np.uint64(32))) * LAST


@compiled
def _dense_keys(bits, multipliers):
    keys = np.empty(len(bits), np.uint64)
    for i in range(len(bits)):
        total = np.uint64(0)
        for j in range(bits.shape[1]):
            total += _mixed(bits[i, j], multipliers[j])
        keys[i] = _key(total)
    return keys


@compiled
def _sparse_keys(starts, columns, bits, multipliers):
    """Start from the sum of a row of zeros; exchange what its entries add."""
    empty = np.uint64(0)
    for multiplier in multipliers:
        empty += _mixed(np.uint32(0), multiplier)
    keys = np.empty(len(starts) - 1, np.uint64)
    for i in range(len(keys)):
        total = empty
        for k in range(starts[i], starts[i + 1]):
            multiplier = multipliers[columns[k]]
            total += _mixed(bits[k], multiplier) - _mixed(np.uint32(0), multiplier)
        keys[i] = _key(total)
    return keys
