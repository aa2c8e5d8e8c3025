"""Whether one evaluation is better than another, or the difference is chance."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from similia.retrieval.evaluation import RESAMPLING_RULES, Evaluation
from similia.retrieval.resampling import bootstrap_interval, generator, sign_flip_p_value
from similia.validation import Rule, check_parameters, one_of


@dataclass(frozen=True)
class Comparison:
    """Paired comparison of evaluations a and b in one measure; differences are a - b.

    Attributes
    ----------
    measure : str
        Name of the measure.
    mean_a, mean_b, difference : float
        Means over the judged queries, and mean difference.
    interval : tuple of float
        Bootstrap interval of the mean difference.
    p_value : float
        Probability of so large a mean difference, either way, if a and b were exchangeable.
    wins, ties, losses : int
        Queries where a is above, at and below b.
    level : float
        Level of the interval; the difference is beyond chance if p_value < 1 - level.
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

    @property
    def better(self) -> str | None:
        """Which is better beyond chance: "a", "b" or None."""
        if self.p_value >= 1 - self.level:
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
            f"p = {self.p_value:.2g}; "
            f"{self.wins} wins, {self.ties} ties, {self.losses} losses of a)."
        )


def compare(
    a: Evaluation,
    b: Evaluation,
    measure: str,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = 0,
) -> Comparison:
    """Compare two evaluations of the same queries, query by query.

    With d_i the difference of the measure at query i, the p-value is that of the paired sign-flip
    test: how often |Σ ±d_i| reaches |Σ d_i| under random signs. It cannot fall below
    1 / (1 + n_resamples).

    Parameters
    ----------
    a, b : Evaluation
        Of the same queries in the same order, against the same number of items.
    measure : str
        A measure both hold, such as ``"map"``.
    level : float between 0 and 1
        Level of the interval; a larger one demands stronger evidence.
    n_resamples : int
        Number of bootstrap resamples and of sign flips; more resolve smaller p-values.
    random_state : int, RandomState or None
        Equal seeds give equal results.

    Returns
    -------
    Comparison
        Difference, interval, p-value and counts; as text, a sentence with the verdict.
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
            "items, and numbers of relevant items per query that differ."
        )
    values_a, values_b = a.judged(measure), b.judged(measure)
    differences = values_a - values_b
    rng = generator(random_state)
    return Comparison(
        measure=measure,
        mean_a=float(values_a.mean()),
        mean_b=float(values_b.mean()),
        difference=float(differences.mean()),
        interval=bootstrap_interval(differences, level, n_resamples, rng),
        p_value=sign_flip_p_value(differences, n_resamples, rng),
        wins=int(np.count_nonzero(differences > 0)),
        ties=int(np.count_nonzero(differences == 0)),
        losses=int(np.count_nonzero(differences < 0)),
        level=level,
    )
