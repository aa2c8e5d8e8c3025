"""How long the steps are, and which examples a class learns from."""

from itertools import pairwise
from typing import Any

import numpy as np

from similia.contract import Array
from similia.linalg.compiled import compiled
from similia.updates.balanced import CONSTANT, INVERSE, LINEAR, SQRT, shrunk

SCHEDULES = ("auto", "constant", "linear", "sqrt", "inverse", "theorem")
CODES = {"constant": CONSTANT, "linear": LINEAR, "sqrt": SQRT, "inverse": INVERSE}


def schedule_code(kind: str, ends: bool) -> int:
    """Give the number of a schedule: "auto" is linear where the end is known, else "sqrt".

    "linear" falls to zero at the end; "sqrt" and "inverse" begin to fall after about `horizon`
    examples.
    """
    if kind in ("auto", "linear"):
        kind = "linear" if ends else "sqrt"
    return CODES[kind]


def shrinkage(kind: str, t: Array, total: int | None, horizon: float) -> Array:
    """Give the factors of the step for the times t, of which there will be `total`, if known."""
    factors = np.empty(len(t))
    _shrink(schedule_code(kind, total is not None), t, total or 1, horizon, factors)
    return factors


@compiled
def _shrink(kind, t, total, horizon, factors):  # type: ignore[no-untyped-def]
    for i in range(len(t)):
        factors[i] = shrunk(kind, t[i], total, horizon)


def uncoded(visits: Array, dtype: Any) -> tuple[Array, Array]:
    """Give the places and signs that coded visits stand for: see `balanced_visits`."""
    return np.where(visits >= 0, visits, ~visits), np.where(visits >= 0, 1, -1).astype(dtype)


def even_ranges(counts: Array, n: int) -> list[tuple[int, int]]:
    """Cut 0, 1, …, len(counts) into at most n ranges of about the same sum of counts."""
    reached = np.cumsum(counts)
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, n) / n) + 1
    ends = np.unique(np.minimum([0, *cuts, len(counts)], len(counts)))
    return [(int(a), int(b)) for a, b in pairwise(ends)]


def balanced_kept(counts: Array, signs: Array, seed: int, t: int) -> Array:
    """Say which examples of a stream each class keeps: all of its own, and as many others.

    `counts` (rows, 2) are the positive and negative examples of each class before, `signs` (rows,
    n) the new ones. A negative one is kept with probability (positives)/(negatives) so far, by a
    number that depends on the seed, the time and the class alone: pieces keep what the whole keeps.
    """
    positive = signs > 0
    ours = counts[:, :1] + np.cumsum(positive, axis=1)
    others = counts[:, 1:] + np.cumsum(~positive, axis=1)
    n_rows, n = signs.shape
    places = np.arange(t, t + n, dtype=np.uint64) * np.uint64(n_rows)
    numbers = places + np.arange(n_rows, dtype=np.uint64)[:, None]
    return positive | (_uniform(numbers, seed) * others < ours)


def _uniform(numbers: Array, seed: int) -> Array:
    """Give a number in [0, 1) for each integer, by the mixing function of SplitMix64."""
    x = (numbers + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)) * 2.0**-53
