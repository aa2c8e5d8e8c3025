"""What it takes for POLA to be better than the Euclidean distance: a study on training images."""

import json
from typing import Any

from experiments.rows import Row, select
from experiments.summary import interval, markdown_table

CUTS = (1, 3, 5)
#: contender -> the parameters and options that it varies
STUDIES = {
    "POLA, start": ("scaling", "start"),
    "POLA, steps": ("threshold_rate", "gamma", "start_scale"),
    "POLA, pairs": ("start", "pairs", "pool"),
}
INTRODUCTIONS = {
    "POLA, start": "### Scaling and start\n\nIn all 784 dimensions, as printed but for the start: "
    "pixels between 0 and 1; divided by the root mean square distance; each image by its length. "
    "(Centering changes no difference of two images, and so nothing.)",
    "POLA, steps": "### How far a pair moves A and b\n\nIn 60 principal components, from the "
    "identity. `threshold_rate` is how readily b moves, `gamma` shortens all steps, `start_scale` "
    "is the mean squared distance at the start, where the margin is 1.",
    "POLA, pairs": "### Start, pairs and passes\n\nIn 60 principal components, gamma = 0, "
    "otherwise our defaults. With a pool of 1,000 the same pairs come again and again: 5,000 steps "
    "are five passes, as in the paper's batch form.",
}


def study_part(rows: list[Row]) -> list[str]:
    """Tables of the study, from the rows that classified training images."""
    found = [row for row in rows if json.loads(row["options"]).get("study")]
    parts = []
    for name, varied in STUDIES.items():
        here = select(found, contender=name)
        if here:
            parts += [INTRODUCTIONS[name], study_table(here, found, varied)]
    if not parts:
        return []
    pairs = sorted({json.loads(row["options"])["digits"] for row in found})
    return [
        "## What it takes",
        f"Ten thousand further training images of {len(pairs)} pairs of digits that look alike "
        f"({', '.join(pairs)}) are classified in place of the test images, seed 0, so that "
        "settings could be chosen. Errors in percent of 1-, 3- and 5-NN, means over the pairs; "
        "their standard error is about 0.1, that of a difference about half of it.",
        *parts,
    ]


def study_table(rows: list[Row], all_rows: list[Row], varied: tuple[str, ...]) -> str:
    """Table with a line for each setting, a column for each number of steps and state."""
    columns = [(n, s) for n in sorted({r["step"] for r in rows}) for s in ("last", "average")]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        setting = {**json.loads(row["options"]), **json.loads(row["parameters"])}
        groups.setdefault(tuple(setting[name] for name in varied), []).append(row)
    lines = _euclidean_lines(rows, all_rows, varied, len(columns))
    for setting, found in groups.items():
        cells = [_errors(select(found, step=step, score=score)) for step, score in columns]
        lines.append([*map(_shown, setting), *cells])
    header = [*varied, *(f"{step:,} {score}" for step, score in columns)]
    return markdown_table(header, lines)


def _euclidean_lines(
    rows: list[Row], all_rows: list[Row], varied: tuple[str, ...], n_columns: int
) -> list[list[str]]:
    """Results before learning, for each scaling of the inputs."""
    lines = []
    for scaling in dict.fromkeys(json.loads(row["options"])["scaling"] for row in rows):
        found = [
            row
            for row in select(all_rows, contender="Euclidean", score="l2")
            if json.loads(row["options"])["scaling"] == scaling
        ]
        first = scaling if varied[0] == "scaling" else "Euclidean"
        rest = ["Euclidean" if varied[0] == "scaling" else ""]
        blank = [""] * (len(varied) - 2)
        if found:
            lines.append([first, *rest, *blank, _errors(found), *[""] * (n_columns - 1)])
    return lines


def _errors(rows: list[Row]) -> str:
    values = [
        100 - 100 * interval(row["value"] for row in select(rows, measure=f"accuracy@{k}"))[0]
        for k in CUTS
    ]
    return " / ".join(f"{value:.2f}" for value in values)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
