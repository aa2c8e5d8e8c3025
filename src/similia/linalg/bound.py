"""scipy's BLAS for compiled code: in place, accumulating, and without Python's lock.

numpy's products cannot add to their result, and scipy's Python functions keep the lock, so that no
other thread runs meanwhile. Here the routines are bound by address, under names that compiled code
finds again from its cache. Arrays are C-ordered, or row and column panels of such. BLAS counts in
columns: it sees each of them transposed, so factors are handed over in reverse.
"""

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from similia.linalg.compiled import compiled

PLAIN, TRANSPOSED, RIGHT, UPPER, LOWER, UNIT = (ord(letter) for letter in "NTRULU")


def routine(library, name, n_arguments):
    """Give a routine of scipy's `cython_blas` or `cython_lapack` for compiled code, by address."""
    symbol = f"similia_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{library}", name))
    return types.ExternalFunction(symbol, types.void(*[types.intp] * n_arguments))


def _bound(name, n_arguments):
    return routine("cython_blas", name, n_arguments)


_sgemm, _dgemm = _bound("sgemm", 13), _bound("dgemm", 13)
_strsm, _dtrsm = _bound("strsm", 11), _bound("dtrsm", 11)
_ssyrk, _dsyrk = _bound("ssyrk", 10), _bound("dsyrk", 10)
_ssymv, _dsymv = _bound("ssymv", 10), _bound("dsymv", 10)

#: side of the squares in which a triangle is copied, so that both ends stay in the cache
TILE = 32


@compiled
def _leading(A):
    """Give the distance between rows, of an array whose rows are contiguous."""
    if A.shape[1] > 1 and A.strides[1] != A.itemsize:
        raise ValueError("BLAS: arrays must be C-ordered or panels of such.")
    # A single row has no distance to the next; BLAS wants a possible one all the same.
    return max(A.strides[0] // A.itemsize, A.shape[1], 1)


@compiled
def gemm(transpose_A, A, transpose_B, B, beta, C):
    """Replace C by op(A) op(B) + beta C, where op transposes or does not."""
    inner = A.shape[0] if transpose_A else A.shape[1]
    letters = np.empty(2, np.uint8)
    letters[0] = TRANSPOSED if transpose_B else PLAIN
    letters[1] = TRANSPOSED if transpose_A else PLAIN
    sizes = np.array(
        [C.shape[1], C.shape[0], inner, _leading(B), _leading(A), _leading(C)], np.int32
    )
    scalars = np.array([1.0, beta]).astype(C.dtype)
    letter, size, scalar = letters.ctypes.data, sizes.ctypes.data, scalars.ctypes.data
    a, b, c, one_scalar = A.ctypes.data, B.ctypes.data, C.ctypes.data, scalars.itemsize
    # fmt: off
    if C.itemsize == 4:
        _sgemm(letter, letter + 1, size, size + 4, size + 8, scalar,
               b, size + 12, a, size + 16, scalar + one_scalar, c, size + 20)
    else:
        _dgemm(letter, letter + 1, size, size + 4, size + 8, scalar,
               b, size + 12, a, size + 16, scalar + one_scalar, c, size + 20)
    # fmt: on
    return _alive(letters, sizes, scalars)


@compiled
def solve_unit_lower(L, B):
    """Replace B by L⁻¹B for a lower triangular L with ones on the diagonal."""
    letters = np.array([RIGHT, UPPER, PLAIN, UNIT], np.uint8)
    sizes = np.array([B.shape[1], B.shape[0], _leading(L), _leading(B)], np.int32)
    scalars = np.ones(1, B.dtype)
    letter, size = letters.ctypes.data, sizes.ctypes.data
    # fmt: off
    if B.itemsize == 4:
        _strsm(letter, letter + 1, letter + 2, letter + 3, size, size + 4, scalars.ctypes.data,
               L.ctypes.data, size + 8, B.ctypes.data, size + 12)
    else:
        _dtrsm(letter, letter + 1, letter + 2, letter + 3, size, size + 4, scalars.ctypes.data,
               L.ctypes.data, size + 8, B.ctypes.data, size + 12)
    # fmt: on
    return _alive(letters, sizes, scalars)


@compiled
def add_square(A, weight, Z):
    """Add weight ZᵀZ to a symmetric A: half of the work of a product, and exactly symmetric."""
    letters = np.array([LOWER, PLAIN], np.uint8)
    sizes = np.array([len(A), len(Z), _leading(Z), _leading(A)], np.int32)
    scalars = np.array([weight, 1.0]).astype(A.dtype)
    letter, size, scalar = letters.ctypes.data, sizes.ctypes.data, scalars.ctypes.data
    # fmt: off
    if A.itemsize == 4:
        _ssyrk(letter, letter + 1, size, size + 4, scalar, Z.ctypes.data, size + 8,
               scalar + 4, A.ctypes.data, size + 12)
    else:
        _dsyrk(letter, letter + 1, size, size + 4, scalar, Z.ctypes.data, size + 8,
               scalar + 8, A.ctypes.data, size + 12)
    # fmt: on
    for top in range(0, len(A), TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, len(A))):
                for j in range(left, min(left + TILE, i)):
                    A[i, j] = A[j, i]
    return _alive(letters, sizes, scalars)


@compiled
def symmetric_product(A, x, y):
    """Replace y by Ax for a symmetric A, of which half is read."""
    letters = np.array([LOWER], np.uint8)
    sizes = np.array([len(A), _leading(A), 1], np.int32)
    scalars = np.array([1.0, 0.0]).astype(A.dtype)
    letter, size, scalar = letters.ctypes.data, sizes.ctypes.data, scalars.ctypes.data
    # fmt: off
    if A.itemsize == 4:
        _ssymv(letter, size, scalar, A.ctypes.data, size + 4, x.ctypes.data, size + 8,
               scalar + 4, y.ctypes.data, size + 8)
    else:
        _dsymv(letter, size, scalar, A.ctypes.data, size + 4, x.ctypes.data, size + 8,
               scalar + 8, y.ctypes.data, size + 8)
    # fmt: on
    return _alive(letters, sizes, scalars)


@compiled
def _alive(letters, sizes, scalars):
    """Use the arguments once more, after the call that knew only their addresses."""
    return letters[0] + sizes[0] + scalars[0]
