"""Who is better on how many problems: what a scatter plot shows, counted."""

import json
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from experiments.rows import Row, select


class Side(NamedTuple):
    """One of a contender's scores, at a step, or at whatever step it has."""

    contender: str
    score: str = "l2"
    step: int | None = None

    def errors(
        self, rows: Iterable[Row], option: str, measure: str
    ) -> dict[tuple[str, int], float]:
        """1 - measure by the value of an option, and seed."""
        wanted = {"contender": self.contender, "score": self.score, "measure": measure}
        if self.step is not None:
            wanted["step"] = self.step
        return {
            (json.loads(row["options"])[option], row["seed"]): 1 - row["value"]
            for row in select(rows, **wanted)
        }


class Duel(NamedTuple):
    """On how many problems we have the smaller, the same and the larger error; the errors."""

    better: int
    equal: int
    worse: int
    pairs: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        return f"{self.better} / {self.equal} / {self.worse}"

    @property
    def mean(self) -> tuple[float, float]:
        """Their mean error and ours."""
        return fmean(them for them, _ in self.pairs), fmean(us for _, us in self.pairs)


def duel(
    rows: list[Row], ours: Side, theirs: Side, option: str, measure: str = "accuracy@3"
) -> Duel | None:
    """Compare means over the seeds that both have; None if they never met."""
    mine, other = (side.errors(rows, option, measure) for side in (ours, theirs))
    met: dict[str, list[tuple[float, float]]] = {}
    for place in sorted(mine.keys() & other.keys()):
        met.setdefault(place[0], []).append((other[place], mine[place]))
    if not met:
        return None
    pairs = tuple(
        (fmean(them for them, _ in values), fmean(us for _, us in values))
        for values in met.values()
    )
    gaps = [round(them - us, 7) for them, us in pairs]
    return Duel(sum(g > 0 for g in gaps), gaps.count(0), sum(g < 0 for g in gaps), pairs)
