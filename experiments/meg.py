"""Tables, figures and claims of the MEG paper, section 5, and of two experiments beyond it."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.figures import Curves, draw_curves
from experiments.rows import Row, select
from experiments.summary import markdown_table, mean_error, trace, with_error

SLOW, FAST, BOOST, TARGET = "MEG, eta = 2", "MEG, eta = 20", "DefiniteBoost", "target kernel"
MANY = "DefiniteBoost, 980 constraints"
KERNELS = ("spectrum3", "spectrum2", "identity")
#: a kernel of its own for the claim on errors: on the others the target makes none
POOR = "composition"
MAIN = 20_000
D = 52


def report(rows: list[Row], exhibits: dict[str, Any], figures: Path) -> list[str]:
    """Paragraphs of the report."""
    rows = select(rows, stage="run", value=lambda value: not math.isnan(value))
    return [
        "# MEG and DefiniteBoost: the paper's claims, measured again",
        'K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for On-line '
        'Learning and Bregman Projection", JMLR 6, 2005, section 5; then an embedding from human '
        "triplets and a quantum state. The paper's 52 × 52 kernel is not public: ours has the same "
        "gene (gyrB), size and number of groups, but other bacteria (3-mer spectrum kernel at "
        "trace one unless another is named). Learning rates and losses are in the paper's units "
        "(tr(WX) is half of a squared distance). Values are means over ten seeds ± standard error; "
        "a seed is a random division into halves with and without a known genus, and a stream of "
        "distances.",
        "## Claims",
        claims_table(rows),
        *_online_part(rows, figures),
        *_projection_part(rows, figures),
        *_triplets_part(rows, figures),
        *_state_part(rows, figures),
    ]


# -- claims ----------------------------------------------------------------------------------------


def claims_table(rows: list[Row]) -> str:
    lines = [
        line
        for claim in (_bound, _descent, _rate, _dual, _met, _lost)
        for line in claim(select(rows, problem="gyrb"))
    ]
    return markdown_table(["claim", "paper", "measured", "reproduced"], lines)


def _bound(rows: list[Row]) -> list[list[str]]:
    """Lemma 3.2: the total loss stays below its bound, which is about twice as large."""
    losses, bounds = (_by_run(rows, SLOW, name) for name in ("total_loss", "loss_bound"))
    if not losses:
        return []
    held = all(losses[place] <= bounds[place] for place in losses)
    lines = []
    for step in sorted({min(MAIN, _last(losses)), _last(losses)}):
        here = [place for place in losses if place[-1] == step]
        ratio = fmean(bounds[place] / losses[place] for place in here)
        loss, bound = (fmean(values[place] for place in here) for values in (losses, bounds))
        seeds = f"{len(here)} seed{'s' if len(here) > 1 else ''}"
        shown = f"× {ratio:.2f} (bound {bound:.3f}, loss {loss:.3f}; {seeds})"
        verdict = "yes" if held and 1.5 <= ratio <= 2.5 else "no"
        text = f"bound over total loss after {step:,} distances, eta = 2"
        lines.append([text, "about × 2", shown, verdict])
    return lines


def _descent(rows: list[Row]) -> list[list[str]]:
    lines = []
    for measure, words in (("error", "test half"), ("error_loo", "leave one out")):
        step, shown = _reaching(rows, SLOW, measure)
        if shown:
            text = f"distances until the 1-NN error ({words}) is the target kernel's, eta = 2"
            verdict = "the level yes, sooner" if step < math.inf else "no"
            lines.append([text, "~ 200,000", shown, verdict])
    return lines


def _rate(rows: list[Row]) -> list[list[str]]:
    (slow, _), (fast, shown) = (_reaching(rows, name, "error") for name in (SLOW, FAST))
    if not shown:
        return []
    text = "a larger rate is faster in practice: the same with eta = 20"
    return [[text, "often", shown, "yes" if fast < slow else "no"]]


def _dual(rows: list[Row]) -> list[list[str]]:
    lines = []
    for name in KERNELS:
        here = _kernel(rows, name)
        dual, bound = (_by_run(here, BOOST, which) for which in ("dual", "dual_bound"))
        if dual:
            # Nothing is random here, so one run is all. Rows have five digits, and at first the
            # bound is the dual value itself.
            steps = {place[-1] for place in dual}
            below = {place[-1] for place in dual if dual[place] < bound[place] - 1e-5}
            end = max(dual, key=lambda place: place[-1])
            shown = (
                f"{dual[end]:.3f} over {bound[end]:.3f} at the end; "
                f"below at {len(below)} of {len(steps)} steps looked at"
            )
            text = f"dual objective over the bound of Theorem 4.1, {name}"
            lines.append([text, "above it", shown, "no" if below else "yes"])
    return lines


def _met(rows: list[Row]) -> list[list[str]]:
    lines = []
    for contender, name in _boosted():
        here = select(_kernel(rows, name), contender=contender)
        if here:
            counted = ("constraints", "iterations", "violated", "iteration_bound")
            n, steps, left, bound = (_end(here, name, contender) for name in counted)
            gamma = _end(here, "gamma", contender) if contender == MANY else 0.2
            # 2λ² log d/ε², for X - γI with eigenvalues from -γ to 1 - γ and ε = 1e-4
            printed = 2 * (1 - gamma / D) ** 2 * math.log(D) / 1e-4**2
            shown = (
                f"γ = {gamma:.3g}/d: {n:.0f} constraints, {left:.0f} violated after {steps:.0f} "
                f"steps (at most {printed:,.0f} by Corollary 4.2 as printed, "
                f"{bound:,.0f} by our tighter form of it)"
            )
            text = f"steps until all constraints are met to 1e-4, {name}"
            met = "yes" if left == 0 and steps < MAIN / 10 else "no"
            lines.append([text, "980 constraints; much faster than on-line", shown, met])
    return lines


def _boosted() -> list[tuple[str, str]]:
    """Contenders and kernels of the projection part."""
    return [(BOOST, name) for name in KERNELS] + [(MANY, name) for name in (*KERNELS, POOR)]


def _lost(rows: list[Row]) -> list[list[str]]:
    lines = []
    for contender, name in _boosted():
        here = _kernel(rows, name)
        ours, theirs = (_ends(here, which, "error") for which in (contender, TARGET))
        if not ours:
            continue
        which = f"{name}, {_end(here, 'constraints', contender):.0f} constraints"
        mean, error = mean_error(ours[seed] - theirs[seed] for seed in ours)
        shown = f"{_percent(ours.values())} over {_percent(theirs.values())}"
        text = f"1-NN error (test half) after DefiniteBoost over the target's, {which}"
        lines.append([text, "higher", shown, "yes" if mean > 2.0 * error else "not told apart"])
        # Leaving one out knows no divisions: all seeds have the same value.
        loo = (_ends(here, who, "error_loo").values() for who in (contender, TARGET))
        wrong = [round(D * fmean(values)) for values in loo]
        shown = f"{wrong[0]} over {wrong[1]} of {D} proteins"
        text = f"the same, leave one out, {which}"
        more = wrong[0] - wrong[1]
        verdict = "no" if more <= 0 else "by one protein" if more == 1 else "yes"
        lines.append([text, "higher", shown, verdict])
    return lines


def _reaching(rows: list[Row], name: str, measure: str) -> tuple[float, str]:
    """First step from which the mean error is at most the target's, and a sentence on it."""
    rows = select(rows, options="{}", measure=measure)
    goal = mean_error(_ends(rows, TARGET, measure).values())[0]
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
        "a gene), whose target itself errs, by one protein. *Corollary 4.2 as printed* is "
        "2λ² log d/ε² with λ the largest |eigenvalue|; *our tighter form* is log d/(−log ρ(ε)), "
        "which also uses that the smallest eigenvalue is only −γ. How steps grow with d and ε "
        "where θ is searched for (section 4.6) is a report [of its own](bisection.md).",
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
        seconds = mean_error(
            row["seconds"] for row in select(here, contender=name) if _count(row) == counts[-1]
        )[0]
        cells = [with_error([100 * value for value in curve[count]], 1) for count in counts]
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
                cells = [with_error(curve[step]) for step in steps]
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
    return f"{with_error([100 * value for value in values], 1)} %"
