"""scipy's BLAS and LAPACK for compiled code: in place, accumulating, without Python's lock.

Routines are bound by address, under names that cached code finds again. Arrays are C-ordered, or
panels of such; BLAS sees each transposed, so factors are handed over in reverse.
"""

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from similia.linalg.compiled import compiled

PLAIN, TRANSPOSED, RIGHT, UPPER, LOWER, UNIT = (np.uint8(ord(letter)) for letter in "NTRULU")

TILE = 32  #: side of the squares in which a triangle is copied, so that both ends stay in the cache


def routine(library, name, n_arguments):
    """Routine of scipy's `cython_blas` or `cython_lapack`; all its arguments are addresses."""
    symbol = f"similia_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{library}", name))
    return types.ExternalFunction(symbol, types.void(*[types.intp] * n_arguments))


_sgemm, _dgemm = (routine("cython_blas", name, 13) for name in ("sgemm", "dgemm"))
_strsm, _dtrsm = (routine("cython_blas", name, 11) for name in ("strsm", "dtrsm"))
_ssyrk, _dsyrk = (routine("cython_blas", name, 10) for name in ("ssyrk", "dsyrk"))
_ssymv, _dsymv = (routine("cython_blas", name, 10) for name in ("ssymv", "dsymv"))


def _held(typing_context, number):
    def generated(context, builder, signature, arguments):
        with builder.goto_entry_block():
            place = builder.alloca(arguments[0].type)
        builder.store(arguments[0], place)
        return builder.ptrtoint(place, ir.IntType(8 * np.intp().itemsize))

    return types.intp(number), generated


#: held(number): address of a copy of a number, valid until the calling function returns
held: Any = intrinsic(_held)


@compiled
def _leading(A):
    """Distance between rows whose entries are contiguous."""
    if A.shape[1] > 1 and A.strides[1] != A.itemsize:
        raise ValueError("BLAS: arrays must be C-ordered or panels of such.")
    # A single row has no distance to the next; BLAS wants a possible one all the same.
    return np.int32(max(A.strides[0] // A.itemsize, A.shape[1], 1))


@compiled
def gemm(transpose_A, A, transpose_B, B, beta, C):
    """Replace C by op(A) op(B) + beta C, where op transposes or does not."""
    op_A = held(TRANSPOSED if transpose_A else PLAIN)
    op_B = held(TRANSPOSED if transpose_B else PLAIN)
    rows, columns = held(np.int32(C.shape[0])), held(np.int32(C.shape[1]))
    inner = held(np.int32(A.shape[0] if transpose_A else A.shape[1]))
    a, b, c = A.ctypes.data, B.ctypes.data, C.ctypes.data
    lda, ldb, ldc = held(_leading(A)), held(_leading(B)), held(_leading(C))
    one, beta = held(C.dtype.type(1.0)), held(C.dtype.type(beta))
    if C.itemsize == 4:
        _sgemm(op_B, op_A, columns, rows, inner, one, b, ldb, a, lda, beta, c, ldc)
    else:
        _dgemm(op_B, op_A, columns, rows, inner, one, b, ldb, a, lda, beta, c, ldc)


@compiled
def solve_unit_lower(L, B):
    """Replace B by L⁻¹B for a lower triangular L with ones on the diagonal, which is not read."""
    right, upper, plain, unit = held(RIGHT), held(UPPER), held(PLAIN), held(UNIT)
    rows, columns = held(np.int32(B.shape[0])), held(np.int32(B.shape[1]))
    one, l, b = held(B.dtype.type(1.0)), L.ctypes.data, B.ctypes.data
    ldl, ldb = held(_leading(L)), held(_leading(B))
    if B.itemsize == 4:
        _strsm(right, upper, plain, unit, columns, rows, one, l, ldl, b, ldb)
    else:
        _dtrsm(right, upper, plain, unit, columns, rows, one, l, ldl, b, ldb)


@compiled
def add_square(A, weight, Z):
    """Add weight ZᵀZ to a symmetric A: half the work of a product, and exactly symmetric."""
    _add_square(A, weight, Z, True)


@compiled
def add_squares(A, c, R):
    """Add Rᵀdiag(c)R to a symmetric A, with the positive and the negative c each as a square."""
    scaled = np.empty(R.shape, R.dtype)
    for sign in (1.0, -1.0):
        k = 0
        for t in range(len(c)):
            if sign * c[t] > 0.0:
                weight = np.sqrt(abs(c[t]))
                for j in range(R.shape[1]):
                    scaled[k, j] = weight * R[t, j]
                k += 1
        _add_square(A, sign, scaled[:k], sign < 0.0)


@compiled
def _add_square(A, weight, Z, both):
    """Add weight ZᵀZ to the upper triangle of A; then copy that to the lower one, if `both`."""
    lower, plain = held(LOWER), held(PLAIN)
    size, inner = held(np.int32(len(A))), held(np.int32(len(Z)))
    scale, one = held(A.dtype.type(weight)), held(A.dtype.type(1.0))
    a, z, lda, ldz = A.ctypes.data, Z.ctypes.data, held(_leading(A)), held(_leading(Z))
    if A.itemsize == 4:
        _ssyrk(lower, plain, size, inner, scale, z, ldz, one, a, lda)
    else:
        _dsyrk(lower, plain, size, inner, scale, z, ldz, one, a, lda)
    if both:
        for top in range(0, len(A), TILE):
            for left in range(0, top + 1, TILE):
                for i in range(top, min(top + TILE, len(A))):
                    for j in range(left, min(left + TILE, i)):
                        A[i, j] = A[j, i]


@compiled
def symmetric_product(A, x, y):
    """Replace y by Ax for a symmetric A, of which half is read."""
    lower, size, step = held(LOWER), held(np.int32(len(A))), held(np.int32(1))
    one, zero, lda = held(A.dtype.type(1.0)), held(A.dtype.type(0.0)), held(_leading(A))
    if A.itemsize == 4:
        _ssymv(lower, size, one, A.ctypes.data, lda, x.ctypes.data, step, zero, y.ctypes.data, step)
    else:
        _dsymv(lower, size, one, A.ctypes.data, lda, x.ctypes.data, step, zero, y.ctypes.data, step)
