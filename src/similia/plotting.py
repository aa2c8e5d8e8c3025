"""Figures from arrays and result rows; no window is opened and no global state is used."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import MissingExtraError

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("similia.plotting", "matplotlib", "plot") from error

Array = NDArray[Any]

BASE_COLOR = "#7f7f7f"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
RIGHT, WRONG = "#009e73", "#d55e00"


class Neighbors(NamedTuple):
    """A query, the items found for it, and which of them are right; pictures as arrays."""

    title: str
    query: Array
    items: Sequence[Array]
    right: Sequence[bool]


def draw_precision(axes: Any, curves: Mapping[str, tuple[Array, Array]]) -> None:
    """Draw precision against k for each name; the first is the base, gray and dashed."""
    for place, (name, (k, precision)) in enumerate(curves.items()):
        color, style = (BASE_COLOR, "--") if place == 0 else (COLORS[(place - 1) % 6], "-")
        axes.plot(k, precision, style, color=color, marker="o", markersize=3.5, label=name)
    axes.set_xscale("log")
    ticks = np.unique(np.concatenate([k for k, _ in curves.values()]))
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("k")
    axes.set_ylabel("precision@k, mean over queries")
    _finish(axes, "lower left")


def _finish(axes: Any, legend: str = "best") -> None:
    """Give curves their grid and legend, and no frame."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc=legend)


def draw_neighbors(axes: Sequence[Any], row: Neighbors) -> None:
    """Draw the query on the first of the axes, then its neighbors framed by right and wrong."""
    pictures = [row.query, *row.items]
    frames = ["black", *(RIGHT if right else WRONG for right in row.right)]
    for axis, picture, color in zip(axes, pictures, frames, strict=True):
        axis.imshow(picture, cmap="gray_r", interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_color(color)
            spine.set_linewidth(1.8)
    axes[0].set_ylabel(row.title, rotation=0, ha="right", va="center", fontsize=8)


def retrieval_figure(
    curves: Mapping[str, tuple[Array, Array]], rows: Sequence[Neighbors]
) -> Figure:
    """Give a figure of precision@k beside rows of queries and their neighbors.

    Parameters
    ----------
    curves : mapping from name to (k, precision)
        The base first.
    rows : sequence of Neighbors
        All with the same number of items; without rows, the curves stand alone.

    Returns
    -------
    figure : matplotlib Figure, to be saved with ``figure.savefig(path)``
    """
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    if not rows:
        draw_precision(figure.subplots(), curves)
        return figure
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.7], squeeze=False)[0]
    draw_precision(left.subplots(), curves)
    grid = right.subplots(len(rows), 1 + len(rows[0].items), squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        draw_neighbors(axes, row)
    right.suptitle(
        "queries (black) and what is found, best first: green right, orange wrong", size=10
    )
    return figure


def draw_calibration(axes: Any, curves: Mapping[str, Any]) -> None:
    """Draw the share of right orders against confidence for each name, and the honest diagonal."""
    axes.plot([0.5, 1], [0.5, 1], "--", color=BASE_COLOR, label="honest")
    for place, (name, curve) in enumerate(curves.items()):
        filled = curve.count > 0
        share = curve.count[filled] / curve.count.sum()
        color = COLORS[place % 6]
        axes.plot(curve.confidence[filled], curve.accuracy[filled], color=color, alpha=0.6)
        axes.scatter(
            curve.confidence[filled],
            curve.accuracy[filled],
            s=15 + 150 * share,
            color=color,
            label=f"{name}: error {curve.error:.3f}",
        )
    axes.set_xlim(0.49, 1.01)
    axes.set_xlabel("confidence in the preferred order")
    axes.set_ylabel("share of right orders")
    _finish(axes, "lower right")


def calibration_figure(curves: Mapping[str, Any]) -> Figure:
    """Give a figure of how often orders are right against how sure the model is of them.

    Parameters
    ----------
    curves : mapping from name to `similia.trust.Calibration`
        Points are as large as the share of judgements that they stand for.

    Returns
    -------
    figure : matplotlib Figure, to be saved with ``figure.savefig(path)``
    """
    if not curves:
        raise ValueError("calibration_figure: curves must be at least one, got none.")
    figure, axes = _single()
    draw_calibration(axes, curves)
    return figure


def learning_figure(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Give a figure of test-then-train accuracy along streams, beside that of the model at start.

    Parameters
    ----------
    curves : mapping from name to points
        Each point has ``n``, ``at_start`` and ``progressive``.
    """
    figure, axes = _single()
    for place, (name, points) in enumerate(curves.items()):
        color = COLORS[place % len(COLORS)]
        n = [point["n"] for point in points]
        shown = [(point["at_start"], point["progressive"]) for point in points]
        start, progressive = zip(*shown, strict=True) if shown else ((), ())
        axes.plot(n, start, "--", color=color, alpha=0.5, label=f"{name}: model at the start")
        axes.plot(n, progressive, "-", color=color, label=f"{name}: before each was learnt")
    axes.set_xlabel("judgements")
    axes.set_ylabel("share of right judgements")
    _finish(axes)
    return figure


def spectrum_figure(spectra: Mapping[str, Array]) -> Figure:
    """Give a figure of singular values, largest first, on a logarithmic scale.

    Parameters
    ----------
    spectra : mapping from name to array of singular values
    """
    figure, axes = _single()
    for place, (name, values) in enumerate(spectra.items()):
        axes.plot(
            np.arange(1, len(values) + 1),
            np.maximum(values, np.finfo(float).tiny),
            color=COLORS[place % len(COLORS)],
            label=name,
        )
    axes.set_yscale("log")
    axes.set_xlabel("direction")
    axes.set_ylabel("singular value of the map of queries")
    _finish(axes)
    return figure


def _single() -> tuple[Figure, Any]:
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()
