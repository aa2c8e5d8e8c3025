"""The outcome of a challenge: base, champion and challenger side by side, and the verdict."""

from dataclasses import dataclass
from typing import Any

from similia.retrieval import Comparison


@dataclass(frozen=True)
class Outcome:
    """Whether a challenger replaces the champion, and why."""

    #: challenger (a) against champion and base (b) on held-out queries; the same comparison while
    #: the base is the champion
    against_champion: Comparison
    against_base: Comparison
    #: generation that was challenged, and generation in use now; 0 is the base
    champion: int
    generation: int
    #: judgements that the challenger learnt from (0 if unknown), and judgements that decided
    n_learnt: int
    n_held_out: int

    @property
    def promoted(self) -> bool:
        """Whether the challenger is better than the champion, and no worse than the base."""
        return self.against_champion.better == "a" and self.against_base.difference >= 0

    @property
    def reason(self) -> str:
        """The verdict in a sentence."""
        name = f"generation {self.champion}" if self.champion else "the base"
        found = self.against_champion
        gain, chance = found.difference, f"p = {found.p_value:.2g}"
        if self.promoted:
            return f"Promoted: better than {name} by {gain:.4f}, {chance}."
        if found.better == "a":
            return f"Kept {name}: the challenger is better than it, but worse than the base."
        if found.better == "b":
            return f"Kept {name}: the challenger is worse by {-gain:.4f}."
        enough = "" if self.champion else "it is already as good, as far as can be told; "
        return f"Kept {name}: {enough}the difference of {gain:+.4f} is within chance, {chance}."

    @property
    def measure(self) -> str:
        """Name of the measure."""
        return self.against_base.measure

    @property
    def n_queries(self) -> int:
        """Number of held-out queries."""
        return self.against_base.wins + self.against_base.ties + self.against_base.losses

    @property
    def figures(self) -> dict[str, float]:
        """Means of the measure over the held-out queries."""
        return {
            "base": self.against_base.mean_b,
            "champion": self.against_champion.mean_b,
            "challenger": self.against_base.mean_a,
        }

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.figures.items())
        return f"{self.reason} {self.measure} on {self.n_queries} held-out queries: {shown}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {
            "promoted": self.promoted,
            "generation": self.generation,
            "challenged": self.champion,
            "reason": self.reason,
            "measure": self.measure,
            **self.figures,
            "difference": self.against_champion.difference,
            "interval": list(self.against_champion.interval),
            "p_value": self.against_champion.p_value,
            "difference_to_base": self.against_base.difference,
            "interval_to_base": list(self.against_base.interval),
            "p_value_to_base": self.against_base.p_value,
            "wins": self.against_champion.wins,
            "ties": self.against_champion.ties,
            "losses": self.against_champion.losses,
            "n_learnt": self.n_learnt,
            "n_held_out": self.n_held_out,
            "n_queries": self.n_queries,
        }
