"""The claims of the SLND paper beside what came out."""

import json
import math
from collections.abc import Callable
from typing import Any

from experiments.report import Claim
from experiments.rows import Row, select
from experiments.slnd_curves import (
    LARGEST,
    SETS,
    Run,
    best_curve,
    better_schedule,
    of_set,
    scheme_runs,
)
from experiments.slnd_passes import DIAGONAL
from experiments.slnd_races import Race, best, of_seeds, races
from experiments.summary import half_interval, interval, with_interval

#: of an accuracy, in points: less is "similar"
SIMILAR = 1.0
MAGNITUDE = 10
#: 20 hours beside one
PRINTED_SPEEDUP = 20


def claims(rows: list[Row], exhibits: dict[str, Any]) -> list[Claim]:
    known = select(rows, value=lambda value: not math.isnan(value))
    found = races(known)
    if not found:
        return []
    return [
        _passes_claim(
            "SGD takes ten times the passes to 99 % of its best (constant steps for SLND, as in "
            "the paper; the better schedule for SGD)",
            found,
        ),
        _seconds_claim(found),
        *_largest_claim(known),
        *_five_claim(known),
        _accuracy_claim(found),
        *_likeness_claim(
            "a diagonal Hessian does as SGD does: best top-1, in points",
            '"similar results"',
            _gaps(known, lambda here: _less(_bests(here, DIAGONAL), _bests(here, "SGD"))),
        ),
        *_likeness_claim(
            "SGD-QN is close to SGD: best top-1 in 20 passes, in points",
            '"very close"',
            _gaps(known, lambda here: _less(_quasi_bests(here), _bests(here, "SGD", 20))),
        ),
        *_likeness_claim(
            "calibrated hinge and logistic loss are alike: best top-1, in points",
            '"very similar"',
            _gaps(
                known, lambda here: _less(_constant(here, "SLND hinge"), _constant(here, "SLND"))
            ),
        ),
        *_rank_claim(known),
    ]


def _of_all(count: int, n: int) -> str:
    return "yes" if count == n else f"partly: on {count} of {n} sets" if count else "no"


def _passes_claim(text: str, found: list[Race]) -> Claim:
    tenfold = sum(race.ratio >= MAGNITUDE for race in found)
    shown = "; ".join(f"{race.seeds}: × {race.told(race.ratios)}" for race in found)
    return Claim(text, "an order of magnitude", shown, _of_all(tenfold, len(found)))


def _five_claim(rows: list[Row]) -> list[Claim]:
    found = races(rows, SETS | LARGEST, "top5")
    return [_passes_claim("the same in top-5 accuracy", found)] if found else []


def _seconds_claim(found: list[Race]) -> Claim:
    text = "the same in seconds of one processor, with Hessian and projection"
    shown = "; ".join(f"{race.seeds}: × {race.told(race.speedups)}" for race in found)
    return Claim(text, "1 h beside 20 h (ImageNet)", shown, _seconds_verdict(found))


def _seconds_verdict(found: list[Race]) -> str:
    speedups = [race.speedup for race in found]
    first = [speedup for speedup in speedups if speedup > 1]
    if min(speedups) >= PRINTED_SPEEDUP:
        return "yes"
    where = f"first on {len(first)} of {len(found)} sets"
    return f"partly: {where}, × {max(first):.1f} at best" if first else "no"


def _largest_claim(rows: list[Row]) -> list[Claim]:
    found = races(rows, LARGEST)
    if not found:
        return []
    shown = "; ".join(
        f"{race.name}: × {race.told(race.ratios)}, and × {race.told(race.speedups)} in seconds"
        for race in found
    )
    text = "the same on a million rows (one seed)"
    verdict, tenfold = _seconds_verdict(found), sum(race.ratio >= MAGNITUDE for race in found)
    if verdict == "no" and tenfold:
        verdict = f"partly: ten times in passes on {tenfold} of {len(found)} sets, not in seconds"
    return [Claim(text, "1 h beside 20 h (1.2 million)", shown, verdict)]


def _accuracy_claim(found: list[Race]) -> Claim:
    gaps = {race.name: [100 * (a - b) for a, b in race.best] for race in found}
    better = sum(interval(gap)[0] - (half_interval(gap) or 0) > 0 for gap in gaps.values())
    text = "at least SGD's accuracy: best top-1 in 50 passes, in points"
    return Claim(text, '"improves significantly"', _shown(gaps), _of_all(better, len(gaps)))


def _shown(gaps: dict[str, list[float]]) -> str:
    return "; ".join(
        f"{of_seeds(name, len(gap))}: {with_interval(gap, 1, '+')}" for name, gap in gaps.items()
    )


def _likeness_claim(text: str, paper: str, gaps: dict[str, list[float]]) -> list[Claim]:
    """Two contenders that are said to be alike, by their gaps on each set."""
    if not gaps:
        return []
    like = sum(abs(interval(gap)[0]) < SIMILAR for gap in gaps.values())
    return [Claim(text, paper, _shown(gaps), _of_all(like, len(gaps)))]


def _gaps(rows: list[Row], gap: Callable[[list[Row]], list[float]]) -> dict[str, list[float]]:
    """Set -> gaps in points, seed by seed, where there are any."""
    found = {name: gap(of_set(rows, place)) for place, name in SETS.items()}
    return {name: gaps for name, gaps in found.items() if gaps}


def _less(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    return [100 * (ours[seed] - theirs[seed]) for seed in sorted(ours.keys() & theirs)]


def _bests(rows: list[Row], contender: str, most: int = 50) -> dict[int, float]:
    """Seed -> best accuracy with the better schedule, within a number of passes."""
    runs = scheme_runs(rows, contender)
    return {seed: best(_within(better_schedule(found), most)) for seed, found in runs.items()}


def _within(curve: dict[int, Run], most: int) -> dict[int, Run]:
    return {n: run for n, run in curve.items() if n <= most}


def _constant(rows: list[Row], contender: str) -> dict[int, float]:
    runs = scheme_runs(rows, contender)
    return {seed: best(found["constant"]) for seed, found in runs.items()}


def _quasi_bests(rows: list[Row]) -> dict[int, float]:
    mine = select(rows, contender="SGD-QN")
    curves = {
        seed: best_curve(select(mine, seed=seed), "SGD-QN")
        for seed in sorted({row["seed"] for row in select(mine, stage="run")})
    }
    return {seed: max(value for _, value in curve.values()) for seed, curve in curves.items()}


def _rank_claim(rows: list[Row]) -> list[Claim]:
    """Figure 3: accuracy has a plateau at large ranks; a fall beyond it contradicts it."""
    shown, flat = [], []
    for place, name in SETS.items():
        found = {
            json.loads(row["parameters"])["rank"]: row["value"]
            for row in select(of_set(rows, place), contender="SLND, rank", measure="top1", seed=0)
        }
        if found:
            peak, last = max(found, key=found.__getitem__), max(found)
            fall = 100 * (found[peak] - found[last])
            shown.append(f"{name} best at {peak}, at {last} {fall:.1f} points less")
            flat.append(fall < SIMILAR)
    if not shown:
        return []
    text = "accuracy over the rank has a large plateau (Figure 3; one step for all ranks)"
    return [Claim(text, "plateau on all sets", "; ".join(shown), _of_all(sum(flat), len(flat)))]
