"""Results of evaluations: values per query, means with intervals, and paired comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.markup import html_table
from similia.validation import Rule, between, check_parameters, one_of, positive_integer, seed

Values = NDArray[np.float64]
SeedLike = int | np.random.RandomState | None

RANDOM_BATCH = 2**20  # random numbers held at a time

RESAMPLING_RULES = {"level": between(0, 1), "n_resamples": positive_integer, "random_state": seed}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of the rankings of some queries.

    `per_query` has the values of each measure, such as ``per_query["precision@10"]``; `n_relevant`
    counts the relevant items of each query, `n_items` all items, including the query itself if it
    is one of them. A query without relevant items has NaN for every measure and is left out of the
    means.
    """

    per_query: Mapping[str, Values]
    n_relevant: NDArray[np.int64]
    n_items: int

    @classmethod
    def joined(cls, parts: "Sequence[Evaluation]") -> "Evaluation":
        """Join evaluations of parts of the queries; see `evaluate`."""
        counts = np.array([part.n_relevant for part in parts])
        if (np.count_nonzero(counts, axis=0) > 1).any() or not counts.any():
            raise ValueError("Evaluation.joined: parts must be all those of one evaluation.")
        owner, query = counts.argmax(axis=0), np.arange(counts.shape[1])
        names = parts[0].per_query
        values = {n: np.array([part.per_query[n] for part in parts])[owner, query] for n in names}
        return cls(values, counts.sum(axis=0), parts[0].n_items)

    @property
    def n_judged(self) -> int:
        """Number of queries with a relevant item."""
        return int(np.count_nonzero(self.n_relevant))

    @property
    def n_left_out(self) -> int:
        """Number of queries without a relevant item."""
        return len(self.n_relevant) - self.n_judged

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the judged queries."""
        return {name: float(self.judged(name).mean()) for name in self.per_query}

    def judged(self, name: str) -> Values:
        """Values of one measure for the judged queries."""
        check_parameters("Evaluation", {"name": one_of(*self.per_query)}, {"name": name})
        return self.per_query[name][self.n_relevant > 0]

    def interval(
        self, name: str, level: float = 0.95, n_resamples: int = 2000, random_state: SeedLike = 0
    ) -> tuple[float, float]:
        """Bootstrap confidence interval of the mean of one measure, such as ``"map"``.

        A higher `level` gives a wider interval; more resamples give steadier bounds and take
        longer; equal seeds give equal intervals.
        """
        given = {"level": level, "n_resamples": n_resamples, "random_state": random_state}
        check_parameters("Evaluation.interval", RESAMPLING_RULES, given)
        return _bootstrap_interval(self.judged(name), level, n_resamples, _generator(random_state))

    def table(self, level: float = 0.95) -> str:
        """Means and their intervals as aligned text."""
        width = max(len("measure"), *(len(name) for name in self.per_query))
        lines = [f"{'measure':<{width}}    mean  {100 * level:g} % interval"]
        for name, mean in self.means.items():
            low, high = self.interval(name, level)
            lines.append(f"{name:<{width}}  {mean:.4f}  {low:.4f} to {high:.4f}")
        lines.append(f"{self.n_judged} queries, {self.n_items} items")
        if self.n_left_out:
            lines[-1] += f"; {self.n_left_out} more queries without relevant items left out"
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Means and their intervals as a table, for notebooks."""
        rows = []
        for name, mean in self.means.items():
            low, high = self.interval(name)
            rows.append([name, f"{mean:.4f}", f"{low:.4f} to {high:.4f}"])
        caption = self.table().splitlines()[-1]
        return html_table(caption, ["measure", "mean", "95 % interval"], rows)

    def to_dict(self) -> dict[str, dict[str, float] | int]:
        """Means and counts as plain numbers, ready for JSON."""
        return {
            "means": self.means,
            "n_judged": self.n_judged,
            "n_left_out": self.n_left_out,
            "n_items": self.n_items,
        }


@dataclass(frozen=True)
class Comparison:
    """Paired comparison of evaluations a and b in one measure; differences are a - b.

    Means are over the judged queries; `interval` is the bootstrap interval of the mean difference,
    at `level`. `p_value` is the probability of a mean difference at least this large, in either
    direction, if a and b were exchangeable; below 1 - `level`, the difference is significant.
    `wins`, `ties` and `losses` count the queries for which a is above, equal to and below b.
    """

    measure: str
    mean_a: float
    mean_b: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    wins: int
    ties: int
    losses: int
    level: float
    #: tests that the interval and the p-value hold for together
    n_tests: int = 1

    @property
    def better(self) -> str | None:
        """The significantly better evaluation, "a" or "b", by test and by interval; or None."""
        low, high = self.interval
        if self.p_value >= 1 - self.level or low <= 0 <= high:
            return None
        return "a" if self.difference > 0 else "b"

    def __str__(self) -> str:
        if self.better is None:
            verdict = f"the difference of {self.difference:+.4f} is within chance"
        else:
            verdict = f"{self.better} is better by {abs(self.difference):.4f}"
        low, high = self.interval
        return (
            f"{self.measure}: {verdict} (a {self.mean_a:.4f}, b {self.mean_b:.4f}; "
            f"{100 * self.level:g} % interval of a - b {low:+.4f} to {high:+.4f}; "
            f"p = {self.p_value:.2g}{f' of {self.n_tests} tests' if self.n_tests > 1 else ''}; "
            f"{self.wins} wins, {self.ties} ties, {self.losses} losses of a)."
        )

    def _repr_html_(self) -> str:
        """The comparison as a table of one row, for notebooks."""
        low, high = self.interval
        verdict = "within chance" if self.better is None else f"{self.better} is better"
        header = ["measure", "a", "b", "a - b", f"{100 * self.level:g} % interval", "p", "+/=/-"]
        row = [
            self.measure,
            f"{self.mean_a:.4f}",
            f"{self.mean_b:.4f}",
            f"{self.difference:+.4f}",
            f"{low:+.4f} to {high:+.4f}",
            f"{self.p_value:.2g}",
            f"{self.wins}/{self.ties}/{self.losses}",
        ]
        return html_table(f"{self.measure}: {verdict}", header, [row])


def compare(
    a: Evaluation,
    b: Evaluation,
    measure: str,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: SeedLike = 0,
) -> Comparison:
    """Compare two evaluations of the same queries, query by query.

    With d_i the difference of the measure for query i, the p-value is that of the paired sign-flip
    test: (1 + how often |Σ ±d_i| reaches |Σ d_i| under random signs) / (1 + n_resamples), as the
    observed signs are one of the equally likely outcomes.

    Parameters
    ----------
    a, b : Evaluation
        Of the same queries in the same order, against the same number of items.
    measure : str
        A measure that both contain, such as ``"map"``.
    level : float between 0 and 1
        Level of the interval; a higher level demands stronger evidence.
    n_resamples : int
        Number of bootstrap resamples and of sign flips; more resolve smaller p-values.
    random_state : int, RandomState or None
        Equal seeds give equal results.

    Returns
    -------
    Comparison
        ``str()`` puts the verdict into a sentence.
    """
    evaluation = Rule("an Evaluation", lambda v: isinstance(v, Evaluation))
    check_parameters("compare", {"a": evaluation, "b": evaluation}, {"a": a, "b": b})
    given = {"level": level, "n_resamples": n_resamples, "random_state": random_state}
    check_parameters("compare", RESAMPLING_RULES, given)
    shared = one_of(*(name for name in a.per_query if name in b.per_query))
    check_parameters("compare", {"measure": shared}, {"measure": measure})
    if a.n_items != b.n_items or not np.array_equal(a.n_relevant, b.n_relevant):
        raise ValueError(
            "compare: a and b must be evaluations of the same queries, got "
            f"{len(a.n_relevant)} and {len(b.n_relevant)} queries, {a.n_items} and {b.n_items} "
            "items, and different numbers of relevant items per query."
        )
    values_a, values_b = a.judged(measure), b.judged(measure)
    differences = values_a - values_b
    rng = _generator(random_state)
    wins, ties, losses = (int(np.count_nonzero(np.sign(differences) == s)) for s in (1, 0, -1))
    interval = _bootstrap_interval(differences, level, n_resamples, rng)
    p = _sign_flip_p_value(differences, n_resamples, rng)
    mean_a, mean_b, mean = (float(v.mean()) for v in (values_a, values_b, differences))
    return Comparison(measure, mean_a, mean_b, mean, interval, p, wins, ties, losses, level)


def compare_all(
    others: Mapping[str, Evaluation],
    base: Evaluation,
    measures: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: SeedLike = 0,
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
    observed, rng = np.abs(d.sum(axis=0)) / length, _generator(random_state)
    reached, widths = np.zeros(len(mean)), []
    for signs in _sign_flips(n, n_resamples, rng):
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


def _generator(random_state: SeedLike) -> np.random.Generator:
    """New generator; a RandomState seeds it and is advanced."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def _batches(n_resamples: int, n: int) -> Iterator[int]:
    size = max(1, RANDOM_BATCH // n)
    for start in range(0, n_resamples, size):
        yield min(size, n_resamples - start)


def _bootstrap_interval(
    values: Values, level: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Percentile interval of the mean of `values`, resampled with replacement."""
    n = len(values)
    means = [
        values[rng.integers(n, size=(size, n))].mean(axis=1) for size in _batches(n_resamples, n)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _sign_flip_p_value(differences: Values, n_resamples: int, rng: np.random.Generator) -> float:
    """Two-sided p-value of the mean difference if every sign were a fair coin; see `compare`."""
    moving = differences[differences != 0]
    if len(moving) == 0:
        return 1.0
    # Sums that differ only by rounding count as equal.
    bound = abs(moving.sum()) - 1e-12 * np.abs(moving).sum()
    extreme = 0
    for signs in _sign_flips(len(moving), n_resamples, rng):
        extreme += int(np.count_nonzero(np.abs(signs @ moving) >= bound))
    return (1 + extreme) / (1 + n_resamples)


def _sign_flips(n: int, n_resamples: int, rng: np.random.Generator) -> Iterator[Values]:
    """Yield random signs, of shape (some, n), `n_resamples` rows in all."""
    for size in _batches(n_resamples, n):
        yield (2 * rng.integers(2, size=(size, n), dtype=np.int8) - 1).astype(np.float64)


class Gain(NamedTuple):
    """A mean difference, and its standard error."""

    mean: float
    error: float


def gain_over_best(marks: Values, others: Sequence[Values]) -> Gain:
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
