"""Documents that arrive one after another, and are relevant or not."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from experiments.datasets import load_reuters_terms
from experiments.problems.base import Problem

FIRST = 2000


def reuters(seed: int, *, topic: str, in_order: bool = True, slope: float | None = None) -> Problem:
    """Stories of the training half of Reuters-21578 in order of date, one topic relevant.

    The first 2,000 choose the 500 words and their idf, and are the training part; the rest is the
    stream that is filtered. Not in order, the stream is shuffled by the seed. Rows have length 1;
    with a slope they are divided by (1 - slope) times the mean length of the first 2,000 plus
    slope times their own (Singhal, Buckley & Mitra, 1996: pivoted cosine normalization).
    """
    data = _loaded(slope)
    rows = np.arange(FIRST, len(data.ids))
    if not in_order:
        rows = np.random.default_rng(seed).permutation(rows)
    relevant = data.Y[:, data.classes.index(topic)]
    first = slice(FIRST)
    return Problem(
        data.X[first], relevant[first], data.X[rows], relevant[rows], measured_by="filtering"
    )


@lru_cache(maxsize=1)
def _loaded(slope: float | None) -> Any:
    data = load_reuters_terms("train", fit_on=FIRST, unit_length=slope is None)
    if slope is None:
        return data
    return replace(data, X=pivoted(data.X, slope))


def pivoted(X: sparse.csr_array, slope: float) -> sparse.csr_array:
    """Rows over a length between their own and the mean of the first ones."""
    lengths = sparse.linalg.norm(X, axis=1)
    divisors = (1 - slope) * lengths[:FIRST].mean() + slope * lengths
    return sparse.csr_array(sparse.diags_array(1 / divisors) @ X)
