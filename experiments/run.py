"""Run an experiment: python -m experiments.run aroma [--only TEXT ...] [--quick] [--jobs N].

Runs that have their rows already are not run again, so it can be stopped and started at will.
"""

import argparse
import json
import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from experiments.contenders import CONTENDERS
from experiments.exhibits import keep_exhibits
from experiments.measures import MEASURES
from experiments.peers.call import CannotRunError
from experiments.plan import (
    Task,
    final_tasks,
    is_stepwise,
    quick,
    read_plan,
    tuning_tasks,
    unfinished,
)
from experiments.problems import PROBLEMS, Problem, validation
from experiments.rows import COLUMNS, HERE, Row, append_rows, read_rows, run_key, versions
from similia.progress import progress


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paper", help="name of a .toml file of this folder, or its path")
    parser.add_argument("--only", nargs="*", default=[], help="contenders or problems with this")
    parser.add_argument("--quick", action="store_true", help="one seed and few steps, kept apart")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, help="folder of the rows")
    given = parser.parse_args(arguments)
    path = Path(given.paper) if given.paper.endswith(".toml") else HERE / f"{given.paper}.toml"
    plan = quick(read_plan(path)) if given.quick else read_plan(path)
    name = f"{path.stem}-quick" if given.quick else path.stem
    run_plan(plan, given.results or HERE / "results" / name, given.only, given.jobs)


def run_plan(plan: dict[str, Any], folder: Path, only: list[str] = (), jobs: int = 1) -> int:
    """Run what is missing, tuning first, then the exhibits; give the number of runs."""
    count = 0
    for stage in (tuning_tasks, lambda plan: final_tasks(plan, read_rows(folder))):
        tasks = [task for task in stage(plan) if _wanted(task, only)]
        count += _run_tasks(unfinished(tasks, read_rows(folder)), folder, jobs)
    if not only:
        keep_exhibits(plan.get("exhibits", []), plan["seeds"][0], folder)
    return count


def _wanted(task: Task, only: list[str]) -> bool:
    return not only or any(text in f"{task.problem} {task.contender}" for text in only)


def _run_tasks(tasks: list[Task], folder: Path, jobs: int) -> int:
    tasks = sorted(tasks, key=lambda task: (task.problem, task.options, task.seed))
    failed = {_failure(row) for row in read_rows(folder) if math.isnan(row["value"])}
    with progress(folder.name, len(tasks)) as advance:
        for rows in _outcomes(tasks, jobs):
            if _failure(rows[0]) not in failed:
                append_rows(folder / f"{rows[0]['problem']}.csv", rows)
            advance(1)
    return len(tasks)


def _failure(row: Row) -> tuple[Any, ...]:
    return (*run_key(row), row["note"])


def _outcomes(tasks: list[Task], jobs: int) -> Any:
    """Yield the rows of each task as they come, from as many processes as there are jobs."""
    if jobs == 1:
        yield from map(run_task, tasks)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        for future in as_completed([pool.submit(run_task, task) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def run_task(task: Task) -> list[Row]:
    """Learn and measure; a contender that cannot run gives one row that says why."""
    with threadpool_limits(1):
        try:
            return _measured(task)
        except CannotRunError as reason:
            return [_row(task, 0, 0, "", "", "", 0.0, str(reason))]


def _measured(task: Task) -> list[Row]:
    problem = _problem(task.problem, task.options, task.seed)
    if task.stage == "tune":
        problem = validation(problem, task.share, task.seed)
    start = partial(CONTENDERS[task.kind], problem, task.seed, **json.loads(task.parameters))
    if is_stepwise(task.kind):
        start().learn_to(2)  # loads what it needs, before the clock starts
    contender = start()
    measure = MEASURES[problem.measured_by]
    rows, seconds = [], 0.0
    for step in task.steps:
        begun = time.perf_counter()
        contender.learn_to(step)
        seconds += time.perf_counter() - begun
        full = step in task.full and task.stage == "run"
        for n, *found in measure(contender, problem, task, full):
            rows.append(_row(task, step, n, *found, seconds, contender.note))
    return rows


def _row(
    task: Task,
    step: int,
    queries: int,
    score: str,
    measure: str,
    value: Any,
    seconds: float,
    note: str,
) -> Row:
    return {
        **dict(zip(COLUMNS, task.key, strict=False)),
        "step": step,
        "queries": queries,
        "score": score,
        "measure": measure,
        "value": f"{value:.5f}" if measure else "",
        "seconds": f"{seconds:.2f}",
        "versions": versions(),
        "note": note,
    }


@lru_cache(maxsize=1)
def _problem(name: str, options: str, seed: int) -> Problem:
    return PROBLEMS[name](seed, **json.loads(options))


if __name__ == "__main__":
    main()
