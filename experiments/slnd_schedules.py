"""SLND and SGD in the paper's scheme, with constant and with falling steps.

    python -m experiments.slnd_schedules --seeds 0 1 2 [--sets isolet ...] [--contenders SLND ...]

Balanced examples, no damping. A quarter of the training part chooses rank and step, anew for each
number of passes, and a grid whose best step is at an end grows. Runs that have their rows are not
made again.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.problems import PROBLEMS
from experiments.rows import COLUMNS, HERE, Row, append_rows, as_text, read_rows, versions
from experiments.slnd_curves import CLASSES, LARGEST, SETS
from experiments.slnd_passes import DIAGONAL, OWN, Side, curve, in_coordinates
from similia.linear.examples import with_intercept

FOLDER = HERE / "results" / "slnd"
PASSES = (1, 2, 5, 10, 20, 50)
#: numbers of passes over a million rows
FEW_PASSES = PASSES[:5]
#: steps to begin with; the grid grows within these bounds
STEPS = (0.03, 0.1, 0.3, 1.0, 3.0)
LEAST_STEP, LARGEST_STEP = 1e-4, 1e3
RANKS = (25, 50, 100, 200, 400, 800)
#: contender -> schedules
CONTENDERS = {
    "SLND": ("constant", "linear"),
    "SGD": ("constant", "linear", "sqrt"),
    DIAGONAL: ("constant", "linear"),
    "SLND hinge": ("constant",),
    OWN: ("constant",),
}
FULL_RANK = ("SGD", DIAGONAL)
#: most rows to judge by: scores of all classes take longer than a pass
HELD_ROWS = 10_000
#: classes from which on the five best are counted, too
MANY_CLASSES = 100


Choice = tuple[float, int | None, float]  # accuracy in validation, rank, step


def choose(
    side: Side, ranks: Sequence[int | None], schedule: str, passes: Sequence[int], seed: int
) -> dict[int, Choice]:
    """Rank and step that decide best on the rows to judge by, for each number of passes."""
    best: dict[int, Choice] = {}
    for rank in ranks:
        some, known = side.first(rank), {}
        steps = list(STEPS)
        while steps:
            known.update({eta: curve(some, schedule, eta, seed, passes) for eta in steps})
            peaks = {max(known, key=lambda eta: known[eta][n][0]) for n in passes}
            ends = {min(known): min(known) / 3, max(known): max(known) * 3}
            steps = [ends[eta] for eta in peaks & set(ends)]
            steps = [eta for eta in steps if LEAST_STEP <= eta <= LARGEST_STEP]
        for n in passes:
            eta = max(known, key=lambda eta: known[eta][n][0])
            best[n] = max(best.get(n, (-1.0, None, 0.0)), (known[eta][n][0], rank, eta))
    return best


def run(problem: str, options: dict[str, Any], contender: str, seed: int) -> Iterator[Row]:
    """Choose on a quarter of the training part, then learn from all of it."""
    place = (problem, as_text(options))
    loss = "hinge" if contender == "SLND hinge" else "logistic"
    inner, outer = sides(problem, options, loss, seed)
    passes = FEW_PASSES if place in LARGEST else PASSES
    ranks: Sequence[int | None] = (None,)
    inner = in_coordinates(inner, contender, max(RANKS), seed)
    if contender not in FULL_RANK:
        ranks = sorted({min(rank, inner.directions) for rank in RANKS})

    @cache
    def projected(rank: int | None) -> Side:
        return in_coordinates(outer, contender, rank, seed)

    for schedule in CONTENDERS[contender]:
        chosen = choose(inner, ranks, schedule, passes, seed)
        for rank, eta in sorted({c[1:] for c in chosen.values()}, key=str):
            wanted = [n for n in passes if chosen[n][1:] == (rank, eta)]
            for n, point in curve(projected(rank), schedule, eta, seed, wanted).items():
                setting = {"schedule": schedule, "max_iter": n, "rank": rank, "eta_scale": eta}
                told = {"top1": point.top1, "validated": chosen[n][0]}
                if outer.y.max() + 1 >= MANY_CLASSES:
                    told["top5"] = point.top5
                for measure, value in told.items():
                    given = ("run", *place, contender, as_text(setting), seed)
                    found = (f"{value:.5f}", f"{point.seconds:.3f}")
                    rest = (0, len(outer.y_test), "scores", measure, *found)
                    yield dict(zip(COLUMNS, (*given, *rest, versions(), ""), strict=True))


def sides(problem: str, options: dict[str, Any], loss: str, seed: int) -> tuple[Side, Side]:
    """The training part without what is held out, and that; the training and the test part."""
    data = PROBLEMS[problem](seed, **options)
    X, X_test = (
        with_intercept(X.astype(np.float32, copy=False)) for X in (data.X_train, data.X_test)
    )
    y, y_test = (np.searchsorted(np.unique(data.y_train), y) for y in (data.y_train, data.y_test))
    order = np.random.default_rng(seed).permutation(len(y))
    held, rest = np.split(order, [min(len(y) // 4, HELD_ROWS)])
    return Side(X[rest], y[rest], X[held], y[held], loss), Side(X, y, X_test, y_test, loss)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--sets", nargs="*", default=[], help="sets whose problem has this text")
    parser.add_argument("--contenders", nargs="*", default=["SLND", "SGD"], choices=CONTENDERS)
    given = parser.parse_args(arguments)
    places = [p for p in (*SETS, *CLASSES, *LARGEST) if fits(" ".join(p), given.sets)]
    done = {run_of(row) for row in read_rows(FOLDER)}
    for seed, (problem, options), contender in product(given.seeds, places, given.contenders):
        if (problem, options, contender, seed) in done:
            continue
        begun = time.perf_counter()
        with threadpool_limits(1), np.errstate(all="ignore"):
            rows = list(run(problem, json.loads(options), contender, seed))
        append_rows(FOLDER / f"{problem}.csv", rows)
        spent = time.perf_counter() - begun
        sys.stdout.write(f"{problem} {options} {contender} {seed}: {spent:.0f} s\n")
        sys.stdout.flush()


def fits(place: str, texts: Sequence[str]) -> bool:
    return not texts or any(text in place for text in texts)


def run_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[column] for column in ("problem", "options", "contender", "seed"))


if __name__ == "__main__":
    main()
