"""Outcome of a challenge: base, champion, challenger, and the verdict."""

from dataclasses import dataclass
from typing import Any

from similia.contract import Array
from similia.markup import html_table
from similia.retrieval import Comparison
from similia.trust.evidence import Power

CLICKS_DO_NOT_DECIDE = (
    "clicks alone do not decide, as what is shown first is clicked most, whoever learns from it; "
    "judge by judgements of people, or interleave"
)


def standard_error(differences: Array) -> float:
    """Standard error of the mean; 0 if there is only one difference."""
    n = len(differences)
    return float(differences.std(ddof=1)) / n**0.5 if n > 1 else 0.0


@dataclass(frozen=True)
class Beside:
    """A second measure, which can veto: the difference of its means and its standard error."""

    measure: str
    difference: float
    error: float

    @property
    def worse(self) -> bool:
        """Whether the challenger is worse by more than a standard error."""
        return self.difference + self.error < 0


@dataclass(frozen=True)
class Outcome:
    """Whether a challenger replaces the champion, and why."""

    #: challenger (a) against champion and base (b) on held-out queries; the same comparison while
    #: the base is the champion; intervals and p-values hold however often one looks, and are about
    #: the mean of differences that are cut off
    against_champion: Comparison
    against_base: Comparison
    #: standard error of the mean difference to the champion
    error: float
    #: the other measure against the champion, where it can be computed
    beside: Beside | None
    #: evidence against the champion from all challenges of this kind, and what is needed
    evidence: float
    needed: float
    #: what a challenge with these queries can find
    power: Power
    #: generation that was challenged, and generation in use now; 0 is the base
    champion: int
    generation: int
    #: judgements that the challenger learnt from (0 if unknown), and judgements that decided
    n_learnt: int
    n_held_out: int
    #: whether the judgements are mere clicks
    clicks: bool = False
    #: mean of the challenger before it learnt anything, if known
    start: float | None = None

    @property
    def promoted(self) -> bool:
        """Whether the challenger is better than the champion, and no worse than the base."""
        return not self._objection and self.evidence >= self.needed

    @property
    def _objection(self) -> str:
        """Objection to the challenger that evidence cannot overrule."""
        gain, beside = self.against_champion.difference, self.beside
        if self.against_champion.better == "b":
            return f"the challenger is worse by {-gain:.4f}"
        if self.clicks:
            return CLICKS_DO_NOT_DECIDE
        if gain <= 0:
            return f"the challenger is no better ({gain:+.4f})"
        if self.evidence >= self.needed and gain < self.error:
            return (
                f"most queries gain, but a few lose so much that the mean difference, {gain:+.4f}, "
                f"is within a standard error, {self.error:.4f}"
            )
        if self.against_base.difference < 0:
            return "the challenger is better than it, but worse than the base"
        if beside is not None and beside.worse:
            return (
                f"{self.measure} is better by {gain:.4f}, but {beside.measure} worse by "
                f"{-beside.difference:.4f}"
            )
        return ""

    @property
    def reason(self) -> str:
        """The verdict in a sentence or two."""
        name = f"generation {self.champion}" if self.champion else "the base"
        gain, shown = self.against_champion.difference, f"evidence {self.evidence:.3g}"
        if self.promoted:
            return f"Promoted: better than {name} by {gain:.4f}, {shown}."
        if self._objection:
            return f"Kept {name}: {self._objection}."
        return (
            f"Kept {name}: the difference of {gain:+.4f} is within chance, {shown} of the "
            f"{self.needed:.3g} needed. {self.power}"
        )

    @property
    def measure(self) -> str:
        """Name of the measure that decides."""
        return self.against_base.measure

    @property
    def n_queries(self) -> int:
        """Number of held-out queries."""
        return self.against_base.wins + self.against_base.ties + self.against_base.losses

    @property
    def figures(self) -> dict[str, float]:
        """Means of the measure over the held-out queries."""
        start = {} if self.start is None else {"start": self.start}
        return {
            "base": self.against_base.mean_b,
            **start,
            "champion": self.against_champion.mean_b,
            "challenger": self.against_base.mean_a,
        }

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.figures.items())
        return f"{self.reason} {self.measure} on {self.power.sample}: {shown}."

    def _repr_html_(self) -> str:
        """The verdict and the figures behind it as a table, for notebooks."""
        against = self.against_champion
        low, high = against.interval
        rows = [[name, f"{value:.4f}"] for name, value in self.figures.items()]
        rows += [
            ["challenger - champion", f"{against.difference:+.4f}"],
            [f"{100 * against.level:g} % interval", f"{low:+.4f} to {high:+.4f}"],
            ["evidence, of that needed", f"{self.evidence:.3g} of {self.needed:.3g}"],
            ["held out", self.power.sample],
        ]
        return html_table(self.reason, [self.measure, ""], rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {
            "promoted": self.promoted,
            "generation": self.generation,
            "challenged": self.champion,
            "reason": self.reason,
            "measure": self.measure,
            **self.figures,
            "evidence": self.evidence,
            "needed": self.needed,
            "difference": self.against_champion.difference,
            "standard_error": self.error,
            "interval": list(self.against_champion.interval),
            "p_value": self.against_champion.p_value,
            "difference_to_base": self.against_base.difference,
            "interval_to_base": list(self.against_base.interval),
            "p_value_to_base": self.against_base.p_value,
            "wins": self.against_champion.wins,
            "ties": self.against_champion.ties,
            "losses": self.against_champion.losses,
            "beside": None if self.beside is None else vars(self.beside),
            "power": self.power.to_dict(),
            "clicks": self.clicks,
            "n_learnt": self.n_learnt,
            "n_held_out": self.n_held_out,
            "n_queries": self.n_queries,
        }
