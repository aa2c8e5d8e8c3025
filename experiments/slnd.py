"""The report of the SLND paper: its scheme, section 4, and what goes beyond it."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.figures import Curves, draw_panels
from experiments.rows import Row, select
from experiments.slnd_beyond import (
    balance_part,
    classes_part,
    forms_part,
    growth_part,
    schedules_part,
)
from experiments.slnd_claims import claims
from experiments.slnd_curves import (
    LARGEST,
    SETS,
    best_curve,
    by_processor,
    median_and_interval,
    of_set,
    scheme_runs,
)
from experiments.slnd_hessians import hessian_part, own_part
from experiments.slnd_passes import DIAGONAL, OWN
from experiments.slnd_races import SHARE, Places, Race, races
from experiments.summary import markdown_table, with_interval

__all__ = ["claims", "report"]

PASSES = (1, 2, 5, 10, 20, 50)


def report(rows: list[Row], exhibits: dict[str, Any], figures: Path) -> list[str]:
    """Paragraphs of the report."""
    known = select(rows, value=lambda value: not math.isnan(value))
    every, walls = by_processor(known), select(known, seed=0)
    return [
        "## How it was measured",
        'W. Bel Haj Ali, R. Nock, M. Barlaud, "Minimizing Calibrated Loss using Stochastic '
        'Low-Rank Newton Descent for large scale image classification", hal-00825414, 2013, '
        "section 4. Its features of Caltech-256, SUN and ImageNet are not public; ours are Fisher "
        "vectors of Caltech-101 by the same recipe (30 images a class), network features of Tiny "
        "ImageNet (200 classes), spoken letters, 10,000 images of MNIST and of Fashion-MNIST "
        "(5,000 to test), Fourier features of MNIST, and texts.",
        *_scheme_part(known, figures),
        *classes_part(known),
        *own_part(known),
        *hessian_part(select(every, seed=0), figures),
        *forms_part(every),
        *schedules_part(every),
        *balance_part(select(every, seed=0)),
        *_largest_part(known),
        *growth_part(walls),
    ]


# -- the paper's scheme ----------------------------------------------------------------------------

RACE_HEADER = [
    "features", "seeds", "99 % of SGD's best", "SLND, constant", "SLND, falling", "SGD, constant",
    "SGD, better schedule", "SLND, constant, s", "SGD, s", "SGD's s over SLND's",
]  # fmt: skip


def _race_lines(found: list[Race]) -> list[list[str]]:
    lines = []
    for race in found:
        sides = (race.constant, race.falling, race.plain, race.sgd)
        passes = [median_and_interval([n for n, _ in side]) for side in sides]
        spent = [median_and_interval([s for _, s in side]) for side in (race.constant, race.sgd)]
        level = f"{SHARE * fmean(best for _, best in race.best):.3f}"
        ratio = median_and_interval(race.speedups)
        lines.append([race.name, str(len(race.best)), level, *passes, *spent, ratio])
    return lines


def _scheme_part(rows: list[Row], figures: Path) -> list[str]:
    panels = {}
    for place, name in SETS.items():
        curves: Curves = {}
        for contender in ("SLND", "SGD"):
            for schedules in scheme_runs(of_set(rows, place), contender).values():
                for schedule in ("constant", "linear"):
                    words = f"{contender}, {'falling' if schedule == 'linear' else schedule}"
                    for n, run in schedules[schedule].items():
                        curves.setdefault(words, {}).setdefault(n, []).append(run.value)
        if curves:
            panels[name] = curves
    draw_panels(figures / "slnd_passes.png", panels, "passes", "top-1 accuracy")
    five = races(rows, measure="top5")
    return [
        "## The paper's scheme: passes and seconds",
        "Balanced examples, no damping, logistic loss. A quarter of the training part chooses k "
        "(25 to 800, or as many as there are) and the step, anew for each number of passes (1, 2, "
        "5, 10, 20, 50); a grid of steps whose best is at its end grows until it is not. SGD has "
        "the same freedom, and constant, falling (linear) and 1/√t steps to choose from. Passes "
        "are the first number at which a run has 99 % of the best accuracy of SGD on the test "
        "part: the median over seeds, and in brackets its 95 % interval, whose ends are two of the "
        "values (with fewer than six seeds, the least and the largest); *never* is not within 50. "
        "Seconds are of one processor, with Hessian and projection. The machine was busy with "
        "other work, so the ratio of seconds, of two runs one after the other, says more; it is 0 "
        "where SLND never arrives.",
        markdown_table(RACE_HEADER, _race_lines(races(rows))),
        "k that was chosen for SLND with constant steps, over seeds and numbers of passes: "
        f"{_ranks_chosen(rows)}.",
        *(["Top-5 accuracy:", markdown_table(RACE_HEADER, _race_lines(five))] if five else []),
        *_levels(rows),
    ]


def _largest_part(rows: list[Row]) -> list[str]:
    found = races(rows, LARGEST)
    if not found:
        return []
    five = races(rows, LARGEST, "top5")
    lines = [
        [race.name, "top-1", *line[1:]]
        for race, line in zip(found, _race_lines(found), strict=True)
    ]
    lines += [
        [race.name, "top-5", *line[1:]] for race, line in zip(five, _race_lines(five), strict=True)
    ]
    return [
        "## A million rows",
        "As above, up to 20 passes. The first set is generated: 1,000 centers with the covariance "
        "of the class means of Tiny ImageNet's features, and rows around them with the covariance "
        "within its classes. The second has 10⁶ of the 60,000 images of MNIST moved by up to two "
        "pixels, 10 classes.",
        markdown_table([RACE_HEADER[0], "accuracy", *RACE_HEADER[1:]], lines),
        "Top-1 accuracy:",
        _levels_table(rows, LARGEST, PASSES[:5]),
    ]


def _ranks_chosen(rows: list[Row]) -> str:
    words = []
    for place, name in SETS.items():
        ranks = [
            run.rank
            for schedules in scheme_runs(of_set(rows, place), "SLND").values()
            for run in schedules["constant"].values()
        ]
        if ranks:
            words.append(f"{name} {min(ranks)} to {max(ranks)}")
    return ", ".join(words)


def _levels(rows: list[Row]) -> list[str]:
    return ["Top-1 accuracy:", _levels_table(rows, SETS, PASSES)]


def _levels_table(rows: list[Row], places: Places, passes: Sequence[int]) -> str:
    """Top-1 accuracy after each number of passes, for every contender of the scheme."""
    lines = []
    for place, name in places.items():
        for contender in ("SLND", "SLND hinge", OWN, "SGD", DIAGONAL):
            for schedule in ("constant", "linear", "sqrt"):
                found = [
                    {n: run.value for n, run in schedules[schedule].items()}
                    for schedules in scheme_runs(of_set(rows, place), contender).values()
                    if schedule in schedules
                ]
                if found:
                    lines.append(_level_line(name, f"{contender}, {schedule}", found, passes))
        mine = select(of_set(rows, place), contender="SGD-QN")
        found = [
            {n: value for n, (_, value) in best_curve(select(mine, seed=seed), "SGD-QN").items()}
            for seed in sorted({row["seed"] for row in select(mine, stage="run")})
        ]
        if found:
            lines.append(_level_line(name, "SGD-QN (two λ)", found, passes))
    header = ["features", "contender", "seeds", *(f"{n} pass{'es' * (n > 1)}" for n in passes)]
    return markdown_table(header, lines)


def _level_line(
    name: str, contender: str, curves: list[dict[int, float]], passes: Sequence[int]
) -> list[str]:
    cells = [with_interval([curve[n] for curve in curves if n in curve]) for n in passes]
    return [name, contender, str(len(curves)), *cells]
