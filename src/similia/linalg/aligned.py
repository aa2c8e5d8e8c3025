"""Arrays that begin where a line of the cache does.

Memory from numpy begins 16 bytes after one, so that every second 32-byte read of a compiled loop
touches two lines. Loops over short rows, which wait for nothing else, feel it.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.linalg.prefetch import LINE


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Give a C-ordered array of that shape, not filled."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Give such an array of zeros."""
    zeros = aligned_empty(shape, dtype)
    zeros[...] = 0
    return zeros
