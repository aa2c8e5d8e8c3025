"""Figures from arrays and result rows, without windows or global state.

Save one with ``figure.savefig(path)``.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
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
Legend = Literal["best", "lower left", "above"]


class Neighbors(NamedTuple):
    """A query, the items found, and which are correct; images as arrays."""

    title: str
    query: Array
    items: Sequence[Array]
    right: Sequence[bool]


class _Calibration(Protocol):
    """The part of a `similia.trust.Calibration` that is drawn."""

    @property
    def confidence(self) -> Array: ...
    @property
    def accuracy(self) -> Array: ...
    @property
    def count(self) -> Array: ...
    @property
    def error(self) -> float: ...


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]


def _draw_precision(axes: Axes, curves: Mapping[str, tuple[Array, Array]]) -> None:
    """Draw precision against k; the first curve is the base, gray and dashed."""
    for place, (name, (k, precision)) in enumerate(curves.items()):
        color, style = (BASE_COLOR, "--") if place == 0 else (_color(place - 1), "-")
        axes.plot(k, precision, style, color=color, marker="o", markersize=3.5, label=name)
    axes.set_xscale("log")
    ticks = np.unique(np.concatenate([k for k, _ in curves.values()]))
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    _finish(axes, "k", "precision@k, mean over queries", "lower left")


def _finish(axes: Axes, x: str, y: str, legend: Legend = "best") -> None:
    """Label the axes, add grid and legend, and remove the frame."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if legend == "above":  # outside of the axes, so it covers no point
        axes.figure.legend(frameon=False, loc="outside upper left", ncols=2)
    else:
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
    """
    figure = _figure(12, 4.8)
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
    """Plot how often orders are right against the model's confidence.

    Each curve is a `similia.trust.Calibration`; the area of a point shows its share of judgements.
    """
    if not curves:
        raise ValueError("calibration_figure: curves must not be empty.")
    figure = _figure(7, 4.6)
    axes = figure.subplots()
    axes.plot([0.5, 1], [0.5, 1], "--", color=BASE_COLOR, label="honest")
    for place, (name, curve) in enumerate(curves.items()):
        filled = curve.count > 0
        confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
        size = 15 + 150 * curve.count[filled] / curve.count.sum()
        color = _color(place)
        axes.plot(confidence, accuracy, color=color, alpha=0.6)
        label = f"{name}: error {curve.error:.3f}"
        axes.scatter(confidence, accuracy, s=size, color=color, label=label)
    axes.set_xlim(0.49, 1.01)
    _finish(axes, "confidence in the preferred order", "share of right orders", "above")
    return figure


def learning_figure(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Plot test-then-train accuracy along streams, beside that of the initial model.

    Each point of a curve has ``n``, ``at_start`` and ``progressive``.
    """
    figure = _figure(7, 4.6)
    axes = figure.subplots()
    for place, (name, points) in enumerate(curves.items()):
        color = _color(place)
        n, start, progressive = (
            [point[key] for point in points] for key in ("n", "at_start", "progressive")
        )
        axes.plot(n, start, "--", color=color, alpha=0.5, label=f"{name}: model at the start")
        axes.plot(n, progressive, "-", color=color, label=f"{name}: before each was learnt")
    _finish(axes, "judgements", "share of right judgements")
    return figure


def spectrum_figure(spectra: Mapping[str, Array]) -> Figure:
    """Plot singular values, largest first, on a logarithmic scale."""
    figure = _figure(7, 4.6)
    axes = figure.subplots()
    for place, (name, values) in enumerate(spectra.items()):
        shown = np.maximum(values, np.finfo(float).tiny)
        axes.plot(1 + np.arange(len(shown)), shown, color=_color(place), label=name)
    axes.set_yscale("log")
    _finish(axes, "direction", "singular value of the map of queries")
    return figure


class _Shown(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def _figure(width: float, height: float) -> Figure:
    figure = _Shown(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
