"""Documents that arrive one after another, and are relevant or not."""

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.datasets import load_reuters_terms
from experiments.problems.base import Problem

FIRST = 2000


def reuters(seed: int, *, topic: str, in_order: bool = True) -> Problem:
    """Stories of the training half of Reuters-21578 in order of date, one topic relevant.

    The first 2,000 choose the 500 words and their idf, and are the training part; the rest is the
    stream that is filtered. Not in order, the stream is shuffled by the seed.
    """
    data = _loaded()
    rows = np.arange(FIRST, len(data.ids))
    if not in_order:
        rows = np.random.default_rng(seed).permutation(rows)
    relevant = data.Y[:, data.classes.index(topic)]
    first = slice(FIRST)
    return Problem(
        data.X[first], relevant[first], data.X[rows], relevant[rows], measured_by="filtering"
    )


@lru_cache(maxsize=1)
def _loaded() -> Any:
    return load_reuters_terms("train", fit_on=FIRST)
