"""Figures from arrays and result rows, without windows or global state."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError("similia.plotting", "matplotlib", "plot") from error

BASE_COLOR = "#7f7f7f"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
RIGHT, WRONG = "#009e73", "#d55e00"


class Neighbors(NamedTuple):
    """A query, the items found for it, and which of them are correct; images as arrays."""

    title: str
    query: Array
    items: Sequence[Array]
    right: Sequence[bool]


class _Calibration(Protocol):
    """What is drawn of a `similia.trust.Calibration`."""

    @property
    def confidence(self) -> Array: ...
    @property
    def accuracy(self) -> Array: ...
    @property
    def count(self) -> Array: ...
    @property
    def error(self) -> float: ...


def _draw_precision(axes: Axes, curves: Mapping[str, tuple[Array, Array]]) -> None:
    """Draw precision against k; the first curve is the base, gray and dashed."""
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


def _finish(axes: Axes, legend: Literal["best", "lower left", "lower right"] = "best") -> None:
    """Add grid and legend, and remove the frame."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc=legend)


def _draw_neighbors(axes: Sequence[Axes], row: Neighbors) -> None:
    """Draw the query, then its neighbors, framed by whether they are correct."""
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
    """Plot precision@k beside rows of queries and their neighbors.

    Parameters
    ----------
    curves : mapping from name to (k, precision)
        The base first.
    rows : sequence of Neighbors
        All with the same number of items; if empty, only the curves are drawn.

    Returns
    -------
    figure : matplotlib Figure, to be saved with ``figure.savefig(path)``
    """
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    if not rows:
        _draw_precision(figure.subplots(), curves)
        return figure
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.7], squeeze=False)[0]
    _draw_precision(left.subplots(), curves)
    grid = right.subplots(len(rows), 1 + len(rows[0].items), squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        _draw_neighbors(axes, row)
    right.suptitle(
        "queries (black) and items found, best first: green correct, orange wrong", size=10
    )
    return figure


def calibration_figure(curves: Mapping[str, _Calibration]) -> Figure:
    """Plot how often orders are right against how confident the model is in them.

    Parameters
    ----------
    curves : mapping from name to `similia.trust.Calibration`
        The area of a point shows the share of judgements that it stands for.

    Returns
    -------
    figure : matplotlib Figure, to be saved with ``figure.savefig(path)``
    """
    if not curves:
        raise ValueError("calibration_figure: curves must be at least one, got none.")
    figure, axes = _single()
    axes.plot([0.5, 1], [0.5, 1], "--", color=BASE_COLOR, label="honest")
    for place, (name, curve) in enumerate(curves.items()):
        filled = curve.count > 0
        confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
        size = 15 + 150 * curve.count[filled] / curve.count.sum()
        color = COLORS[place % len(COLORS)]
        axes.plot(confidence, accuracy, color=color, alpha=0.6)
        label = f"{name}: error {curve.error:.3f}"
        axes.scatter(confidence, accuracy, s=size, color=color, label=label)
    axes.set_xlim(0.49, 1.01)
    axes.set_xlabel("confidence in the preferred order")
    axes.set_ylabel("share of right orders")
    _finish(axes, "lower right")
    return figure


def learning_figure(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Plot test-then-train accuracy along streams, beside that of the initial model.

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
    """Plot singular values, largest first, on a logarithmic scale.

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


def _single() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()
