"""What SLND knows of the Hessian: Figures 2 to 4, and one Hessian for each class."""

import json
from pathlib import Path
from statistics import fmean

from experiments.figures import Curves, draw_curves
from experiments.rows import Row, select
from experiments.slnd_curves import (
    SETS,
    better_schedule,
    first_at,
    median_and_interval,
    of_set,
    scheme_runs,
)
from experiments.slnd_passes import OWN
from experiments.slnd_races import SHARE, best
from experiments.summary import markdown_table, with_interval


def hessian_part(rows: list[Row], figures: Path) -> list[str]:
    spectra: Curves = {}
    ranks: Curves = {}
    samples: Curves = {}
    for place, name in SETS.items():
        here = of_set(rows, place)
        for row in select(here, contender="spectrum"):
            if row["measure"].startswith("eigenvalue@"):
                at = int(row["measure"].split("@")[1])
                spectra.setdefault(name, {}).setdefault(at, []).append(row["value"])
        for contender, key, into, label in (
            ("SLND, rank", "rank", ranks, name),
            ("SLND, rank, damped", "rank", ranks, f"{name}, damped"),
            ("SLND, samples", "hessian_samples", samples, name),
        ):
            for row in select(here, contender=contender, measure="top1"):
                at = json.loads(row["parameters"])[key]
                into.setdefault(label, {}).setdefault(at, []).append(row["value"])
    parts = []
    for title, curves, file, x, y in (
        ("## Figure 2: eigenvalues", spectra, "slnd_spectra", "number", "share of the trace"),
        ("## Figure 3: accuracy against the rank", ranks, "slnd_ranks", "k", "top-1 accuracy"),
        ("## Figure 4: accuracy against m′", samples, "slnd_samples", "m′", "top-1 accuracy"),
    ):
        if not curves:
            continue
        ordered = {name: dict(sorted(curve.items())) for name, curve in curves.items()}
        draw_curves(figures / f"{file}.png", ordered, x, y, logarithmic=True)
        parts += [title, f"![{title[3:]}](figures/{file}.png)"]
        if curves is not spectra:
            columns = sorted({at for curve in ordered.values() for at in curve})
            lines = [
                [name, *(f"{fmean(curve[at]):.3f}" if at in curve else "–" for at in columns)]
                for name, curve in ordered.items()
            ]
            parts.append(markdown_table([x, *map(str, columns)], lines))
    return parts


def own_part(rows: list[Row]) -> list[str]:
    """A Hessian for each class beside one for all, seed by seed."""
    lines = []
    for place, name in SETS.items():
        here = of_set(rows, place)
        own, shared, sgd = (scheme_runs(here, contender) for contender in (OWN, "SLND", "SGD"))
        seeds = sorted(own.keys() & shared.keys() & sgd.keys())
        if not seeds:
            continue
        cells = []
        for side in (own, shared):
            curves = [side[seed]["constant"] for seed in seeds]
            targets = [SHARE * best(better_schedule(sgd[seed])) for seed in seeds]
            passes = [first_at(c, t)[0] for c, t in zip(curves, targets, strict=True)]
            cells += [
                with_interval([curve[1].value for curve in curves]),
                with_interval([best(curve) for curve in curves]),
                median_and_interval(passes),
                median_and_interval([curve[1].seconds for curve in curves]),
            ]
        lines.append([name, str(len(seeds)), *cells])
    if not lines:
        return []
    kinds = ("own", "shared")
    header = [f"{kind}, {what}" for kind in kinds for what in ("1 pass", "best", "passes", "s")]
    return [
        "## A Hessian for each class",
        "The paper leaves the class out of (5) to (9). With balanced examples each class has a "
        "Hessian of its own: half of its weight is the class, half all others. Here it is of all "
        "training rows, with "
        "constant steps and everything else as above. Passes are those to 99 % of SGD's best, "
        "seconds those of one pass with eigenpairs and projections.",
        markdown_table(["features", "seeds", *header], lines),
    ]
