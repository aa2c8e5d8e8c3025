"""Figures of a report, as small PNGs: curves with error bars, duels, points, pictures."""

import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from experiments.summary import interval

Curves = dict[str, dict[float, list[float]]]
Bars = dict[str, dict[float, tuple[float, float]]]


def draw_curves(
    path: Path, curves: Curves, x_label: str, y_label: str, *, logarithmic: bool = False
) -> None:
    """Draw name -> x -> values over splits: a line through the means, bars of 95 % intervals."""
    bars = {
        name: {x: interval(values) for x, values in curve.items()} for name, curve in curves.items()
    }
    draw_bars(path, bars, x_label, y_label, logarithmic=logarithmic)


def draw_bars(
    path: Path, bars: Bars, x_label: str, y_label: str, *, logarithmic: bool = False
) -> None:
    """Draw name -> x -> (mean, half of its bar): a line through the means."""
    figure, axes = plt.subplots(figsize=(7.5, 3.6), dpi=80)
    looks = _looks(list(bars))
    for name, curve in bars.items():
        means, errors = zip(*curve.values(), strict=True)
        style = {"markersize": 3, "linewidth": 1, "capsize": 2, **looks[name]}
        axes.errorbar(list(curve), means, errors, label=name, **style)
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def draw_panels(path: Path, panels: dict[str, Curves], x: str, y: str) -> None:
    """Draw title -> name -> x -> values: small panels of curves with 95 % intervals, one legend."""
    across = 4
    height = math.ceil(len(panels) / across)
    figure, grid = plt.subplots(
        height, across, figsize=(2.7 * across, 2.3 * height), dpi=80, squeeze=False
    )
    for axes, (title, curves) in zip(grid.flat, panels.items(), strict=False):
        looks = _looks(list(curves))
        for name, curve in curves.items():
            means, halves = zip(*(interval(curve[at]) for at in sorted(curve)), strict=True)
            style = {"markersize": 3, "linewidth": 1, "capsize": 2, **looks[name]}
            axes.errorbar(sorted(curve), means, np.nan_to_num(halves), label=name, **style)
        axes.set_xscale("log")
        axes.set_title(title, fontsize=7)
        axes.tick_params(labelsize=6)
        axes.set_xlabel(x, fontsize=7)
        axes.grid(alpha=0.3)
    for axes in list(grid.flat)[len(panels) :]:
        axes.axis("off")
    if panels:
        grid.flat[0].set_ylabel(y, fontsize=7)
        grid.flat[0].legend(fontsize=6, frameon=False)
    _save(figure, path)


def draw_duels(path: Path, duels: dict[str, dict[str, list[tuple[float, float]]]], y: str) -> None:
    """Draw rival -> contender -> (rival's value, ours): below the line we are better."""
    width = math.ceil(len(duels) / 2) if len(duels) > 3 else len(duels)
    height = math.ceil(len(duels) / width)
    size = (3.4 * width, 3.2 * height)
    figure, grid = plt.subplots(height, width, figsize=size, dpi=80, squeeze=False)
    for axes, (rival, series) in zip(grid.flat, duels.items(), strict=False):
        top = max((max(pair) for pairs in series.values() for pair in pairs), default=1.0)
        axes.plot([0, 1.05 * top], [0, 1.05 * top], color="gray", linewidth=0.8)
        for number, (name, pairs) in enumerate(series.items()):
            marker = "o^s"[number % 3]
            axes.scatter(*zip(*pairs, strict=True), s=10, marker=marker, alpha=0.7, label=name)
        axes.set_xlabel(rival, fontsize=8)
        axes.set_ylabel(y, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=6, frameon=False, loc="upper left")
    for axes in list(grid.flat)[len(duels) :]:
        axes.axis("off")
    _save(figure, path)


def draw_points(path: Path, points: dict[str, Any], labels: Any) -> None:
    """Draw name -> points in the plane, each point as its label."""
    figure, grid = plt.subplots(1, len(points), figsize=(3.2 * len(points), 3.0), dpi=80)
    for axes, (name, Z) in zip(np.atleast_1d(grid), points.items(), strict=True):
        for number, label in enumerate(np.unique(labels)):
            for x, y in Z[labels == label]:
                axes.text(x, y, str(label), color=f"C{number}", fontsize=7, ha="center")
        spread = 0.05 * np.ptp(Z, axis=0)
        axes.set_xlim(Z[:, 0].min() - spread[0], Z[:, 0].max() + spread[0])
        axes.set_ylim(Z[:, 1].min() - spread[1], Z[:, 1].max() + spread[1])
        axes.set_title(name, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    _save(figure, path)


def draw_pictures(path: Path, pictures: dict[str, Any], side: int) -> None:
    """Draw name -> images as rows: the images, and below them the distances of all to all.

    In few shades, for noise in many does not compress.
    """
    gray, color = plt.get_cmap("gray_r", 8), plt.get_cmap("viridis", 12)
    size = (2.4 * len(pictures), 5.0)
    figure, grid = plt.subplots(2, len(pictures), figsize=size, dpi=80, squeeze=False)
    for (above, below), (name, X) in zip(grid.T, pictures.items(), strict=True):
        X = np.asarray(X, dtype=float)
        across = math.isqrt(len(X))
        tiles = X[: across * across].reshape(across, across, side, side)
        above.imshow(
            tiles.transpose(0, 2, 1, 3).reshape(across * side, -1),
            cmap=gray,
            interpolation="nearest",
        )
        above.set_title(name, fontsize=9)
        distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
        below.imshow(distances, cmap=color, interpolation="nearest")
        for axes in (above, below):
            axes.axis("off")
    _save(figure, path)


def draw_grouped_bars(path: Path, bars: dict[str, dict[str, tuple[float, float]]], y: str) -> None:
    """Draw group -> name -> (mean, error) as groups of bars."""
    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    figure, axes = plt.subplots(figsize=(9.5, 3.8), dpi=80)
    width = 0.85 / len(names)
    for number, name in enumerate(names):
        places = [i + (number - (len(names) - 1) / 2) * width for i in range(len(bars))]
        values = [group.get(name, (math.nan, math.nan)) for group in bars.values()]
        means, errors = ([value[part] for value in values] for part in (0, 1))
        axes.bar(places, means, width, yerr=errors, label=name, color=f"C{number % 10}", capsize=1)
    axes.set_xticks(range(len(bars)), [title.replace(", ", ",\n") for title in bars], fontsize=7)
    axes.set_ylabel(y)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _save(figure, path)


def draw_two_sides(
    path: Path, sides: dict[str, tuple[Any, Any]], query_labels: Any, item_labels: Any
) -> None:
    """Draw name -> (queries, items) in the plane: crosses and dots, colored by class."""
    figure, grid = plt.subplots(1, len(sides), figsize=(3.4 * len(sides), 3.2), dpi=80)
    for axes, (name, (queries, items)) in zip(np.atleast_1d(grid), sides.items(), strict=True):
        kinds = ((items, item_labels, ".", 18), (queries, query_labels, "x", 14))
        for Z, labels, marker, size in kinds:
            colors = [f"C{label % 10}" for label in labels]
            Z = np.asarray(Z, dtype=float)
            axes.scatter(*Z.T, c=colors, marker=marker, s=size, linewidths=0.8, alpha=0.8)
        axes.set_title(name, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _looks(names: list[str]) -> dict[str, dict[str, str]]:
    """A color for each learner; a line and a marker for each setting of it ("OASIS, tuned")."""
    learners = [name.split(",")[0].split(" ")[0] for name in names]
    colors = {learner: f"C{number % 10}" for number, learner in enumerate(dict.fromkeys(learners))}
    looks = {}
    for place, (name, learner) in enumerate(zip(names, learners, strict=True)):
        earlier = learners[:place].count(learner)
        line, marker = ("-", "--", ":", "-.")[earlier % 4], "o^sD"[earlier % 4]
        looks[name] = {"color": colors[learner], "linestyle": line, "marker": marker}
    return looks
