"""From <paper>.toml to tasks: problem × contender × parameters × seed, and those still to run."""

import itertools
import math
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.contenders import CONTENDERS
from experiments.rows import COLUMNS, Row, as_text, run_key, select


@dataclass(frozen=True)
class Task:
    """One run: learn step by step, and be measured at each step."""

    stage: str
    problem: str
    options: str
    contender: str
    kind: str
    parameters: str
    seed: int
    steps: tuple[int, ...]
    full: tuple[int, ...]
    queries: int
    cuts: tuple[int, ...]
    share: float

    @property
    def key(self) -> tuple[Any, ...]:
        return (
            self.stage,
            self.problem,
            self.options,
            self.contender,
            self.parameters,
            self.seed,
        )


def read_plan(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        return tomllib.load(stream)


def quick(plan: dict[str, Any], limit: int = 2000) -> dict[str, Any]:
    """Plan with one seed, few steps and one of varied options: to see that everything runs."""
    blocks = [
        {
            **block,
            "steps": sorted({min(step, limit) for step in block["steps"]}),
            "vary": {name: values[:1] for name, values in block.get("vary", {}).items()},
        }
        for block in plan["blocks"]
    ]
    tuning = {**plan["tuning"], "steps": min(plan["tuning"]["steps"], limit // 4)}
    return {**plan, "seeds": plan["seeds"][:1], "blocks": blocks, "tuning": tuning}


def combinations(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def tuning_tasks(plan: dict[str, Any]) -> list[Task]:
    """Runs on validation parts that the tuned contenders need."""
    tasks = []
    for block, name, seed in _cells(plan):
        if "tune" in plan["contenders"][name]:
            grid = combinations(plan["contenders"][name]["tune"])
            tasks += [_tuning_task(plan, block, name, settings, seed) for settings in grid]
    return _without_repetition(tasks)


def final_tasks(plan: dict[str, Any], rows: list[Row]) -> list[Task]:
    """Runs on test parts; tuned contenders take what was best in validation."""
    tasks = []
    for block, name, seed in _cells(plan):
        contender = plan["contenders"][name]
        best = _best(plan, block, name, seed, rows) if "tune" in contender else {}
        for swept in combinations(block.get("sweep", contender.get("sweep", {}))):
            settings = {**swept, **best}
            tasks.append(_task(plan, block, name, settings, seed, "run", block["steps"]))
    return _without_repetition(tasks)


def unfinished(tasks: list[Task], rows: list[Row]) -> list[Task]:
    """Tasks for which some step has no row with a value."""
    done: dict[Any, set[int]] = {}
    for row in rows:
        if not math.isnan(row["value"]):
            done.setdefault(run_key(row), set()).add(row["step"])
    return [task for task in tasks if not set(task.steps) <= done.get(task.key, set())]


def _cells(plan: dict[str, Any]) -> list[tuple[dict[str, Any], str, int]]:
    return [
        (block, name, seed)
        for block in _blocks(plan)
        for seed in block.get("seeds", plan["seeds"])
        for name in block["contenders"]
    ]


def _blocks(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """One block for each combination of the options that a block varies."""
    return [
        {**block, "options": {**block.get("options", {}), **chosen}}
        for block in plan["blocks"]
        for chosen in combinations(block.get("vary", {}))
    ]


def _tuning_task(
    plan: dict[str, Any], block: dict[str, Any], name: str, settings: dict[str, Any], seed: int
) -> Task:
    """Run on the validation part, with the last value of what is also swept."""
    sweep = block.get("sweep", plan["contenders"][name].get("sweep", {}))
    settings = {**{key: values[-1] for key, values in sweep.items()}, **settings}
    return _task(plan, block, name, settings, seed, "tune", [plan["tuning"]["steps"]])


def _task(
    plan: dict[str, Any],
    block: dict[str, Any],
    name: str,
    settings: dict[str, Any],
    seed: int,
    stage: str,
    steps: list[int],
) -> Task:
    contender = plan["contenders"][name]
    limit = contender.get("max_steps", max(steps))
    stepwise = is_stepwise(contender["kind"])
    steps = sorted({min(step, limit) for step in steps}) if stepwise else [0]
    return Task(
        stage=stage,
        problem=block["problem"],
        options=as_text(block.get("options", {})),
        contender=name,
        kind=contender["kind"],
        parameters=as_text({**contender.get("parameters", {}), **settings}),
        seed=seed,
        steps=tuple(steps),
        full=(*block.get("full", []), steps[-1]),
        queries=plan.get("queries", 0),
        cuts=tuple(plan["cuts"]),
        share=plan["tuning"]["share"],
    )


def is_stepwise(kind: str) -> bool:
    factory = CONTENDERS[kind]
    return getattr(factory, "func", factory).stepwise


def _best(
    plan: dict[str, Any], block: dict[str, Any], name: str, seed: int, rows: list[Row]
) -> dict[str, Any]:
    """Settings with the best validation; the first ones if none could be validated."""
    grid = combinations(plan["contenders"][name]["tune"])

    def validated(settings: dict[str, Any]) -> float:
        task = _tuning_task(plan, block, name, settings, seed)
        found = select(
            rows,
            **dict(zip(COLUMNS, task.key, strict=False)),
            step=task.steps[-1],
            measure=block.get("tuned_by", plan["tuning"]["measure"]),
        )
        return max((row["value"] for row in found), default=-math.inf)

    return max(grid, key=validated)


def _without_repetition(tasks: list[Task]) -> list[Task]:
    """Join runs that differ in their steps only, so that none is a part of another."""
    joined: dict[Any, Task] = {}
    for task in tasks:
        known = joined.get(task.key)
        if known is not None:
            task = replace(
                task,
                steps=tuple(sorted({*known.steps, *task.steps})),
                full=(*known.full, *task.full),
            )
        joined[task.key] = task
    return list(joined.values())
