"""How long the steps are, and which examples a class learns from."""

import numpy as np

from similia.base import Array

SCHEDULES = ("auto", "constant", "linear", "sqrt", "inverse", "theorem")


def shrinkage(kind: str, t: Array, total: int | None, horizon: float) -> Array:
    """Give the factor of the step for the times t, of which there will be `total`, if known.

    "linear" falls to zero at the end; "sqrt" and "inverse" begin to fall after `horizon` examples;
    "auto" is linear where the end is known and "sqrt" where it is not.
    """
    if kind == "auto":
        kind = "sqrt" if total is None else "linear"
    if kind == "linear" and total is None:
        kind = "sqrt"
    if kind == "linear":
        return np.maximum(1.0 - t / (total or 1), 0.0)
    if kind == "sqrt":
        return 1.0 / np.sqrt(1.0 + t / horizon)
    if kind == "inverse":
        return 1.0 / (1.0 + t / horizon)
    return np.ones(len(t))


def balanced_visits(positive: Array, negative: Array, rng: np.random.Generator) -> Array:
    """Give all positive examples and as many negative ones, drawn anew, in random order."""
    if len(negative) > len(positive):
        negative = rng.choice(negative, size=len(positive), replace=False, shuffle=False)
    return rng.permutation(np.concatenate([positive, negative]))


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
