"""The ten lines that a report begins with, made of rows."""

import math

import numpy as np

from experiments.traffic import opened
from experiments.traffic.figure import TITLES
from experiments.traffic.plan import CELLS, JUDGING, ROBUST, SETS
from experiments.traffic.table import START, Gap, Table, gap_of

FUSIONS = ("RRF", "DBSF", "min-max sum")
#: below its own start by more than this a run counts as bad
BAD = 0.01
Place = tuple[str, str, str]


def places(table: Table, stage: str) -> list[Place]:
    """Stage, set and cell of which there are rows of Blend."""
    found = {key[:3] for key in table.rows if key[0] == stage and key[3] == "Blend"}
    return [(stage, s, cell) for s in SETS for cell in CELLS if (stage, s, cell) in found]


def last_step(where: Place) -> int:
    return CELLS[where[2]].law.searches


def conclusion(table: Table) -> str:
    """Ten lines, each made of rows."""
    judged = places(table, "judge")
    short = [where for where in judged if last_step(where) == 1000]
    lines = [
        _learnt_line(table, short),
        _rival_line(table, judged, "seen"),
        _rival_line(table, judged, "held"),
        _start_line(table, short),
        _noise_line(table, judged),
        _windows_line(table, judged),
        _longer_line(table, judged),
        _drift_line(table, judged),
        _robust_line(table),
        _clicks_line(),
    ]
    return "\n".join(f"{i}. {line}" for i, line in enumerate(filter(None, lines), 1))


def _over(gaps: list[Gap | None]) -> str:
    """Mean and range of differences over cells."""
    means = [gap.mean for gap in gaps if gap]
    if not means:
        return "–"
    return f"{np.mean(means):+.3f} ({min(means):+.3f} to {max(means):+.3f})"


def _learnt_line(table: Table, judged: list[Place]) -> str:
    sets = len({where[1] for where in judged})
    told = [where for where in judged if where[2] != "noise .5"]
    over = {
        name: _over([table.gap(where, "Blend", name, "seen", 1000) for where in told])
        for name in (START, "base")
    }
    held = _over([table.gap(where, "Blend", START, "held", 1000) for where in told])
    return (
        f"**What is learnt.** On queries asked before, in 1,000 searches, Blend shows "
        f"{over[START]} nDCG@10 more than it would have shown unlearnt, and {over['base']} more "
        f"than the base: means over {len(told)} kinds of traffic on {sets} sets, and the range. On "
        f"queries nobody asks, learning is worth {held}."
    )


def _rival_line(table: Table, judged: list[Place], what: str) -> str:
    ahead, level, behind = 0, 0, []
    gaps = []
    for where in judged:
        rival = table.best_rival(where, what, last_step(where))
        gap = table.gap(where, "Blend", rival, what, last_step(where)) if rival else None
        if gap:
            gaps.append(gap)
            ahead, level = ahead + (gap.sign > 0), level + (gap.sign == 0)
            if gap.sign < 0:
                behind.append(f"{TITLES[where[1]]}, {where[2]} ({rival}, {gap})")
    name = {"seen": "asked before", "held": "never asked"}[what]
    said = f"; behind: {'; '.join(behind)}" if behind else ""
    return (
        f"**The best contender, queries {name}.** Against the one that is best in each cell, known "
        f"only afterwards, Blend is {_over(gaps)}: ahead beyond chance in {ahead} of {len(gaps)} "
        f"cells, level in {level}, behind in {len(behind)}{said}."
    )


def _start_line(table: Table, judged: list[Place]) -> str:
    cells = [where for where in judged if where[2] == "position"]
    cells += [where for where in places(table, "fresh") if where[1] not in JUDGING]
    found = []
    for where in cells:
        best = max(FUSIONS, key=lambda name: table.mean(where, name, "held", 1000))
        found.append(
            f"{TITLES[where[1]]} {table.gap(where, START, 'base', 'held', 1000)} and "
            f"{table.gap(where, START, best, 'held', 1000)} ({best})"
        )
    return (
        "**The start.** Before any click, on queries that nobody asks, Blend minus the base and "
        f"minus the best of RRF, DBSF and the min-max sum: {'; '.join(found)}."
    )


def _noise_line(table: Table, judged: list[Place]) -> str:
    cells = [where for where in judged if where[2] == "noise .5"]
    found = [
        f"{TITLES[where[1]]} "
        + ", ".join(
            f"{name} {table.learnt(where, name, 'shown', 1000)}"
            for name in ("Blend", "click table", "LinUCB")
        )
        for where in cells
    ]
    return f"**Pure noise.** Minus the own start: {'; '.join(found)}." if found else ""


def _windows_line(table: Table, judged: list[Place]) -> str:
    least: dict[str, tuple[Gap, Place]] = {}
    below = {START: 0, "base": 0}
    for where in judged:
        for name, gap in table.least_windows(where, last_step(where)).items():
            below[name] += gap.sign < 0
            if name not in least or gap.mean < least[name][0].mean:
                least[name] = gap, where
    if not least:
        return ""
    said = [
        f"{name.replace(START, 'its start')} {gap} ({TITLES[where[1]]}, {where[2]}; below beyond "
        f"chance in {below[name]} of {len(judged)} cells)"
        for name, (gap, where) in least.items()
    ]
    return f"**The worst 200 searches** of any cell, minus {', minus '.join(said)}."


def _longer_line(table: Table, judged: list[Place]) -> str:
    found = []
    for where in judged:
        if last_step(where) == 3000:
            gains = [
                f"{gap.mean:+.3f}"
                for step in (300, 1000, 3000)
                if (gap := table.gap(where, "Blend", START, "last", step))
            ]
            rival = table.best_rival(where, "last", 3000)
            gap = table.gap(where, "Blend", rival, "last", 3000) if rival else None
            kind = where[2].split(",")[0]
            found.append(f"{TITLES[where[1]]}, {kind}: {', '.join(gains)}; {rival} {gap}")
    if not found:
        return ""
    return (
        "**3,000 searches.** In the last 200 searches before the 300th, 1,000th and 3,000th, on "
        "queries asked before, Blend minus its start, and in the end minus the best contender: "
        f"{'; '.join(found)}."
    )


def _drift_line(table: Table, judged: list[Place]) -> str:
    found = []
    for where in judged:
        if where[2] in ("drift", "paraphrases"):
            what = {"drift": "last", "paraphrases": "near"}[where[2]]
            rival = table.best_rival(where, what, 1000)
            gap = table.gap(where, "Blend", rival, what, 1000) if rival else None
            own = table.gap(where, "Blend", START, what, 1000)
            found.append(f"{TITLES[where[1]]}, {where[2]} {own} and {gap} ({rival})")
    if not found:
        return ""
    return (
        "**Drift and paraphrases.** In the last 200 searches after half of the queries want "
        "something else, and on queries asked before in other words only: Blend minus its start, "
        f"and minus the best contender: {'; '.join(found)}."
    )


def _robust_line(table: Table) -> str:
    counts = robust_counts(table)
    if not counts:
        return ""
    said = [
        f"{name} {bad} (worst {worst:+.3f})"
        for name in ROBUST
        if any(key[1] == name for key in counts)
        for n, bad, worst in [_joined([c for key, c in counts.items() if key[1] == name])]
    ]
    n = sum(c[0] for key, c in counts.items() if key[1] == "Blend")
    return (
        f"**Many seeds.** Of {n} runs on {len({key[0][1] for key in counts})} sets, so many end "
        f"more than {BAD} below their own start: {', '.join(said)}."
    )


def _joined(counts: list[tuple[int, int, float]]) -> tuple[int, int, float]:
    return (
        sum(c[0] for c in counts),
        sum(c[1] for c in counts),
        min((c[2] for c in counts), default=math.nan),
    )


def _clicks_line() -> str:
    gaps = clicks_gaps("ndcg")
    if "Blend" not in gaps:
        return ""
    said = ", ".join(f"{name} {gap}" for name, gap in gaps.items())
    return (
        "**Real clicks.** Learning from what others opened and judged by what a person saved, "
        f"nDCG@10 minus the logged order: {said}."
    )


def robust_counts(table: Table) -> dict[tuple[Place, str], tuple[int, int, float]]:
    """Runs, runs that end below their own start by more than `BAD`, and the worst difference."""
    found = {}
    for key, rows in table.rows.items():
        if key[0] == "robust" and key[3] in ROBUST and key[4] == 1000:
            gaps = [row["last"] - _start_last(row) for row in rows.values()]
            found[key[:3], key[3]] = len(gaps), sum(gap < -BAD for gap in gaps), min(gaps)
    return found


def _start_last(row: dict[str, float]) -> float:
    return row["start last"]


def clicks_gaps(what: str) -> dict[str, Gap]:
    """Each contender minus the logged order, paired by person."""
    rows = opened.read()
    logged = {row["person"]: row[what] for row in rows if row["contender"] == "logged order"}
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["contender"] != "logged order":
            found.setdefault(row["contender"], []).append(row[what] - logged[row["person"]])
    return {name: gap for name, gaps in found.items() if (gap := gap_of(gaps))}
