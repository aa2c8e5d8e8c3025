"""A split of feedback by query: the same whatever the order, the size or the machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def held_out(rows: Any, share: float, seed: int = 0) -> NDArray[np.bool_]:
    """Tell which queries are held out, by a hash of the row: no list is kept.

    Parameters
    ----------
    rows : integer array
        Rows of queries.
    share : float between 0 and 1
        Share of the queries to hold out, on average.
    seed : int
        Another seed holds out others.
    """
    # The finaliser of SplitMix64 (Steele, Lea & Flood 2014): every bit depends on every other.
    with np.errstate(over="ignore"):
        z = np.asarray(rows).astype(np.uint64) + np.uint64((seed + 1) * _STEP % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * 2.0**-53 < share
