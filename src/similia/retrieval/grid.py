"""Positions of scores among a few sorted values, in constant time for most scores.

The values cut the line into cells: cell 2u holds the scores between values u - 1 and u, cell
2u + 1 those equal to value u. A uniform grid of bins finds the cell: the bin of a score is a
non-decreasing function of the score, so a bin with at most one value (its pivot) needs one
comparison, and only a bin with several needs a binary search. Rounding is harmless, because scores
and values are binned by the same arithmetic.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.linalg.compiled import compiled_in_order

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

TILE = 4096  # scores binned together, so that they stay in the L1 cache
MAX_BINS = 262_144
BINS_PER_VALUE = 8
SHORT = 64  # values up to which a comparison sort is fastest


class Grid(NamedTuple):
    """Bins over increasing `values`; bin b holds values[starts[b]:starts[b + 1]]."""

    values: Floats
    low: float
    high: float
    scale: float  # bins per unit of score
    starts: Integers
    cells: Integers  # cell of a score in bin b below its pivot; -1 if b has several values
    pivots: Floats  # the only value in bin b; infinite if there is none


@compiled_in_order
def grid_of(values: Floats) -> Grid:
    """Grid over distinct, increasing `values`."""
    n_bins = min(MAX_BINS, BINS_PER_VALUE * len(values))
    low, high, scale = _range_of(values[0], values[-1], n_bins)
    starts = np.zeros(n_bins + 1, np.int32)
    pivots = np.full(n_bins, np.inf, values.dtype)
    for value in values:
        b = _bin_of(value, low, high, scale)
        starts[b + 1] += 1
        pivots[b] = value
    cells = np.empty(n_bins, np.int32)
    for b in range(n_bins):
        cells[b] = 2 * starts[b] if starts[b + 1] <= 1 else -1
        starts[b + 1] += starts[b]
    return Grid(values, low, high, scale, starts, cells, pivots)


@compiled_in_order
def _range_of(low: float, high: float, n_bins: int) -> tuple[float, float, float]:
    unit = high - low
    scale = type(unit)(n_bins - 1) / unit if unit > 0 else unit
    if scale == 0 or not np.isfinite(scale):
        # The range is empty, overflows or is too narrow to divide: a single bin holds all values.
        return low, low, type(unit)(0)
    return low, high, scale


@compiled_in_order
def _bin_of(score: float, low: float, high: float, scale: float) -> Any:
    return np.int32((min(max(score, low), high) - low) * scale)


@compiled_in_order
def fill_cells(cells: Integers, grid: Grid, scores: Floats) -> None:
    """Set cells[i] to the cell of scores[i]."""
    # Local names avoid reference counting in the loops; an unsigned index, which cannot count from
    # the end, saves a test per score.
    low, high, scale = grid.low, grid.high, grid.scale
    values, starts, cell_of_bin, pivots = grid.values, grid.starts, grid.cells, grid.pivots
    for i in range(len(scores)):
        cells[i] = _bin_of(scores[i], low, high, scale)
    for i in range(len(scores)):
        score, b = scores[i], np.uint64(cells[i])
        cell, pivot = cell_of_bin[b], pivots[b]
        if cell >= 0:
            cells[i] = cell + np.int32(score > pivot) + np.int32(score >= pivot)
        else:
            end = starts[b + np.uint64(1)]
            u = starts[b] + np.searchsorted(values[starts[b] : end], score)
            cells[i] = 2 * u + (u < end and values[u] == score)


@compiled_in_order
def best_first(values: Floats) -> Integers:
    """Stable order of decreasing `values`, in linear time if they spread evenly."""
    n = len(values)
    if n < SHORT:
        return np.argsort(-values, kind="mergesort")
    low, high, scale = _range_of(values.min(), values.max(), n)
    ends = np.zeros(n + 1, np.int64)
    for value in values:
        ends[_bin_of(value, low, high, scale)] += 1
    if ends.max() > SHORT:
        return np.argsort(-values, kind="mergesort")
    ends[:] = np.cumsum(ends[::-1])[::-1]
    order = np.empty(n, np.int64)
    for i in range(n - 1, -1, -1):
        b = _bin_of(values[i], low, high, scale)
        ends[b] -= 1
        order[ends[b]] = i
    _sort_nearly_sorted(order, values)
    return order


@compiled_in_order
def _sort_nearly_sorted(order: Integers, values: Floats) -> None:
    """Insertion sort of `order` by decreasing value; equal values keep their order."""
    for place in range(1, len(order)):
        i = order[place]
        while place > 0 and values[order[place - 1]] < values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
