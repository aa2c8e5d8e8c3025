"""Why not 45 of 45: the first threshold, the scale and the pairs; and the batch form."""

import json
import math
import re
from statistics import fmean, stdev

from experiments.duels import Side, duel
from experiments.pola_default import WIDTH
from experiments.rows import Row, select
from experiments.summary import markdown_table

SWEPT, BATCH, SOLVED = "POLA, threshold", "POLA, batch", "POLA, batch solved"
CUTS = (1, 3, 5)


def threshold_part(rows: list[Row]) -> list[str]:
    """Tables of the sweep on all pairs of digits and of the batch form."""
    found = select(rows, problem="mnist_pair")
    parts = [*_sweep(_scaled(found)), *_batch(found), *_solved(found)]
    return ["## Why not 45 of 45", *parts] if parts else []


def _scaled(rows: list[Row]) -> list[Row]:
    wanted = {"digits", "scaling"}
    return [row for row in rows if set(json.loads(row["options"])) == wanted]


def _sweep(rows: list[Row]) -> list[str]:
    swept = select(rows, contender=SWEPT)
    if not swept:
        return []
    lines = []
    for text in sorted({row["parameters"] for row in swept}, key=_setting):
        plain = select(rows, contender="Euclidean")
        here = [*select(swept, parameters=text), *plain]
        for step in sorted({row["step"] for row in swept}):
            for score in ("last", "average"):
                cells = _duels(here, Side(SWEPT, score, step), Side("Euclidean"))
                b, unit = _setting(text)
                lines.append([f"{b:g}", f"{unit:g}", f"{step:,}", score, *cells])
    return [
        "The paper's form from zero, with the first threshold b₁ and the length that counts as 1 "
        "as parameters, in 60 principal components at a mean squared distance of 1, all pairs of "
        "digits, seed 0: pairs of digits on which it is better / equal / worse than the Euclidean "
        "distance, and the change of the error in points of a hundred ± half of a 95 % interval "
        "over pairs of digits. A unit of 0.1 is what pixels between 0 and 1 amount to.",
        markdown_table(["b₁", "unit", "pairs", "matrix", *(f"{k}-NN" for k in CUTS)], lines),
        "No first threshold and no scale comes near 45 of 45. With pixels between 0 and 1 and "
        "b₁ = 1, b hardly moves (|v|⁴ ≫ 1), so similar pairs must shrink to almost nothing: that "
        "is the worst setting but for one, and b₁ = 10 or 100 undoes half of the loss. What "
        "remains is the start: from A = 0 all that is known of 1,000 pairs is what they span, and "
        "the Euclidean distance, which is a good one here, is forgotten. More pairs make up for "
        "some of that; starting from the identity makes up for all (31 of 45, above). Nor could a "
        "gain of that size win everywhere: on some 2,000 test images a mean gain of 0.06 to 0.08 "
        "points is a third of the standard error of one pair of digits. 45 of 45 needs gains "
        "several times as large, or a weaker Euclidean error than ours (0.8 to 0.9 %), which the "
        "paper shows only as a picture.",
    ]


def _duels(rows: list[Row], ours: Side, theirs: Side) -> list[str]:
    """Better / equal / worse and the change of the error, with its interval, for every k."""
    cells = []
    for k in CUTS:
        found = duel(rows, ours, theirs, "digits", f"accuracy@{k}")
        changes = [us - them for them, us in found.pairs]
        half = WIDTH * stdev(changes) / math.sqrt(len(changes)) if len(changes) > 1 else math.nan
        cells.append(f"{found} ({100 * fmean(changes):+.2f} ± {100 * half:.2f})")
    return cells


def _setting(text: str) -> tuple[float, float]:
    parameters = json.loads(text)
    return parameters["start_threshold"], parameters["unit"]


def _batch(rows: list[Row]) -> list[str]:
    here = select(rows, contender=BATCH)
    lines, sides = [], {name: [] for name in ("Euclidean", "one pass", "last", "average")}
    for options in sorted({row["options"] for row in here}):
        some = select(here, options=options)
        plain = {"options": options, "seed": some[0]["seed"]}
        found = {
            "Euclidean": select(rows, contender="Euclidean", score="l2", **plain),
            "one pass": select(rows, contender="POLA", score="last", **plain),
            **{score: select(some, score=score) for score in ("last", "average")},
        }
        cells = []
        for name, each in found.items():
            sides[name].append(_errors(each))
            cells.append(_shown(sides[name][-1]))
        lines.append([json.loads(options)["digits"], *cells, some[0]["note"]])
    if not lines:
        return []
    means = [
        _shown([fmean(column) for column in zip(*each, strict=True)]) for each in sides.values()
    ]
    lines.append(["mean", *means, ""])
    header = ["digits", "Euclidean", "one pass, last", "batch, last", "batch, average", "batch"]
    return [
        "The batch form, as printed (b₁ = 1, pixels between 0 and 1) in all 784 dimensions: the "
        "same 1,000 pairs again and again, until none loses more than 0.1 or 40 passes are made, "
        f"on {len(sides['last'])} pairs of digits that look alike, seed 0. Errors in percent of "
        "1-, 3- and 5-NN. After 40 passes some pair still loses more than the margin of 1, where "
        "0.1 was asked for.",
        markdown_table(header, lines),
    ]


def _solved(rows: list[Row]) -> list[str]:
    """The solution of the batch problem on all pairs of digits."""
    here = select(rows, contender=SOLVED)
    if not here:
        return []
    lines, notes = [], []
    seeds = {row["seed"] for row in here}
    rivals = [
        row
        for row in rows
        if row["seed"] in seeds
        and row["contender"] in ("Euclidean", "POLA")
        and set(json.loads(row["options"])) == {"digits"}
    ]
    for text in sorted({row["parameters"] for row in here}, key=_n_pairs):
        some = select(here, parameters=text)
        for name, theirs in (("Euclidean", Side("Euclidean")), ("one pass", Side("POLA", "last"))):
            cells = _duels([*rivals, *some], Side(SOLVED, "last"), theirs)
            lines.append([f"{_n_pairs(text):,}", name, *cells])
        notes.append(_certificates(some, _n_pairs(text)))
    return [
        "Passes would end at some metric that satisfies every pair. The one nearest to the start, "
        "min ½|A|² + ½(b - 1)² over A ⪰ 0 and b ≥ 1, can be had without them, since the problem is "
        "convex: it was found from the dual (L-BFGS-B) until the duality gap was below 1 %, on all "
        "45 pairs of digits, seed 0. Better / equal / worse and the change of the error as above, "
        "against the Euclidean distance and against one pass of the printed form (of 1,000 pairs).",
        markdown_table(["pairs", "against", *(f"{k}-NN" for k in CUTS)], lines),
        *notes,
        "So what the batch form converges to is not what the claim needs. Pairs satisfied in full "
        "are fitted too closely: the solution is worse than the Euclidean distance nearly "
        "everywhere, and worse than a single pass, which ends long before.",
    ]


def _n_pairs(text: str) -> int:
    return json.loads(text)["n_pairs"]


def _certificates(rows: list[Row], n_pairs: int) -> str:
    """Ranges of what the solver says about its solutions."""
    found = {row["options"]: row["note"] for row in rows}
    numbers = [
        [float(text) for text in re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", note)]
        for note in found.values()
    ]
    gaps, losses, evaluations, distances, passes = zip(*numbers, strict=True)
    return (
        f"With {n_pairs:,} pairs all {len(found)} problems are solved: gaps of at most "
        f"{max(gaps):.2g} %, losses of at most {max(losses):.1g}, after {min(evaluations):.0f} to "
        f"{max(evaluations):.0f} evaluations. D = |A|² + (b - 1)² is {min(distances):.2g} to "
        f"{max(distances):.2g}, and since squared differences are above a hundred the bound of "
        f"Theorem 1 on the passes to a loss of 0.1 is {min(passes):.1g} to {max(passes):.1g}: so "
        "40 said nothing."
    )


def _errors(rows: list[Row]) -> list[float]:
    return [100 - 100 * select(rows, measure=f"accuracy@{k}")[0]["value"] for k in CUTS]


def _shown(errors: list[float]) -> str:
    return " / ".join(f"{error:.2f}" for error in errors)
