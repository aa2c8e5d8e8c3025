"""Figures of a report: curves with error bars, as small PNGs."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from experiments.summary import mean_error

Curves = dict[str, dict[float, list[float]]]


def draw_curves(
    path: Path, curves: Curves, x_label: str, y_label: str, *, logarithmic: bool = False
) -> None:
    """Draw name -> x -> values over splits: a line through the means, bars of standard error."""
    figure, axes = plt.subplots(figsize=(7.5, 3.6), dpi=80)
    for number, (name, curve) in enumerate(curves.items()):
        means, errors = zip(*(mean_error(values) for values in curve.values()), strict=True)
        style = {"marker": "o^sDvP"[number % 6], "markersize": 3, "linewidth": 1, "capsize": 2}
        axes.errorbar(list(curve), means, errors, label=name, color=f"C{number % 10}", **style)
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
