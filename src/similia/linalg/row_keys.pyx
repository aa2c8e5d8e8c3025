"""A number for each row of a matrix, dense or CSR, by which equal rows are recognised."""

from functools import cache

import numpy as np
from scipy import sparse

from similia.linalg.blas import sparse_rows

#: of the multipliers
KEY_SEED = 5


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
        starts, columns, _ = sparse_rows(X)
        return _sparse_keys(starts, columns, bits, multipliers)
    return _dense_keys(bits, multipliers)


cdef inline unsigned long long _mixed(
    unsigned int bits, unsigned long long multiplier
) noexcept nogil:
    cdef unsigned long long known = 0 if bits == <unsigned int>0x80000000 else bits  # -0 is 0
    cdef unsigned long long mixed = (known + 1) * multiplier
    return mixed ^ (mixed >> 29)


cdef inline unsigned long long _key(unsigned long long total) noexcept nogil:
    return (total ^ (total >> 32)) * <unsigned long long>0x9E3779B97F4A7C15


def _dense_keys(const unsigned int[:, ::1] bits, const unsigned long long[::1] multipliers):
    keys = np.empty(bits.shape[0], np.uint64)
    cdef unsigned long long[::1] into = keys
    cdef unsigned long long total
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(bits.shape[0]):
            total = 0
            for j in range(bits.shape[1]):
                total += _mixed(bits[i, j], multipliers[j])
            into[i] = _key(total)
    return keys


def _sparse_keys(
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] columns,
    const unsigned int[::1] bits,
    const unsigned long long[::1] multipliers,
):
    """Start from the sum of a row of zeros; exchange what its entries add."""
    keys = np.empty(starts.shape[0] - 1, np.uint64)
    cdef unsigned long long[::1] into = keys
    cdef unsigned long long empty = 0, total
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(multipliers.shape[0]):
            empty += _mixed(0, multipliers[i])
        for i in range(into.shape[0]):
            total = empty
            for k in range(starts[i], starts[i + 1]):
                total += _mixed(bits[k], multipliers[columns[k]])
                total -= _mixed(0, multipliers[columns[k]])
            into[i] = _key(total)
    return keys
