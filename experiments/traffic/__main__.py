"""Live search traffic: ``python -m experiments.traffic [stage ...] [--only TEXT ...]``.

Stages: choose (settings of the contenders, on sets and seeds that do not judge), judge, fresh (all
sets, further seeds), robust (a hundred seeds), clicks (people's real ones), report. All by default.
Runs that have their rows are not run again.
"""

import argparse
import json
from collections import defaultdict

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.peers.call import CannotRunError
from experiments.traffic import opened, report
from experiments.traffic.contenders import CHOSEN, CONTENDERS, make
from experiments.traffic.loop import run
from experiments.traffic.plan import CELLS, SETS, STAGES, STEPS, Task, as_text, tasks
from experiments.traffic.results import append_rows, missing, read_rows, rows_of
from experiments.traffic.world import load_world
from similia.progress import progress

ALL = (*STAGES, "clicks", "report")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", choices=[*ALL, []], default=[], metavar="stage")
    parser.add_argument("--only", nargs="*", default=[], help="sets, cells or contenders, exact")
    parser.add_argument("--seeds", type=int, help="run the first so many of each")
    given = parser.parse_args(arguments)
    for stage in given.stages or ALL:
        if stage == "report":
            print(report.write())
        elif stage == "clicks":
            opened.run()
        else:
            run_stage(stage, given.only, given.seeds)


def run_stage(stage: str, only: list[str], seeds: int | None) -> None:
    wanted = [task for task in missing(tasks(stage), read_rows()) if _wanted(task, only)]
    if seeds is not None:
        allowed = sorted({task.seed for task in tasks(stage)})[:seeds]
        wanted = [task for task in wanted if task.seed in allowed]
    with progress(stage, len(wanted)) as advance, threadpool_limits(1):
        for task in wanted:
            try:
                append_rows(rows_of(task, run_task(task)))
            except CannotRunError as reason:
                print(f"{task.contender}: {reason}")
            advance(1)
    if stage == "choose":
        _choose()


def _wanted(task: Task, only: list[str]) -> bool:
    kinds = {"set": task.world, "cell": task.cell, "contender": task.contender}
    known = {"set": SETS, "cell": CELLS, "contender": CONTENDERS}
    asked = {kind: [name for name in only if name in known[kind]] for kind in kinds}
    return all(kinds[kind] in names for kind, names in asked.items() if names)


def run_task(task: Task) -> object:
    cell = CELLS[task.cell]
    world = load_world(task.world, cell.paraphrases)
    return run(world, make(task.contender, world, task.setting), cell, task.seed, STEPS)


def _choose() -> None:
    """Write the setting of each contender that showed most, averaged over sets."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows():
        if row["stage"] == "choose" and row["step"] == 1000:
            found[row["contender"]][row["setting"]].append(row["shown"])
    chosen = {}
    for name, (_, settings) in CONTENDERS.items():
        if name in found:
            values = {as_text(s): np.mean(found[name][as_text(s)]) for s in settings}
            chosen[name] = max(settings, key=lambda s: values[as_text(s)])
    CHOSEN.write_text(json.dumps(chosen, indent=2) + "\n")


if __name__ == "__main__":
    main()
