"""Paired differences between contenders, from rows."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from experiments.summary import half_interval
from experiments.traffic.contenders import CONTENDERS
from experiments.traffic.results import MEANS, Row

#: Blend before it has learnt anything
START = "Blend's start"
RIVALS = tuple(name for name in CONTENDERS if name != "Blend")


class Gap(NamedTuple):
    """Mean of paired differences over seeds, and half of its 95 % interval (Student's t)."""

    mean: float
    half: float

    @property
    def sign(self) -> int:
        """1 or -1 beyond chance, else 0."""
        return int(np.sign(self.mean)) if abs(self.mean) > self.half else 0

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.half:.3f}"


class Table:
    """Rows by stage, set, cell, contender and step; seeds are kept apart."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows: dict[tuple[Any, ...], dict[int, Row]] = defaultdict(dict)
        for row in rows:
            key = tuple(row[name] for name in ("stage", "set", "cell", "contender", "step"))
            self.rows[key][row["seed"]] = row
            if row["contender"] == "Blend":
                self.rows[(*key[:3], START, key[4])][row["seed"]] = _start(row)

    def values(self, where: tuple[str, str, str], who: str, what: str, step: int) -> dict[int, Any]:
        """Values by seed; `where` is stage, set and cell."""
        rows = self.rows.get((*where, who, step), {})
        return {seed: row[what] for seed, row in rows.items() if not _is_missing(row[what])}

    def mean(self, where: tuple[str, str, str], who: str, what: str, step: int) -> float:
        values = self.values(where, who, what, step)
        return float(np.mean(list(values.values()))) if values else float("nan")

    def gap(
        self, where: tuple[str, str, str], one: str, other: str, what: str, step: int
    ) -> Gap | None:
        """What `one` has more than `other` on the same seeds, or None with fewer than two."""
        ours = self.values(where, one, what, step)
        theirs = self.values(where, other, what, step)
        return gap_of([ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()])

    def learnt(self, where: tuple[str, str, str], who: str, what: str, step: int) -> Gap | None:
        """What a contender shows beyond what it would have shown unlearnt."""
        ours = self.values(where, who, what, step)
        theirs = self.values(where, who, f"start {what}", step)
        return gap_of([ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()])

    def best_rival(self, where: tuple[str, str, str], what: str, step: int) -> str | None:
        """The contender that is furthest ahead on common seeds, known only afterwards."""
        gaps = {name: self.gap(where, "Blend", name, what, step) for name in RIVALS}
        known = {name: gap.mean for name, gap in gaps.items() if gap is not None}
        return min(known, key=lambda name: known[name]) if known else None

    def least_windows(self, where: tuple[str, str, str], step: int) -> dict[str, Gap]:
        """The least mean of any 200 searches, over seeds, minus start and minus base."""
        ours = self.values(where, "Blend", "windows", step)
        found = {}
        for name in (START, "base"):
            theirs = self.values(where, name, "windows", step)
            seeds = sorted(ours.keys() & theirs.keys())
            if len(seeds) > 1:
                gaps = np.array([ours[seed] - theirs[seed] for seed in seeds])
                least = int(gaps.mean(axis=0).argmin())
                found[name] = gap_of(list(gaps[:, least]))
        return found


def gap_of(gaps: list[float]) -> Gap | None:
    """Mean and interval, or None with fewer than two seeds."""
    return Gap(float(np.mean(gaps)), half_interval(gaps)) if len(gaps) > 1 else None


def _start(row: Row) -> Row:
    """The row of a contender that had never learnt."""
    found = {name: row[f"start {name}"] for name in (*MEANS, "windows")}
    return {**row, **found, "regret": row["regret"] + row["shown"] - row["start shown"]}


def _is_missing(value: Any) -> bool:
    return isinstance(value, str)
