"""What chance does to a mean over queries: resampling in batches of bounded memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 2**20  # random numbers held at a time


def generator(random_state: Any) -> np.random.Generator:
    """Give a generator from a seed, from None, or from a RandomState, which it advances."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def _batches(n_resamples: int, n: int) -> Iterator[int]:
    size = max(1, BATCH // n)
    for start in range(0, n_resamples, size):
        yield min(size, n_resamples - start)


def bootstrap_interval(
    values: NDArray[np.float64], level: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Percentile interval of the mean of `values` under resampling with replacement."""
    n = len(values)
    means = [
        values[rng.integers(n, size=(size, n))].mean(axis=1) for size in _batches(n_resamples, n)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def sign_flip_p_value(
    differences: NDArray[np.float64], n_resamples: int, rng: np.random.Generator
) -> float:
    """Two-sided p-value of the mean difference if the sign of each were a fair coin.

    p = (1 + #{resamples with |Σ ±d| >= |Σ d|}) / (1 + n_resamples), the observed signs being one of
    the equally likely ones.
    """
    moving = differences[differences != 0]
    if len(moving) == 0:
        return 1.0
    # Sums that are equal but for rounding count as equal.
    bound = abs(moving.sum()) - 1e-12 * np.abs(moving).sum()
    extreme = 0
    for size in _batches(n_resamples, len(moving)):
        signs = 2.0 * rng.integers(2, size=(size, len(moving)), dtype=np.int8) - 1.0
        extreme += int(np.count_nonzero(np.abs(signs @ moving) >= bound))
    return (1 + extreme) / (1 + n_resamples)
