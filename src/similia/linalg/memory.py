"""Memory by lines of the cache: arrays that begin with one, and rows fetched ahead."""

from math import prod
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from similia.contract import Array
from similia.linalg.compiled import compiled

LINE = 64  #: bytes that the processor fetches at a time


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Uninitialized C-ordered array that begins with a line of the cache.

    numpy's own begins 16 bytes later, so that every second 32-byte read touches two lines.
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Likewise, filled with zeros."""
    zeros = aligned_empty(shape, dtype)
    zeros[...] = 0
    return zeros


def _prefetched(typing_context, address):
    def generated(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        # to be read, soon and more than once, as data
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.intp), generated


_prefetch: Any = intrinsic(_prefetched)


@compiled
def prefetch_row(A, i):
    """Fetch row i of a C-ordered matrix into the cache without waiting for it."""
    start = A.ctypes.data + i * A.strides[0]
    for offset in range(0, A.shape[1] * A.itemsize, LINE):
        _prefetch(start + offset)
