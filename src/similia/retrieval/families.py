"""Many comparisons at once: intervals and p-values that hold for all of them together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from similia.retrieval.evaluation import Comparison, Evaluation, compare, generator, sign_flips


def compare_all(
    others: Mapping[str, Evaluation],
    base: Evaluation,
    measures: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | np.random.RandomState | None = 0,
) -> dict[str, dict[str, Comparison]]:
    """Compare several evaluations with one base in several measures, and correct for the number.

    All tests flip the same signs. With t the mean difference over its standard error, the p-value
    of a test is the probability that the largest |t| of all of them reaches its own, if every sign
    were a fair coin (Westfall and Young, Resampling-based multiple testing, 1993); intervals are as
    wide as the largest |t| demands. Measures that say the same, as most do, so count as few tests.

    Parameters
    ----------
    others : dict of Evaluation
        Evaluations of the same queries as the base, by name.
    base : Evaluation
    measures : sequence of str, optional
        Names of measures; by default all of the base.
    level, n_resamples, random_state
        As in `compare`.

    Returns
    -------
    dict of dict of Comparison
        By name and measure; differences are other - base.
    """
    names = list(dict.fromkeys(base.per_query if measures is None else measures))
    found = {
        other: {name: compare(given, base, name, level=level, n_resamples=1) for name in names}
        for other, given in others.items()
    }
    d = np.column_stack(
        [given.judged(n) - base.judged(n) for given in others.values() for n in names]
    )
    n, tiny = len(d), 1e-12
    mean, centered = d.mean(axis=0), d - d.mean(axis=0)
    square, freedom = (centered**2).mean(axis=0), max(n - 1, 1)
    length = np.sqrt((d**2).sum(axis=0)) + tiny
    observed, rng = np.abs(d.sum(axis=0)) / length, generator(random_state)
    reached, widths = np.zeros(len(mean)), []
    for signs in sign_flips(n, n_resamples, rng):
        largest = (np.abs(signs @ d) / length).max(axis=1)
        reached += (largest[:, None] >= observed - 1e-9).sum(axis=0)
        drawn = np.abs(signs @ centered) / n
        error = np.sqrt(np.maximum(square - drawn**2, 0) / freedom) + tiny
        widths.append((drawn / error).max(axis=1))
    p = (1 + reached) / (1 + n_resamples)
    half = np.quantile(np.concatenate(widths), level) * np.sqrt(square / freedom)
    places = iter(range(len(mean)))
    for row in found.values():
        for name, one in row.items():
            j = next(places)
            interval = (float(mean[j] - half[j]), float(mean[j] + half[j]))
            row[name] = replace(one, p_value=float(p[j]), interval=interval, n_tests=len(mean))
    return found
