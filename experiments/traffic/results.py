"""Rows of runs, kept as CSV and only ever appended to: one for each run and step."""

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.rows import HERE
from experiments.traffic.loop import NEAR, NEW, SEEN, Run
from experiments.traffic.plan import STEPS, Task, as_text
from experiments.traffic.searches import BANDS

FOLDER = HERE / "results" / "traffic"
#: searches whose mean is compared with base and start
WINDOW = 200
KEY = ("stage", "set", "cell", "contender", "setting", "seed", "step")
#: means of nDCG@10 over the searches up to the step; those before are what is shown, those of the
#: start what the contender would have shown unlearnt
MEANS = ("shown", "seen", "near", "new", *BANDS, "last", "held")
STARTS = tuple(f"start {name}" for name in MEANS)
#: regret: best fixed blend in hindsight minus shown; means of each 200 searches, as text
COLUMNS = (*KEY, *MEANS, *STARTS, "regret", "seconds", "windows", "start windows")
Row = dict[str, Any]


def rows_of(task: Task, run: Run) -> list[Row]:
    """One row for each step that the run has reached."""
    return [_row(task, run, step) for step in STEPS if step <= len(run.shown)]


def _row(task: Task, run: Run, step: int) -> Row:
    row: Row = {
        "stage": task.stage,
        "set": task.world,
        "cell": task.cell,
        "contender": task.contender,
        "setting": as_text(task.setting),
        "seed": task.seed,
        "step": step,
        "regret": _digits(run.hindsight[step] - run.shown[:step].mean()),
        "seconds": f"{run.seconds:.2f}",
    }
    for prefix, values, at in (("", run.shown, step), ("start ", run.start, 0)):
        means = _means(run, values[:step], step)
        means["held"] = _digits(run.held[at])
        row |= {prefix + name: value for name, value in means.items()}
        whole = step == len(run.shown)
        row[f"{prefix}windows"] = " ".join(map(_digits, windows(values))) if whole else ""
    return row


def _means(run: Run, values: Any, step: int) -> dict[str, str]:
    status, band = run.status[:step], run.band[:step]
    parts = {name: status == kind for name, kind in (("seen", SEEN), ("near", NEAR), ("new", NEW))}
    parts |= {name: band == place for place, name in enumerate(BANDS)}
    parts["shown"] = np.ones(step, dtype=bool)
    parts["last"] = (np.arange(step) >= step - WINDOW) & (status == SEEN)
    return {name: _digits(values[part].mean()) for name, part in parts.items() if part.any()}


def windows(values: Any) -> Any:
    """Means of each 200 searches."""
    return values[: len(values) // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)


def _digits(value: float) -> str:
    return f"{value:.4f}"


def append_rows(rows: list[Row], folder: Path = FOLDER) -> None:
    """Add the rows of a run in one write, so that a run is there as a whole or not at all."""
    path = folder / f"{rows[0]['stage']}-{rows[0]['set']}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    class Lines:
        write = staticmethod(lines.append)

    table = csv.DictWriter(Lines, COLUMNS, lineterminator="\n")
    if not path.exists():
        table.writeheader()
    table.writerows(rows)
    with path.open("a", newline="") as stream:
        stream.write("".join(lines))


def read_rows(folder: Path = FOLDER) -> list[Row]:
    """All rows of a folder; what is done with is kept compressed."""
    found: dict[tuple[Any, ...], Row] = {}
    for path in sorted(folder.glob("*-*.csv*"), reverse=True):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="") as stream:
            for row in csv.DictReader(stream):
                row = _numbers(row)
                found[tuple(row[name] for name in KEY)] = row
    return list(found.values())


def _numbers(row: Row) -> Row:
    numbers = {n: float(row[n]) for n in (*MEANS, *STARTS, "regret", "seconds") if row[n]}
    for name in ("windows", "start windows"):
        numbers[name] = np.array(row[name].split(), dtype=float)
    return {**row, **numbers, "seed": int(row["seed"]), "step": int(row["step"])}


def missing(tasks: Iterable[Task], rows: list[Row]) -> list[Task]:
    done = {(*(row[name] for name in KEY[:5]), row["seed"]) for row in rows}
    return [task for task in tasks if (*task.key, task.seed) not in done]
