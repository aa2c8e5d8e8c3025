"""Evidence that one ranking is better than another, valid however often one looks.

Bet on each query that the challenger is better: a stake λ of the wealth on a difference d, between
-1 and 1, multiplies the wealth by 1 + λd. If the challenger is no better on average, nobody can
expect to gain, and by Ville's inequality the wealth ever reaches 1/α with a probability of at most
α, whenever one stops and however often one looks [Waudby-Smith2024]. Several stakes are played side
by side, each with a share of the wealth, so that nothing has to be known about the differences and
their order does not matter.

A bettor who may lose everything on one query cannot stake much, so a query counts for at most
`most` in either direction. A smaller value decides faster, and is blinder to a few great losses.

[Waudby-Smith2024] Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting,
Journal of the Royal Statistical Society B 86, 2024.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from similia.contract import Array
from similia.retrieval import Comparison, Evaluation

#: stakes, and the wealth on each; large gains need large stakes
STAKES = np.array([1 / 32, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 0.99])
STAKE_SHARES = np.array([0.05, 0.05, 0.1, 0.15, 0.15, 0.5])
#: share of the first attempt
FIRST_SHARE = 2 / 3


def counted(differences: Array, most: float) -> NDArray[np.float64]:
    """Differences in units of `most`, each between -1 and 1."""
    return np.clip(np.asarray(differences) / most, -1.0, 1.0)


def log_wealth(differences: Array) -> NDArray[np.float64]:
    """Logarithm of the wealth that each stake has made of 1, of shape (n_stakes,)."""
    return np.log1p(np.multiply.outer(STAKES, differences)).sum(axis=1)


def log_e_value(wealth: Array) -> Any:
    """Logarithm of the wealth of all stakes together; the last axis is theirs."""
    return logsumexp(wealth, b=STAKE_SHARES, axis=-1)


def anytime_interval(differences: Array, level: float) -> tuple[float, float]:
    """Confidence interval of the mean difference, valid at all sample sizes at once.

    It is the set of means that neither bet can refute.
    """
    return _lower_bound(differences, level), -_lower_bound(-differences, level)


def _lower_bound(differences: Array, level: float) -> float:
    low, high, needed = -1.0, 1.0, np.log(2 / (1 - level))
    for _ in range(50):
        mean = (low + high) / 2
        # Seen from this mean, no difference is below -1 in units of 1 + mean.
        refuted = log_e_value(log_wealth((differences - mean) / (1 + mean))) >= needed
        low, high = (mean, high) if refuted else (low, mean)
    return low


def anytime_comparison(
    a: Evaluation, b: Evaluation, measure: str, *, level: float, most: float
) -> Comparison:
    """Comparison of evaluations whose interval and p-value stay valid however often one looks.

    Both are about the mean of differences that count for at most `most`.
    """
    values_a, values_b = a.judged(measure), b.judged(measure)
    d = values_a - values_b
    bets = counted(d, most)
    both = np.logaddexp(*(log_e_value(log_wealth(sign * bets)) for sign in (1, -1))) - np.log(2)
    mean_a, mean_b, mean = (float(values.mean()) for values in (values_a, values_b, d))
    wins, ties, losses = (int(np.count_nonzero(np.sign(d) == sign)) for sign in (1, 0, -1))
    low, high = anytime_interval(bets, level)
    interval, p = (most * low, most * high), float(np.exp(-max(both, 0.0)))
    return Comparison(measure, mean_a, mean_b, mean, interval, p, wins, ties, losses, level)


# -- one champion, many challenges -------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """Evidence from all challenges of a champion by one kind of challenger.

    Every challenge opens an attempt, which bets on the queries of this challenge, and on those that
    are new to it in later ones. The first attempt has two thirds of the wealth, attempt j > 1 has
    1 / (3 j (j - 1)) of it, so that all together begin with 1: looking again at more queries costs
    nothing, trying something else on the same queries costs a little more each time.
    """

    #: number of each attempt, from 1, and the logarithm of its wealth by stake
    attempts: Mapping[int, Sequence[float]] = field(default_factory=dict)
    #: the last challenge in which each query was bet on, by its name
    last: Mapping[str, int] = field(default_factory=dict)

    def after(self, number: int, names: Sequence[str], differences: Array) -> "Evidence":
        """Evidence after challenge `number`, with what distinct queries count for, by name."""
        before = np.array([self.last.get(name, 0) for name in names])
        order = np.argsort(before)
        gains = np.log1p(np.multiply.outer(differences[order], STAKES))
        sums = np.vstack([np.zeros(len(STAKES)), np.cumsum(gains, axis=0)])
        numbers = [*self.attempts, number]
        held = np.array([*self.attempts.values(), [0.0] * len(STAKES)])
        # To an attempt, the queries that were last bet on before it are new.
        held += sums[np.searchsorted(before[order], numbers)]
        wealth = dict(zip(numbers, held.tolist(), strict=True))
        return Evidence(wealth, {**self.last, **dict.fromkeys(names, number)})

    @property
    def value(self) -> float:
        """Present wealth; it starts at 1, and reaches 20 by chance at most once in 20 times."""
        if not self.attempts:
            return 1.0
        numbers = np.array(list(self.attempts), dtype=float)
        shares = np.full(len(numbers), FIRST_SHARE)
        later = numbers > 1
        shares[later] = (1 - FIRST_SHARE) / (numbers[later] * (numbers[later] - 1))
        held = log_e_value(np.array(list(self.attempts.values())))
        # The rest is kept for later attempts.
        return float(np.exp(np.minimum(held, 690)) @ shares + (1 - FIRST_SHARE) / numbers.max())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "attempts": {str(j): list(held) for j, held in self.attempts.items()},
            "last": dict(self.last),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Evidence":
        """Evidence from the values of `to_dict`."""
        return cls({int(j): held for j, held in plain["attempts"].items()}, plain["last"])


# -- power -------------------------------------------------------------------------------------

#: chance of finding a difference that a sufficient number of queries has
WANTED_CHANCE = 0.8
_MAX_QUERIES = 1_000_000
_WORLDS, _DRAWS = 40, 100
_DRAWN_QUERIES = 64
_WORDS = {
    0.05: "one time in twenty",
    0.1: "one time in ten",
    0.2: "one time in five",
    1 / 3: "one time in three",
    0.5: "every other time",
    2 / 3: "two times in three",
    0.8: "four times in five",
    0.9: "nine times in ten",
}


@dataclass(frozen=True)
class Power:
    """Chance of finding a difference with these queries, and the number that would suffice.

    `enough` queries find it four times in five. Where these queries leave open how much queries
    differ, the chance is an average; the 80 % of cases in the middle are within `interval`.
    """

    n: int
    difference: float
    chance: float
    enough: int
    interval: tuple[float, float] = (0.0, 1.0)
    #: unit of the sample: singular, plural
    unit: tuple[str, str] = ("query", "queries")

    @property
    def sample(self) -> str:
        """Size of the sample in words."""
        return f"{self.n} {self.unit[self.n != 1]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "n": self.n,
            "difference": self.difference,
            "chance": self.chance,
            "interval": list(self.interval),
            "enough": self.enough,
        }

    def __str__(self) -> str:
        if self.chance < 0.025 or self.chance > 0.95:
            often = "almost never" if self.chance < 0.5 else "almost always"
        else:
            often = _WORDS[min(_WORDS, key=lambda share: abs(share - self.chance))]
        found = f"With {self.sample} a difference of {self.difference:g} is found {often}"
        if self.chance >= WANTED_CHANCE:
            return f"{found}."
        if self.enough >= _MAX_QUERIES:
            return f"{found}; no number would do."
        return f"{found}; {self.enough} would do."


def power(differences: Array, difference: float, *, level: float, most: float) -> Power:
    """Power to find a mean difference, if queries differ as much as these do.

    These queries are reweighted until their mean is that of the difference to find, which leaves
    ties ties and pushes nothing beyond its bounds. What so few queries leave open is averaged
    over: each of some `_WORLDS` gives them other weights first (the Bayesian bootstrap). A few
    queries are then drawn and bet on; of many, the logarithms of the wealth are nearly Gaussian.
    """
    # Two pseudo-queries, so that a few equal differences do not look certain.
    edge = min(1.0, max(0.2, 2 * difference))
    d = np.append(differences, [-edge, edge])
    bets = counted(d, most)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(len(d)), _WORLDS)
    # Queries that are cut off show nothing of a difference; halfway to it, these are.
    halfway = d - differences.mean() + difference / 2
    seen = weights @ ((np.abs(halfway) <= most) | (most >= 1))
    weights = _tilted(weights, bets, seen * difference / most)
    gains = np.log1p(np.multiply.outer(bets, STAKES))
    means = weights @ gains
    squares = np.einsum("wi,is,it->wst", weights, gains, gains, optimize=True)
    values, vectors = np.linalg.eigh(squares - means[:, :, None] * means[:, None, :])
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    noise = np.einsum("wst,wdt->wds", roots, rng.standard_normal((_WORLDS, _DRAWS, len(STAKES))))
    needed = np.log((1 / (1 - level) - (1 - FIRST_SHARE)) / FIRST_SHARE)

    def chances(n: int) -> NDArray[np.float64]:
        """Chance to find it with n queries, in each world."""
        if n <= _DRAWN_QUERIES:
            uniform = np.random.default_rng(n).random((_WORLDS, _DRAWS * n))
            ends = np.cumsum(weights, axis=1)
            places = [np.searchsorted(end, u) for end, u in zip(ends, uniform, strict=True)]
            drawn = np.minimum(places, len(d) - 1).reshape(_WORLDS, _DRAWS, n)
            wealth = gains[drawn].sum(axis=2)
        else:
            wealth = n * means[:, None, :] + np.sqrt(n) * noise
        return np.asarray(np.mean(log_e_value(wealth) >= needed, axis=1))

    low, high = 1, 2
    while high < _MAX_QUERIES and chances(high).mean() < WANTED_CHANCE:
        low, high = high, 2 * high
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if chances(middle).mean() >= WANTED_CHANCE else (middle, high)
    found = chances(len(differences))
    least, greatest = np.quantile(found, [0.1, 0.9]).tolist()
    return Power(len(differences), difference, float(found.mean()), high, (least, greatest))


def _tilted(weights: NDArray[np.float64], bets: Array, means: Array) -> NDArray[np.float64]:
    """Weights times exp(θ bet), with the θ of each row for which the bets have its mean."""
    low, high = np.full((len(weights), 1), -50.0), np.full((len(weights), 1), 50.0)
    for _ in range(40):
        theta = (low + high) / 2
        tilted = weights * np.exp(theta * bets)
        tilted /= tilted.sum(axis=1, keepdims=True)
        below = (tilted @ bets < means)[:, None]
        low, high = np.where(below, theta, low), np.where(below, high, theta)
    return tilted
