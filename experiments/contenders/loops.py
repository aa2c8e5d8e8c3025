"""Compilation of the loops of contenders, as those of similia are compiled ahead."""

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit

#: sums may be reordered and fused, but NaN and infinity keep their meaning
REORDERED = {"reassoc", "nsz", "contract", "arcp"}

compiled: Callable[..., Any] = partial(
    njit, nogil=True, cache=True, error_model="numpy", fastmath=REORDERED
)()
