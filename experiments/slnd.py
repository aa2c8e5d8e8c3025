"""Tables, figures and claims of the SLND paper, section 4, and what goes beyond it."""

import json
import math
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from experiments.figures import Curves, draw_curves, draw_panels
from experiments.report import Claim
from experiments.rows import Row, select
from experiments.slnd_beyond import (
    balance_part,
    classes_part,
    forms_part,
    growth_part,
    schedules_part,
)
from experiments.slnd_curves import (
    SETS,
    Run,
    best_curve,
    better_schedule,
    by_processor,
    first_at,
    median_and_range,
    of_set,
    scheme_runs,
)
from experiments.summary import half_interval, interval, markdown_table, with_interval

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
        *_hessian_part(select(every, seed=0), figures),
        *forms_part(every),
        *schedules_part(every),
        *balance_part(select(every, seed=0)),
        *growth_part(walls),
    ]


# -- claims ----------------------------------------------------------------------------------------


class Race(NamedTuple):
    """SLND and SGD on one set, seed by seed: passes and seconds to 99 % of SGD's best."""

    name: str
    constant: list[tuple[float, float]]
    falling: list[tuple[float, float]]
    plain: list[tuple[float, float]]  # SGD with constant steps
    sgd: list[tuple[float, float]]  # with its better schedule
    best: list[tuple[float, float]]  # best top-1 accuracy of SLND and of SGD

    @property
    def ratios(self) -> list[float]:
        """SGD's passes over SLND's; 0 where SLND never arrives."""
        pairs = zip(self.sgd, self.constant, strict=True)
        return [theirs[0] / ours[0] for theirs, ours in pairs]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


def races(rows: list[Row]) -> list[Race]:
    found = []
    for place, name in SETS.items():
        here = of_set(rows, place)
        ours, theirs = (scheme_runs(here, contender) for contender in ("SLND", "SGD"))
        race = Race(name, [], [], [], [], [])
        for seed in sorted(ours.keys() & theirs):
            slnd, sgd = better_schedule(ours[seed]), better_schedule(theirs[seed])
            best = max(run.top1 for run in sgd.values())
            race.best.append((max(run.top1 for run in slnd.values()), best))
            race.constant.append(first_at(ours[seed]["constant"], 0.99 * best))
            race.falling.append(first_at(ours[seed]["linear"], 0.99 * best))
            race.plain.append(first_at(theirs[seed]["constant"], 0.99 * best))
            race.sgd.append(first_at(sgd, 0.99 * best))
        if race.best:
            found.append(race)
    return found


def claims(rows: list[Row], exhibits: dict[str, Any]) -> list[Claim]:
    known = select(rows, value=lambda value: not math.isnan(value))
    found = races(known)
    if not found:
        return []
    tenfold = [race.name for race in found if race.ratio >= 10]
    ratios = "; ".join(f"{race.name} × {_ratio_text(race)}" for race in found)
    return [
        Claim(
            "SGD takes ten times the passes to 99 % of its best (constant steps for SLND, as in "
            "the paper; the better schedule for SGD)",
            "an order of magnitude",
            ratios,
            _of_all(len(tenfold), len(found)),
        ),
        _seconds_claim(found),
        _accuracy_claim(found),
        *_diagonal_claim(known),
        *_hinge_claim(known),
        *_rank_claim(known),
    ]


def _of_all(count: int, n: int) -> str:
    return "yes" if count == n else f"partly: on {count} of {n} sets" if count else "no"


def _ratio_text(race: Race) -> str:
    if 0 in race.ratios:
        return f"– (SLND arrives for {sum(r > 0 for r in race.ratios)} of {len(race.ratios)} seeds)"
    return median_and_range(race.ratios)


def _seconds_claim(found: list[Race]) -> Claim:
    shown, ratios = [], []
    for race in found:
        ours, theirs = (median([s for _, s in side]) for side in (race.constant, race.sgd))
        if math.isfinite(ours):
            shown.append(f"{race.name} {ours:.2g} s beside {theirs:.2g} s")
            ratios.append(theirs / ours)
    text = "the same in seconds of one processor, with Hessian and projection (median)"
    first = [ratio for ratio in ratios if ratio > 1]
    verdict = "no"
    if first:
        verdict = f"partly: first on {len(first)} of {len(found)} sets, × {max(first):.1f} at best"
    verdict = "yes" if len(first) == len(found) and min(first) >= 20 else verdict
    return Claim(text, "1 h beside 20 h (ImageNet, 1.2 million rows)", "; ".join(shown), verdict)


def _accuracy_claim(found: list[Race]) -> Claim:
    gaps = {race.name: [100 * (a - b) for a, b in race.best] for race in found}
    shown = "; ".join(f"{name} {with_interval(gap, 1, '+')}" for name, gap in gaps.items())
    better = sum(interval(gap)[0] - (half_interval(gap) or 0) > 0 for gap in gaps.values())
    text = "at least SGD's accuracy: best top-1 in 50 passes, in points"
    return Claim(text, '"improves significantly"', shown, _of_all(better, len(gaps)))


def _diagonal_claim(rows: list[Row]) -> list[Claim]:
    """A diagonal Hessian beside SGD: best accuracy in 50 passes, with the same freedom."""
    gaps = {}
    for place, name in SETS.items():
        here = of_set(rows, place)
        diagonal, sgd = (scheme_runs(here, one) for one in ("diagonal Hessian", "SGD"))
        found = [
            100 * (_best(better_schedule(diagonal[seed])) - _best(better_schedule(sgd[seed])))
            for seed in sorted(diagonal.keys() & sgd)
        ]
        if found:
            gaps[name] = found
    if not gaps:
        return []
    shown = "; ".join(f"{name} {with_interval(gap, 1, '+')}" for name, gap in gaps.items())
    like = sum(abs(interval(gap)[0]) < 1 for gap in gaps.values())
    text = "a diagonal Hessian does as SGD does: best top-1, in points"
    return [Claim(text, '"similar results"', shown, _of_all(like, len(gaps)))]


def _hinge_claim(rows: list[Row]) -> list[Claim]:
    gaps = {}
    for place, name in SETS.items():
        hinge, log = (scheme_runs(of_set(rows, place), one) for one in ("SLND hinge", "SLND"))
        found = [
            100 * (_best(hinge[seed]["constant"]) - _best(log[seed]["constant"]))
            for seed in sorted(hinge.keys() & log)
        ]
        if found:
            gaps[name] = found
    if not gaps:
        return []
    shown = "; ".join(f"{name} {with_interval(gap, 1, '+')}" for name, gap in gaps.items())
    like = sum(abs(interval(gap)[0]) < 1 for gap in gaps.values())
    text = "calibrated hinge and logistic loss are alike: best top-1, in points"
    return [Claim(text, '"very similar"', shown, _of_all(like, len(gaps)))]


def _rank_claim(rows: list[Row]) -> list[Claim]:
    """Figure 3: accuracy has a plateau at large ranks; a fall beyond it contradicts it."""
    shown, flat = [], []
    for place, name in SETS.items():
        found = {
            json.loads(row["parameters"])["rank"]: row["value"]
            for row in select(of_set(rows, place), contender="SLND, rank", measure="top1", seed=0)
        }
        if found:
            peak, last = max(found, key=found.__getitem__), max(found)
            fall = 100 * (found[peak] - found[last])
            shown.append(f"{name} best at {peak}, at {last} {fall:.1f} points less")
            flat.append(fall < 1)
    if not shown:
        return []
    text = "accuracy over the rank has a large plateau (Figure 3; one step for all ranks)"
    return [Claim(text, "plateau on all sets", "; ".join(shown), _of_all(sum(flat), len(flat)))]


def _best(curve: dict[int, Run]) -> float:
    return max(run.top1 for run in curve.values())


# -- the paper's scheme ----------------------------------------------------------------------------


def _scheme_part(rows: list[Row], figures: Path) -> list[str]:
    found = races(rows)
    lines, panels = [], {}
    for race in found:
        sides = (race.constant, race.falling, race.plain, race.sgd)
        passes = [median_and_range([n for n, _ in side]) for side in sides]
        spent = [median_and_range([s for _, s in side]) for side in (race.constant, race.sgd)]
        level = f"{0.99 * fmean(best for _, best in race.best):.3f}"
        lines.append([race.name, str(len(race.best)), level, *passes, *spent])
    for place, name in SETS.items():
        curves: Curves = {}
        for contender in ("SLND", "SGD"):
            for schedules in scheme_runs(of_set(rows, place), contender).values():
                for schedule in ("constant", "linear"):
                    words = f"{contender}, {'falling' if schedule == 'linear' else schedule}"
                    for n, run in schedules[schedule].items():
                        curves.setdefault(words, {}).setdefault(n, []).append(run.top1)
        if curves:
            panels[name] = curves
    draw_panels(figures / "slnd_passes.png", panels, "passes", "top-1 accuracy")
    header = ["features", "seeds", "99 % of SGD's best", "SLND, constant", "SLND, falling"]
    header += ["SGD, constant", "SGD, better schedule", "SLND, constant, s", "SGD, s"]
    return [
        "## The paper's scheme: passes and seconds",
        "Balanced examples, no damping, logistic loss. A quarter of the training part chooses k "
        "(25 to 800, or as many as there are) and the step, anew for each number of passes (1, 2, "
        "5, 10, 20, 50); a grid of steps whose best is at its end grows until it is not. SGD has "
        "the same freedom, and constant, falling (linear) and 1/√t steps to choose from. Passes "
        "are the first number at which a run has 99 % of the best accuracy of SGD on the test "
        "part: the median over seeds, and in brackets the least and largest; *never* is not within "
        "50. Seconds are of one processor on a busy machine, with Hessian and projection.",
        markdown_table(header, lines),
        "k that was chosen for SLND with constant steps, over seeds and numbers of passes: "
        f"{_ranks_chosen(rows)}.",
        *_levels(rows),
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
    """Top-1 accuracy after one pass and at the best, for every contender of the scheme."""
    lines = []
    for place, name in SETS.items():
        for contender in ("SLND", "SLND hinge", "SGD", "diagonal Hessian"):
            for schedule in ("constant", "linear", "sqrt"):
                found = [
                    schedules[schedule]
                    for schedules in scheme_runs(of_set(rows, place), contender).values()
                    if schedule in schedules
                ]
                if found:
                    cells = [with_interval([c[n].top1 for c in found if n in c]) for n in PASSES]
                    lines.append([name, f"{contender}, {schedule}", str(len(found)), *cells])
        qn = best_curve(of_set(rows, place), "SGD-QN")
        if qn:
            cells = [f"{qn[n][1]:.3f}" if n in qn else "–" for n in PASSES]
            lines.append([name, "SGD-QN (one seed, two λ)", "1", *cells])
    header = ["features", "contender", "seeds", *(f"{n} passes" for n in PASSES)]
    return ["Top-1 accuracy:", markdown_table(header, lines)]


def _hessian_part(rows: list[Row], figures: Path) -> list[str]:
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
