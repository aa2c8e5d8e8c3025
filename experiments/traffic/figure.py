"""The picture of the report: what each contender shows beyond the base as the searches go by."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from experiments.summary import half_interval
from experiments.traffic.results import WINDOW
from experiments.traffic.table import RIVALS, START, Table

TITLES = {"cranfield": "Cranfield", "scifact": "SciFact", "cisi": "CISI", "nfcorpus": "NFCorpus"}
LOOKS = {"Blend": {"color": "black", "linewidth": 2.2}, START: {"color": "black", "ls": ":"}}


def draw(path: Path, table: Table, places: list[tuple[str, str, str]], step: int) -> None:
    """One panel for each place (stage, set, cell), bars of 95 % on Blend alone."""
    figure, grid = plt.subplots(1, len(places), figsize=(8.6, 3.8), dpi=90, squeeze=False)
    for axes, where in zip(grid[0], places, strict=True):
        _panel(axes, table, where, step)
        axes.set_title(TITLES[where[1]], fontsize=9)
    grid[0, 0].set_ylabel("nDCG@10 shown, minus the base", fontsize=8)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, frameon=False, ncol=6, loc="lower center")
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _panel(axes: plt.Axes, table: Table, where: tuple[str, str, str], step: int) -> None:
    base = table.values(where, "base", "windows", step)
    for name in ("Blend", START, *RIVALS[1:]):
        values = table.values(where, name, "windows", step)
        seeds = sorted(values.keys() & base.keys())
        if not seeds:
            continue
        gaps = np.array([values[seed] - base[seed] for seed in seeds])
        x = WINDOW * (np.arange(gaps.shape[1]) + 1)
        axes.plot(x, gaps.mean(axis=0), label=name, **{"linewidth": 1.1, **LOOKS.get(name, {})})
        if name == "Blend" and len(seeds) > 1:
            bars = [half_interval(column) for column in gaps.T]
            low, high = gaps.mean(axis=0) - bars, gaps.mean(axis=0) + bars
            axes.fill_between(x, low, high, color="black", alpha=0.12, linewidth=0)
    axes.axhline(0, color="gray", linewidth=0.8)
    axes.set_xlabel("searches", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
