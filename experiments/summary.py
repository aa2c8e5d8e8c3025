"""Means, errors and crossings: what a report says is computed here, from rows."""

import math
from collections.abc import Iterable
from statistics import fmean, stdev

from scipy import stats

from experiments.rows import Row


def half_interval(values: Iterable[float]) -> float:
    """Half of a 95 % interval of the mean over splits, by Student's t; NaN for a single one."""
    values = list(values)
    if len(values) < 2:
        return math.nan
    quantile = float(stats.t.ppf(0.975, len(values) - 1))
    return quantile * stdev(values) / math.sqrt(len(values))


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Mean over splits and half of its 95 % interval; what ± means in every report."""
    values = list(values)
    return (fmean(values) if values else math.nan), half_interval(values)


def with_interval(values: Iterable[float], digits: int = 3, sign: str = "") -> str:
    mean, half = interval(values)
    if math.isnan(mean):
        return "–"
    shown = f"{mean:{sign}.{digits}f}"
    return shown if math.isnan(half) else f"{shown} ± {half:.{digits}f}"


def by_seed(rows: Iterable[Row]) -> dict[int, float]:
    return {row["seed"]: row["value"] for row in rows if not math.isnan(row["value"])}


def trace(rows: Iterable[Row]) -> dict[int, list[float]]:
    """Values of all splits at each step, by rising step."""
    steps: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        steps.setdefault(row["step"], []).append(row["value"])
    return steps


def steps_to_reach(curve: list[tuple[int, float]], target: float) -> float:
    """Step at which a curve first reaches a value, infinite if it never does.

    Between two steps the curve is taken as straight over the logarithm of the step. A curve that
    starts above the target gives its first step, an upper bound.
    """
    before = None
    for step, value in curve:
        if value >= target:
            if before is None:
                return float(step)
            part = (target - before[1]) / (value - before[1])
            return float(before[0] * (step / before[0]) ** part)
        before = (step, value)
    return math.inf


def speedup(slow: list[tuple[int, float]], fast: list[tuple[int, float]]) -> float:
    """How many times more steps `slow` takes than `fast` to the best value that `slow` reaches.

    Zero if `fast` never gets there.
    """
    target = max(value for _, value in slow)
    return steps_to_reach(slow, target) / steps_to_reach(fast, target)


def relative_spread(values: list[float]) -> float:
    return (max(values) - min(values)) / max(values)


def flattest_window(values: list[float], width: int) -> float:
    """Smallest relative spread over so many consecutive values."""
    return min(
        (relative_spread(values[i : i + width]) for i in range(len(values) - width + 1)),
        default=math.nan,
    )


def markdown_table(header: list[str], lines: Iterable[list[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines))
