"""Arrays that grow at their end and lose their beginning without being copied each time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Rooms:
    """Buffers that are larger than the arrays, by name, which are views of them.

    An array that is no view of its buffer, as someone has replaced it, gets a new one.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}
        self._ends: dict[str, int] = {}

    def whole(self, name: str, value: Array) -> Array:
        """The buffer that begins as the array does, and is contiguous if the array is not."""
        buffer = self._buffers.get(name)
        return buffer if buffer is not None and value.base is buffer else value

    def grown(self, name: str, value: Array, axis: int, n: int, most: int) -> Array:
        """The array with n entries along an axis, new ones zero; room is made for up to `most`."""
        buffer = self.whole(name, value)
        if buffer is value or buffer.shape[axis] < n:
            shape, old = list(value.shape), value.shape[axis]
            shape[axis] = max(n, min(most, n + n // 2))
            buffer = self._buffers[name] = np.zeros(shape, value.dtype)
            buffer[_upto(axis, old)] = value
        return buffer[_upto(axis, n)]

    def appended(self, name: str, value: Array, added: Array, dropped: int) -> Array:
        """The array without its first entries and with others at its end."""
        n, end = len(value) + len(added), self._ends.get(name, 0) + len(added)
        buffer = self.whole(name, value)
        if buffer is value or end > len(buffer):
            shape = (2 * n, *value.shape[1:])
            buffer = self._buffers[name] = np.empty(shape, value.dtype)
            buffer[: len(value)], end = value, n
        buffer[end - len(added) : end] = added
        self._ends[name] = end
        return buffer[end - n + dropped : end]


def _upto(axis: int, n: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(n))
