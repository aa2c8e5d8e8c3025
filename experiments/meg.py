"""Tables, figures and claims of the MEG paper, section 5, and of two experiments beyond it."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.figures import Curves, draw_curves
from experiments.report import Claim
from experiments.rows import Row, select
from experiments.summary import interval, markdown_table, trace, with_interval

SLOW, FAST, BOOST, TARGET = "MEG, eta = 2", "MEG, eta = 20", "DefiniteBoost", "target kernel"
MANY = "DefiniteBoost, 980 constraints"
KERNELS = ("spectrum3", "spectrum2", "identity")
#: a kernel of its own for the claim on errors: on the others the target makes none
POOR = "composition"
MAIN = 20_000
APART_STEPS = (5_000, 10_000, 20_000, 40_000, 70_000, 100_000)
D = 52


def report(rows: list[Row], exhibits: dict[str, Any], figures: Path) -> list[str]:
    """Paragraphs of the report."""
    rows = select(rows, stage="run", value=lambda value: not math.isnan(value))
    return [
        "## How it was measured",
        'K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for On-line '
        'Learning and Bregman Projection", JMLR 6, 2005, section 5; then an embedding from human '
        "triplets and a quantum state. The paper's 52 × 52 kernel is not public: ours has the same "
        "gene (gyrB), size and number of groups, but other bacteria (3-mer spectrum kernel at "
        "trace one unless another is named). Learning rates and losses are in the paper's units "
        "(tr(WX) is half of a squared distance). Values are means over ten seeds; "
        "a seed is a random division into halves with and without a known genus, and a stream of "
        "distances.",
        *_online_part(rows, figures),
        *_apart_part(select(rows, problem="gyrb")),
        *_projection_part(rows, figures),
        *_triplets_part(rows, figures),
        *_state_part(rows, figures),
    ]


# -- claims ----------------------------------------------------------------------------------------


def claims(rows: list[Row], exhibits: dict[str, Any]) -> list[Claim]:
    rows = select(rows, stage="run", value=lambda value: not math.isnan(value), problem="gyrb")
    rows = [row for row in rows if "apart" not in json.loads(row["options"])]
    judged = (_bound, _descent, _rate, _dual, _met, _lost)
    return [found for judge in judged for found in judge(rows)]


def _bound(rows: list[Row]) -> list[Claim]:
    """Lemma 3.2: the total loss stays below its bound, which is about twice as large."""
    losses, bounds = (_by_run(rows, SLOW, name) for name in ("total_loss", "loss_bound"))
    if not losses:
        return []
    held, shown = all(losses[place] <= bounds[place] for place in losses), []
    for step in sorted({min(MAIN, _last(losses)), _last(losses)}):
        here = [place for place in losses if place[-1] == step]
        ratios = [bounds[place] / losses[place] for place in here]
        held &= 1.5 <= fmean(ratios) <= 2.5
        seeds = f"{len(here)} seed{'s' if len(here) > 1 else ''}"
        shown.append(f"× {with_interval(ratios, 2)} after {step:,} distances ({seeds})")
    text = "total loss below its bound (Lemma 3.2), eta = 2"
    return [Claim(text, "by about × 2", "; ".join(shown), "yes" if held else "no")]


def _descent(rows: list[Row]) -> list[Claim]:
    shown, steps = [], []
    for measure, words in (("error", "test half"), ("error_loo", "leave one out")):
        step, found = _reaching(rows, SLOW, measure)
        if found:
            shown.append(f"{words}: {found}")
            steps.append(step)
    if not shown:
        return []
    verdict = "yes, in a tenth of the distances" if max(steps) < math.inf else "no"
    text = "distances until the 1-NN error is the target kernel's, eta = 2"
    return [Claim(text, "~ 200,000", "; ".join(shown), verdict)]


def _rate(rows: list[Row]) -> list[Claim]:
    (slow, _), (fast, shown) = (_reaching(rows, name, "error") for name in (SLOW, FAST))
    if not shown:
        return []
    text = "a larger rate is often faster: the same with eta = 20"
    return [Claim(text, "often", shown, "yes" if fast < slow else "no")]


def _dual(rows: list[Row]) -> list[Claim]:
    shown, below = [], 0
    for name in KERNELS:
        here = _kernel(rows, name)
        dual, bound = (_by_run(here, BOOST, which) for which in ("dual", "dual_bound"))
        if dual:
            # Nothing is random here, so one run is all. Rows have five digits, and at first the
            # bound is the dual value itself.
            below += len({place[-1] for place in dual if dual[place] < bound[place] - 1e-5})
            end = max(dual, key=lambda place: place[-1])
            shown.append(f"{name} {dual[end]:.3f} over {bound[end]:.3f}")
    if not shown:
        return []
    measured = f"at the end {', '.join(shown)}; below at {below} of the steps looked at"
    text = "dual objective above the bound of Theorem 4.1"
    return [Claim(text, "always", measured, "no" if below else "yes")]


def _met(rows: list[Row]) -> list[Claim]:
    """Steps until 980 constraints, as many as in the paper, are met to 1e-4."""
    shown, met = [], []
    for contender, name in _boosted():
        here = select(_kernel(rows, name), contender=contender)
        if here and contender == MANY:
            counted = ("constraints", "iterations", "violated")
            n, steps, left = (_end(here, name, contender) for name in counted)
            shown.append(f"{name}: {n:.0f} constraints, {steps:.0f} steps, {left:.0f} violated")
            met.append(left == 0 and steps < MAIN / 10)
    if not shown:
        return []
    text = "DefiniteBoost meets all constraints, much faster than the on-line form"
    said = "980 constraints; no number of steps"
    return [Claim(text, said, "; ".join(shown), "yes" if all(met) else "no")]


def _boosted() -> list[tuple[str, str]]:
    """Contenders and kernels of the projection part."""
    return [(BOOST, name) for name in KERNELS] + [(MANY, name) for name in (*KERNELS, POOR)]


def _lost(rows: list[Row]) -> list[Claim]:
    """Errors after DefiniteBoost beside those of the target; left one out, nothing is random."""
    shown, higher = [], []
    for contender, name in _boosted():
        here = _kernel(rows, name)
        ours, theirs = (_ends(here, which, "error") for which in (contender, TARGET))
        if not ours:
            continue
        n = _end(here, "constraints", contender)
        mean, half = interval(ours[seed] - theirs[seed] for seed in ours)
        loo = (_ends(here, who, "error_loo").values() for who in (contender, TARGET))
        wrong = [round(D * fmean(values)) for values in loo]
        shown.append(
            f"{name}, {n:.0f} constraints: {_percent(ours.values())} over "
            f"{_percent(theirs.values())}, left one out {wrong[0]} over {wrong[1]} of {D}"
        )
        higher.append(mean > half)
    if not shown:
        return []
    verdict = f"partly: on {sum(higher)} of {len(higher)}" if any(higher) else "no"
    text = "1-NN error after DefiniteBoost is higher than the target's"
    return [Claim(text, "higher", "; ".join(shown), "yes" if all(higher) else verdict)]


def _bounds(rows: list[Row]) -> str:
    found = [
        _end(_kernel(rows, name), "iteration_bound", contender)
        for contender, name in _boosted()
        if select(_kernel(rows, name), contender=contender)
    ]
    return f"{min(found):,.0f} to {max(found):,.0f}" if found else "fewer"


def _reaching(rows: list[Row], name: str, measure: str) -> tuple[float, str]:
    """First step from which the mean error is at most the target's, and a sentence on it."""
    rows = select(rows, options="{}", measure=measure)
    goal = interval(_ends(rows, TARGET, measure).values())[0]
    means = {
        step: fmean(values)
        for step, values in trace(select(rows, contender=name)).items()
        if step <= MAIN
    }
    if not means or math.isnan(goal):
        return math.inf, ""
    reached = math.inf
    for step in sorted(means, reverse=True):
        if means[step] > goal + 1e-9:
            break
        reached = step
    first, last = means[min(means)], means[max(means)]
    words = f"{reached:,} at most" if reached < math.inf else f"not within {max(means):,}"
    return reached, f"{words} ({100 * first:.1f} % → {100 * last:.1f} %, target {100 * goal:.1f} %)"


# -- parts -----------------------------------------------------------------------------------------


def _online_part(rows: list[Row], figures: Path) -> list[str]:
    here = select(rows, problem="gyrb", options="{}")
    short = select(here, step=lambda step: step <= MAIN)
    losses: Curves = {
        "total loss, eta = 2": trace(_of(short, SLOW, "total_loss")),
        "bound, eta = 2": trace(_of(short, SLOW, "loss_bound")),
        "total loss, eta = 20": trace(_of(short, FAST, "total_loss")),
    }
    parts = ["## Figure 2: a kernel from distances that arrive at random"]
    parts += _figure(figures, "meg_loss", losses, ("distances", "total loss"))
    errors: Curves = {name: trace(_of(short, name, "error")) for name in (SLOW, FAST)}
    parts += _figure(
        figures, "meg_error", _with_level(errors, here), ("distances", "1-NN error, test half")
    )
    long = [row for row in _of(here, SLOW, "total_loss") if row["step"] > MAIN]
    if long:
        cells = [
            [f"{row['step']:,}", f"{row['value']:.3f}", f"{row['seconds']:.0f}"]
            for row in sorted(long, key=lambda row: row["step"])
        ]
        parts += [
            f"As far as the paper goes, seed {long[0]['seed']}:",
            markdown_table(["distances", "total loss", "seconds"], cells),
        ]
    return parts


def _apart_part(rows: list[Row]) -> list[str]:
    """How many distances it takes where the genera lie nearer to each other."""
    lines = []
    for apart in sorted({json.loads(row["options"]).get("apart", 1.0) for row in rows})[::-1]:
        options = "{}" if apart == 1 else f'{{"apart":{apart:g}}}'
        here = select(rows, options=options, measure="error_loo")
        curve = trace(select(here, contender=SLOW))
        if not curve:
            continue
        goal = interval(_ends(here, TARGET, "error_loo").values())[0]
        first = next((n for n, values in curve.items() if fmean(values) <= goal + 1e-9), None)
        cells = [f"{100 * fmean(curve[n]):.1f}" if n in curve else "–" for n in APART_STEPS]
        runs = str(max((len(values) for values in curve.values()), default=0))
        told = f"{first:,}" if first else f"more than {max(curve):,}"
        lines.append([f"{apart:g}", runs, *cells, f"{100 * goal:.1f}", told])
    if len(lines) < 2:
        return []
    header = ["apart", "seeds", *(f"{n:,}" for n in APART_STEPS), "target", "reached at"]
    return [
        "### Why sooner",
        "The means of the genera moved towards the mean of all proteins by a factor, everything "
        "else as it was: 1-NN error in percent, leaving one out, eta = 2. A protein's nearest one "
        "of another genus is 20 times as far as the nearest of its own (median, in squared "
        "distance), and 8 and 7 times as far for the factors 0.5 and 0.4; the target errs in none "
        "of these cases. So how far groups lie apart turns the tenfold on and off; a kernel like "
        "the last comes near the paper's number.",
        markdown_table(header, lines),
    ]


def _projection_part(rows: list[Row], figures: Path) -> list[str]:
    here = select(rows, problem="gyrb")
    parts = [
        "## Figure 3: a kernel from bounds on distances",
        "All pairs with half of the squared distance below γ = 0.2/d are to be so; the most "
        "violated constraint comes next; the search ends when all are met to 1e-4. With the step "
        "(4.6) as printed the logarithm of a negative number is taken, so the step that minimises "
        "the bound of Appendix E is used. On our kernels γ = 0.2/d makes fewer constraints than "
        "the 980 of the paper, and the target makes no error. With γ for 980 constraints the claim "
        "that errors are higher shows on all three; with a poor kernel (*composition*: four counts "
        "a gene), whose target itself errs, by one protein. Corollary 4.2 "
        "as printed, 2λ² log d/ε² with λ the largest |eigenvalue|, allows hundreds of millions of "
        f"steps; our form of it, log d/(−log ρ(ε)), which also uses that the smallest eigenvalue "
        f"is only −γ, {_bounds(here)}. How steps grow with d and ε where θ is searched for "
        "(section 4.6) is a report [of its own](bisection.md).",
    ]
    duals: Curves = {}
    errors: Curves = {}
    violated: Curves = {}
    for name in KERNELS:
        some = _kernel(here, name)
        duals[f"{name}"] = trace(_of(some, BOOST, "dual"))
        duals[f"{name}, bound"] = trace(_of(some, BOOST, "dual_bound"))
        violated[name] = {
            step: [value / _end(some, "constraints") for value in values]
            for step, values in trace(_of(some, BOOST, "violated")).items()
        }
        errors.update(
            _with_level({name: trace(_of(some, BOOST, "error"))}, some, f"{name}, target")
        )
    for name, curves, label in (
        ("meg_dual", duals, "dual objective"),
        ("meg_violated", violated, "share of violated constraints"),
        ("meg_boost_error", errors, "1-NN error, test half"),
    ):
        parts += _figure(figures, name, curves, ("steps", label))
    return parts


def _triplets_part(rows: list[Row], figures: Path) -> list[str]:
    here = select(rows, problem="zappos")
    if not here:
        return []
    curves: Curves = {}
    for row in sorted(here, key=_count):
        curves.setdefault(row["contender"], {}).setdefault(_count(row), []).append(row["value"])
    counts = sorted({count for curve in curves.values() for count in curve})
    lines = []
    for name, curve in curves.items():
        seconds = interval(
            row["seconds"] for row in select(here, contender=name) if _count(row) == counts[-1]
        )[0]
        cells = [with_interval([100 * value for value in curve[count]], 1) for count in counts]
        own = select(here, contender=name)
        counted = Counter(row["note"] for row in own if row["note"]).most_common()
        notes = ", ".join(f"{note} ({n}×)" for note, n in counted)
        lines.append([name, *cells, f"{seconds:.2f}", _chosen(own), notes])
    amounts = [f"{count:,} triplets" for count in counts]
    header = ["contender", *amounts, "seconds", "chosen, over all runs", "notes"]
    return [
        "## An embedding of 85 shoes from human triplets",
        "Share (%) of 20,000 held-out judgements *a is more like b than like c* that hold in the "
        "embedding, ten divisions. Each contender that learns took the best of four settings on a "
        "quarter of its training triplets. The grids were laid while looking at one more division, "
        "on which the forms of MEG (blocks) and DefiniteBoost (groups) were tried out as well, "
        "more than the iterations of t-STE and the start of MDS were. "
        "Cosine is that of EfficientNet features and learns nothing; *from features* starts "
        "DefiniteBoost at that kernel (nine tenths) and is the only learner that knows the "
        "features. MEG takes the mean of the triplets of a block that lack a margin as one "
        "instance. DefiniteBoost asks for a margin of the mean over groups of triplets, since on "
        "that division 2,000 single judgements could not all have the margin 1/n; *infeasible* in "
        "the notes counts the runs in which the groups could not either, and W is then the one at "
        "which that was proven. t-STE: van der Maaten & Weinberger 2012; non-metric MDS is "
        "scikit-learn's on the share of answers "
        "in which a pair was the less alike one.",
        markdown_table(header, lines),
        *_figure(figures, "meg_triplets", curves, ("training triplets", "held-out share")),
    ]


def _state_part(rows: list[Row], figures: Path) -> list[str]:
    here = select(rows, problem="quantum_state")
    if not here:
        return []
    parts = [
        "## A quantum state from noisy measurements",
        "Three qubits (d = 8, complex), random states of rank one and two, measurements along "
        "random vectors of 100 shots each. MEG sees each once and keeps a matrix; linear inversion "
        "solves least squares over all measurements so far and takes the nearest density matrix "
        "(Smolin et al. 2012). Rates are not tuned: 2 is the largest of Lemma 3.2; one that falls "
        "from 8 as 1/√t was added when 2 was seen to be slow at first on one state.",
    ]
    for options in sorted({row["options"] for row in here}):
        some, rank = select(here, options=options), json.loads(options)["rank"]
        steps = sorted({row["step"] for row in some})
        lines = []
        for name in dict.fromkeys(row["contender"] for row in some):
            for measure in ("fidelity", "trace_distance"):
                curve = trace(_of(some, name, measure))
                cells = [with_interval(curve[step]) for step in steps]
                lines.append([name.removesuffix(", state"), measure.replace("_", " "), *cells])
        header = ["contender", "measure", *(f"{step:,}" for step in steps)]
        parts += [f"### Rank {rank}", markdown_table(header, lines)]
        curves = {
            name.removesuffix(", state"): trace(_of(some, name, "trace_distance"))
            for name in dict.fromkeys(row["contender"] for row in some)
        }
        labels = ("measurements", f"trace distance, rank {rank}")
        parts += _figure(figures, f"meg_state_rank{rank}", curves, labels)
    return parts


# -- pieces ----------------------------------------------------------------------------------------


def _figure(figures: Path, name: str, curves: Curves, labels: tuple[str, str]) -> list[str]:
    curves = {title: curve for title, curve in curves.items() if curve}
    if not curves:
        return []
    path = figures / f"{name}.png"
    draw_curves(path, curves, *labels, logarithmic=True)
    return [f"![{labels[1]}]({figures.name}/{path.name})"]


def _with_level(curves: Curves, rows: list[Row], title: str = TARGET) -> Curves:
    """Add the target kernel's error as a level line."""
    level = [row["value"] for row in _of(rows, TARGET, "error")]
    steps = [step for curve in curves.values() for step in curve]
    if not level or not steps:
        return curves
    return {**curves, title: {min(steps): level, max(steps): level}}


def _of(rows: list[Row], contender: str, measure: str) -> list[Row]:
    return select(rows, contender=contender, measure=measure)


def _kernel(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if json.loads(row["options"]).get("kernel") == name]


def _by_run(rows: list[Row], contender: str, measure: str) -> dict[tuple[Any, ...], float]:
    """(options, seed, step) -> value."""
    found = _of(rows, contender, measure)
    return {(row["options"], row["seed"], row["step"]): row["value"] for row in found}


def _last(values: dict[tuple[Any, ...], float]) -> int:
    return max(place[-1] for place in values)


def _ends(rows: list[Row], contender: str, measure: str) -> dict[int, float]:
    """Seed -> value at the last step of that seed."""
    found = sorted(_of(rows, contender, measure), key=lambda row: row["step"])
    return {row["seed"]: row["value"] for row in found}


def _end(rows: list[Row], measure: str, contender: str = BOOST) -> float:
    return fmean(_ends(rows, contender, measure).values())


def _chosen(rows: list[Row]) -> str:
    """Say how often tuning chose which setting."""
    settings = [json.loads(row["parameters"]) for row in rows]
    varied = [name for name in settings[0] if len({one[name] for one in settings}) > 1]
    counts = Counter(", ".join(f"{name} = {one[name]:g}" for name in varied) for one in settings)
    return "; ".join(f"{words} ({n}×)" for words, n in counts.most_common() if words)


def _count(row: Row) -> int:
    return int(json.loads(row["options"])["n_triplets"])


def _percent(values: Iterable[float]) -> str:
    return f"{with_interval([100 * value for value in values], 1)} %"
