"""Why not 45 of 45: the first threshold, the scale and the pairs; and the batch form."""

import json
import math
from statistics import fmean, stdev

from experiments.duels import Side, duel
from experiments.pola_default import WIDTH
from experiments.rows import Row, select
from experiments.summary import markdown_table

SWEPT, BATCH = "POLA, threshold", "POLA, batch"
CUTS = (1, 3, 5)
#: what the batch form shows
VERDICT = [
    "Repeating the pairs does not lead to the claim: on each of these pairs of digits and for each "
    "k the last matrix is worse than after one pass, and in the mean worse than the Euclidean "
    "distance. It has not converged: after 40 passes some pair still loses 1.0 to 1.6, more than "
    "the margin of 1, where 0.1 was asked for.",
]


def threshold_part(rows: list[Row]) -> list[str]:
    """Tables of the sweep on all pairs of digits and of the batch form."""
    found = select(rows, problem="mnist_pair")
    parts = [*_sweep(_scaled(found)), *_batch(found)]
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
                cells = []
                for k in CUTS:
                    ours = Side(SWEPT, score, step)
                    found = duel(here, ours, Side("Euclidean"), "digits", f"accuracy@{k}")
                    changes = [us - them for them, us in found.pairs]
                    half = WIDTH * stdev(changes) / math.sqrt(len(changes))
                    cells.append(f"{found} ({100 * fmean(changes):+.2f} ± {100 * half:.2f})")
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
        f"on {len(sides['last'])} pairs of digits that look alike (all 45 were too dear), seed "
        "0. Errors in percent of 1-, 3- and 5-NN.",
        markdown_table(header, lines),
        *VERDICT,
    ]


def _errors(rows: list[Row]) -> list[float]:
    return [100 - 100 * select(rows, measure=f"accuracy@{k}")[0]["value"] for k in CUTS]


def _shown(errors: list[float]) -> str:
    return " / ".join(f"{error:.2f}" for error in errors)
