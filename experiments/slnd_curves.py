"""Curves of accuracy against passes and seconds, from the rows of the SLND experiments."""

import json
import math
from statistics import fmean

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


def mean_curve(rows: list[Row], contender: str) -> dict[int, Point]:
    """Mean over seeds of the curves of the settings that are best in each one's validation."""
    seeds = sorted({row["seed"] for row in select(rows, stage="run", contender=contender)})
    curves = [best_curve(select(rows, seed=seed), contender) for seed in seeds]
    passes = set.intersection(*(set(curve) for curve in curves)) if curves else set()
    points = {n: [curve[n] for curve in curves] for n in sorted(passes)}
    return {n: (fmean(p[0] for p in at), fmean(p[1] for p in at)) for n, at in points.items()}


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
