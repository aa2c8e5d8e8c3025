"""Curves of accuracy against passes and seconds, from the rows of the SLND experiments."""

import json
import math
from statistics import fmean, median
from typing import NamedTuple

from scipy import stats

from experiments.rows import Row, run_key, select

SETS = {
    ("caltech101_fisher", "{}"): "Caltech-101, Fisher vectors",
    ("tiny_imagenet", "{}"): "Tiny ImageNet, network features",
    ("isolet_letters", "{}"): "Isolet",
    ("image_features", '{"data":"mnist"}'): "MNIST, pixels",
    ("image_features", '{"data":"fashion"}'): "Fashion-MNIST, pixels",
    ("image_features", '{"data":"mnist","fourier":4096}'): "MNIST, 4,096 Fourier features",
    ("newsgroups_tfidf", "{}"): "20 Newsgroups, tf-idf",
}
#: some classes of Tiny ImageNet, and some images of each -> classes, images
CLASSES = {
    **{("tiny_imagenet", f'{{"classes":{n}}}'): (n, 50) for n in (10, 25, 50, 100)},
    **{("tiny_imagenet", f'{{"per_class":{n}}}'): (200, n) for n in (25, 10)},
}
#: a million rows
LARGEST = {
    ("drawn_features", "{}"): "drawn like Tiny ImageNet's features, 1,000 classes",
    ("shifted_mnist", "{}"): "MNIST, shifted, 256 Fourier features",
}
Point = tuple[float, float]  # seconds, value


def by_processor(rows: list[Row]) -> list[Row]:
    """The same rows with the processor time of their run as seconds; NaN if it was not measured."""
    spent = {run_key(row): row["value"] for row in select(rows, measure="processor_seconds")}
    return [{**row, "seconds": spent.get(run_key(row), math.nan)} for row in rows]


def of_set(rows: list[Row], place: tuple[str, str]) -> list[Row]:
    return select(rows, problem=place[0], options=place[1])


def _curves(
    rows: list[Row], contender: str, measure: str = "top1", stage: str = "run"
) -> dict[str, dict[int, Point]]:
    """Setting -> passes -> (seconds, value), means over seeds."""
    found: dict[str, dict[int, list[Point]]] = {}
    for row in select(rows, stage=stage, contender=contender, measure=measure):
        parameters = json.loads(row["parameters"])
        passes = parameters.pop("max_iter", 0)
        setting = json.dumps(parameters, sort_keys=True)
        point = (row["seconds"], row["value"])
        found.setdefault(setting, {}).setdefault(passes, []).append(point)
    return {
        setting: {
            passes: (fmean(p[0] for p in points), fmean(p[1] for p in points))
            for passes, points in sorted(curve.items())
        }
        for setting, curve in found.items()
    }


def best_curve(rows: list[Row], contender: str, measure: str = "top1") -> dict[int, Point]:
    """Curve of the setting that is best in validation, or of the only one."""
    curves = _curves(rows, contender, measure)
    validated = _curves(rows, contender, stage="tune")
    if not validated:
        return next(iter(curves.values()), {})
    best = max(validated, key=lambda setting: max(v for _, v in validated[setting].values()))
    return curves.get(best, {})


class Run(NamedTuple):
    """One number of passes of the paper's scheme, with the settings that validation chose."""

    value: float
    seconds: float
    validated: float
    rank: int | None


def scheme_runs(
    rows: list[Row], contender: str, measure: str = "top1"
) -> dict[int, dict[str, dict[int, Run]]]:
    """Seed -> schedule -> passes -> run, of `experiments.slnd_schedules`."""
    found: dict[int, dict[str, dict[int, Run]]] = {}
    validated = {run_key(row): row["value"] for row in select(rows, measure="validated")}
    for row in select(rows, contender=contender, measure=measure):
        given = json.loads(row["parameters"])
        if run_key(row) in validated:
            curve = found.setdefault(row["seed"], {}).setdefault(given["schedule"], {})
            run = (row["value"], row["seconds"], validated[run_key(row)], given["rank"])
            curve[given["max_iter"]] = Run(*run)
    return {
        seed: {name: dict(sorted(curve.items())) for name, curve in schedules.items()}
        for seed, schedules in sorted(found.items())
    }


def better_schedule(schedules: dict[str, dict[int, Run]]) -> dict[int, Run]:
    """For each number of passes, the schedule that was best in validation."""
    passes = next(iter(schedules.values()))
    return {n: max((c[n] for c in schedules.values()), key=lambda r: r.validated) for n in passes}


def first_at(curve: dict[int, Run], target: float) -> tuple[float, float]:
    """Passes and seconds of the first run that reaches a value; infinite if none does."""
    return next(
        ((float(n), run.seconds) for n, run in curve.items() if run.value >= target),
        (math.inf, math.inf),
    )


def median_and_interval(values: list[float]) -> str:
    """The median over seeds and, in brackets, its 95 % interval; infinite is "never".

    The interval has two of the values as its ends (those that the binomial distribution names), so
    it holds for any distribution. For fewer than six values it is the least and the largest.
    """

    def told(value: float) -> str:
        return "never" if math.isinf(value) else f"{value:.3g}"

    ordered = sorted(values)
    end = max(int(stats.binom.ppf(0.025, len(ordered), 0.5)) - 1, 0)
    low, high = ordered[end], ordered[-1 - end]
    if low == high:
        return told(low)
    return f"{told(median(ordered))} ({told(low)} to {told(high)})"


def reached(curve: dict[int, Point], target: float) -> tuple[float, float]:
    """Passes and seconds of the first run that reaches a value."""
    return next(
        ((n, seconds) for n, (seconds, value) in curve.items() if value >= target),
        (math.inf, math.inf),
    )


def shown(passes: float, seconds: float) -> str:
    """Passes, and seconds where they are known."""
    if math.isinf(passes):
        return "never"
    return f"{passes:.0f}" if math.isnan(seconds) else f"{passes:.0f} ({seconds:.2f} s)"
