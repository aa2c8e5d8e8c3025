"""What came of a challenge: figures of base, champion and challenger side by side."""

from dataclasses import dataclass
from typing import Any

from similia.retrieval import Comparison


@dataclass(frozen=True)
class Outcome:
    """Whether the challenger replaces the champion, and why.

    Attributes
    ----------
    promoted : bool
    generation : int
        The generation that is current now; 0 is the base.
    reason : str
        One sentence.
    against_champion, against_base : Comparison
        Challenger (a) against champion and base (b), on held-out queries. They are the same while
        the base is the champion.
    champion : int
        Generation that was challenged.
    n_learnt, n_held_out : int
        Judgements that the challenger learnt from (0 if that is not known) and that decided.
    n_queries : int
        Held-out queries.
    """

    promoted: bool
    generation: int
    reason: str
    against_champion: Comparison
    against_base: Comparison
    champion: int
    n_learnt: int
    n_held_out: int
    n_queries: int

    @property
    def measure(self) -> str:
        """Name of the measure."""
        return self.against_base.measure

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
        """Give everything as plain values, ready for JSON."""
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


def reasoned(against_champion: Comparison, against_base: Comparison, champion: int) -> str:
    """Say in a sentence what follows from the two comparisons, and why."""
    name = "the base" if champion == 0 else f"generation {champion}"
    gain = against_champion.difference
    if promotes(against_champion, against_base):
        return f"Promoted: better than {name} by {gain:.4f}, p = {against_champion.p_value:.2g}."
    if against_champion.better == "b":
        return f"Kept {name}: the challenger is worse by {-gain:.4f}."
    if against_champion.better == "a":
        return f"Kept {name}: the challenger is better than it, but worse than the base."
    if champion == 0:
        return (
            f"Kept the base: as far as can be told it is already as good; the difference of "
            f"{gain:+.4f} is within chance, p = {against_champion.p_value:.2g}."
        )
    return (
        f"Kept {name}: the difference of {gain:+.4f} is within chance, "
        f"p = {against_champion.p_value:.2g}."
    )


def promotes(against_champion: Comparison, against_base: Comparison) -> bool:
    """Give whether the challenger is better than the champion beyond chance, and no worse than
    the base.
    """
    return against_champion.better == "a" and against_base.difference >= 0
