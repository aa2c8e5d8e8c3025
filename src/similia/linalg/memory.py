"""Arrays that begin with a line of the cache."""

from math import prod

import numpy as np
from numpy.typing import DTypeLike

from similia.contract import Array

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
