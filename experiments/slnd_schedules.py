"""SLND and SGD in the paper's scheme, with constant and with falling steps.

    python -m experiments.slnd_schedules --seeds 0 1 2 [--sets isolet ...] [--contenders SLND ...]

Balanced examples, no damping. A quarter of the training part chooses rank and step, anew for each
number of passes, and a grid whose best step is at an end grows. As w stays in the span of the
eigenvectors, SLND is SGD on the rows u = D^{-1/2}P'x, and that is how it is run here. Seconds are
processor time of Hessian, projection and passes. Runs that have their rows are not made again.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from experiments.problems import PROBLEMS
from experiments.rows import COLUMNS, HERE, Row, append_rows, as_text, read_rows, versions
from experiments.slnd_curves import CLASSES, SETS
from similia.linear.examples import Examples, TrainingSplit, with_intercept
from similia.linear.frames import SCHEDULES, Descent, Scaling
from similia.linear.hessian import leading_eigenpairs
from similia.linear.passes import Passes
from similia.losses import LOSSES

FOLDER = HERE / "results" / "slnd"
PASSES = (1, 2, 5, 10, 20, 50)
#: steps to begin with, in units of 1/(F''(0) mean |u|²); the grid grows within these bounds
STEPS = (0.03, 0.1, 0.3, 1.0, 3.0)
LEAST_STEP, LARGEST_STEP = 1e-4, 1e3
RANKS = (25, 50, 100, 200, 400, 800)
HESSIAN_ROWS = 5000
#: contender -> schedules
CONTENDERS = {
    "SLND": ("constant", "linear"),
    "SGD": ("constant", "linear", "sqrt"),
    "diagonal Hessian": ("constant", "linear"),
    "SLND hinge": ("constant",),
}


LOW_RANK = ("SLND", "SLND hinge")


class Side(NamedTuple):
    """Rows of a problem in the coordinates of a contender, to learn from and to judge by."""

    U: Any
    y: Any
    U_test: Any
    y_test: Any
    loss: str
    seconds: float = 0.0

    def first(self, rank: int | None) -> "Side":
        if rank is None:
            return self
        some = (np.ascontiguousarray(U[:, :rank]) for U in (self.U, self.U_test))
        return self._replace(**dict(zip(("U", "U_test"), some, strict=True)))


def in_coordinates(side: Side, contender: str, rank: int | None, seed: int) -> Side:
    """The rows as they are, scaled feature by feature, or projected on `rank` eigenvectors."""
    if contender == "SGD":
        return side
    begun = time.process_time()
    if contender in LOW_RANK:
        rng = np.random.default_rng(seed)
        sample = np.sort(rng.permutation(side.U.shape[0])[:HESSIAN_ROWS])
        pairs = leading_eigenpairs(side.U[sample], None, rank, seed)
        scale = pairs.vectors / np.sqrt(pairs.values)
        U, spent = side.U @ scale, time.process_time() - begun
        U_test = side.U_test @ scale
    else:
        squares = np.square(side.U).mean(axis=0)
        scale = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        U, spent = side.U * scale, time.process_time() - begun
        U_test = side.U_test * scale
    return side._replace(U=U, U_test=U_test, seconds=spent)


def curve(
    side: Side, schedule: str, eta_scale: float, seed: int, wanted: Sequence[int] = PASSES
) -> dict[int, tuple[float, float]]:
    """Passes -> top-1 accuracy and processor seconds; falling steps end with each of them."""
    found = {}
    for marks in [(n,) for n in wanted] if schedule == "linear" else [wanted]:
        passes = _started(side, schedule, eta_scale, max(marks), seed)
        rng, spent = np.random.default_rng(seed), side.seconds
        for n in range(1, max(marks) + 1):
            begun = time.process_time()
            passes.make(rng)
            spent += time.process_time() - begun
            if n in marks:
                scores = side.U_test @ passes.state()[0].T
                found[n] = (float((scores.argmax(axis=1) == side.y_test).mean()), spent)
    return found


def _started(side: Side, schedule: str, eta_scale: float, most: int, seed: int) -> Passes:
    examples, n = Examples("experiment", side.U, side.y, intercept=False), len(side.y)
    split = TrainingSplit(examples, np.random.default_rng(seed).permutation(n), np.arange(0))
    loss = LOSSES[side.loss]
    descent = Descent(loss, SCHEDULES[schedule][0], most * n, False, balanced=True, epsilon=None)
    squares = side.U.multiply(side.U) if sparse.issparse(side.U) else np.square(side.U)
    eta = eta_scale / (loss.steepest * float(squares.sum(dtype=np.float64)) / n)
    w = np.zeros((examples.n_vectors, side.U.shape[1]), np.float32)
    passes = Passes(split, descent, w, w[:0], 0)
    passes.rescale(Scaling(np.ones(w.shape[1], np.float32), eta, float(w.shape[1])))
    if not sparse.issparse(side.U):  # nothing to project: the fast loop reads the rows themselves
        passes.frames[0].kept = side.U[split.rows]
    return passes


Choice = tuple[float, int | None, float]  # accuracy in validation, rank, step


def choose(side: Side, contender: str, schedule: str, seed: int) -> dict[int, Choice]:
    """Rank and step that decide best on the rows to judge by, for each number of passes."""
    ranks: Sequence[int | None] = (None,)
    if contender in LOW_RANK:
        side = in_coordinates(side, contender, max(RANKS), seed)
        most = side.U.shape[1]
        ranks = sorted({min(rank, most) for rank in RANKS})
    best: dict[int, Choice] = {}
    for rank in ranks:
        some, known = side.first(rank), {}
        steps = list(STEPS)
        while steps:
            known.update({eta: curve(some, schedule, eta, seed) for eta in steps})
            peaks = {max(known, key=lambda eta: known[eta][n][0]) for n in PASSES}
            ends = {min(known): min(known) / 3, max(known): max(known) * 3}
            steps = [ends[eta] for eta in peaks & set(ends)]
            steps = [eta for eta in steps if LEAST_STEP <= eta <= LARGEST_STEP]
        for n in PASSES:
            eta = max(known, key=lambda eta: known[eta][n][0])
            best[n] = max(best.get(n, (-1.0, None, 0.0)), (known[eta][n][0], rank, eta))
    return best


def run(problem: str, options: dict[str, Any], contender: str, seed: int) -> Iterator[Row]:
    """Choose on a quarter of the training part, then learn from all of it."""
    data = PROBLEMS[problem](seed, **options)
    X, X_test = (with_intercept(X.astype(np.float32)) for X in (data.X_train, data.X_test))
    y, y_test = (np.searchsorted(np.unique(data.y_train), y) for y in (data.y_train, data.y_test))
    order = np.random.default_rng(seed).permutation(len(y))
    held, rest = order[: len(y) // 4], order[len(y) // 4 :]
    loss = "hinge" if contender == "SLND hinge" else "logistic"
    inner, outer = Side(X[rest], y[rest], X[held], y[held], loss), Side(X, y, X_test, y_test, loss)
    for schedule in CONTENDERS[contender]:
        chosen = choose(inner, contender, schedule, seed)
        for rank, eta in sorted({c[1:] for c in chosen.values()}, key=str):
            passes = [n for n in PASSES if chosen[n][1:] == (rank, eta)]
            found = curve(in_coordinates(outer, contender, rank, seed), schedule, eta, seed, passes)
            for n, (accuracy, seconds) in found.items():
                setting = {"schedule": schedule, "max_iter": n, "rank": rank, "eta_scale": eta}
                told = {"top1": accuracy, "validated": chosen[n][0]}
                for measure, value in told.items():
                    given = ("run", problem, as_text(options), contender, as_text(setting), seed)
                    rest_ = (0, len(y_test), "scores", measure, f"{value:.5f}", f"{seconds:.3f}")
                    yield dict(zip(COLUMNS, (*given, *rest_, versions(), ""), strict=True))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--sets", nargs="*", default=[], help="sets whose problem has this text")
    parser.add_argument("--contenders", nargs="*", default=["SLND", "SGD"], choices=CONTENDERS)
    given = parser.parse_args(arguments)
    places = [place for place in (*SETS, *CLASSES) if fits(" ".join(place), given.sets)]
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
