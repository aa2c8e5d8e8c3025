"""Comparison with the best of many, without the luck of having been chosen as the best."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from similia.contract import Array


class Gain(NamedTuple):
    """A mean difference, and its standard error."""

    mean: float
    error: float


def gain_over_best(marks: Array, others: Sequence[Array]) -> Gain:
    """Gain of some marks over the best of others, chosen on the other half of the judgements.

    The best of many by the very judgements that judge it is partly the luckiest one: of 32 equal
    learners it is ahead by two standard errors. Here the best on every second judgement is compared
    on those between, and the other way round.
    """
    gain, even = np.empty(len(marks)), np.arange(len(marks)) % 2 == 0
    for half in (even, ~even):
        best = max(others, key=lambda other, half=half: other[~half].mean())  # type: ignore[misc]
        gain[half] = (marks - best)[half]
    return Gain(float(gain.mean()), float(gain.std(ddof=1)) / len(gain) ** 0.5)
