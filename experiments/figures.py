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
    looks = _looks(list(curves))
    for name, curve in curves.items():
        means, errors = zip(*(mean_error(values) for values in curve.values()), strict=True)
        style = {"markersize": 3, "linewidth": 1, "capsize": 2, **looks[name]}
        axes.errorbar(list(curve), means, errors, label=name, **style)
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


def _looks(names: list[str]) -> dict[str, dict[str, str]]:
    """Give each learner a color, and each of its settings ("OASIS, tuned") a line and a marker."""
    learners = [name.split(",")[0].split(" ")[0] for name in names]
    colors = {learner: f"C{number % 10}" for number, learner in enumerate(dict.fromkeys(learners))}
    looks = {}
    for place, (name, learner) in enumerate(zip(names, learners, strict=True)):
        earlier = learners[:place].count(learner)
        line, marker = ("-", "--", ":", "-.")[earlier % 4], "o^sD"[earlier % 4]
        looks[name] = {"color": colors[learner], "linestyle": line, "marker": marker}
    return looks
