"""Result rows: one measure of one run at one step, kept as CSV and only ever appended to."""

import csv
import gzip
import json
import math
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COLUMNS = (
    "stage",  # "tune" on a validation part of the training points, "run" on the test points
    "problem",
    "options",
    "contender",
    "parameters",
    "seed",
    "step",  # tuples learnt from; 0 for a contender without steps
    "queries",  # test points that were queries; the others were items only
    "score",  # "inner_product" or "l2", how the points were ranked
    "measure",
    "value",  # empty if the contender could not run; the note then says why
    "seconds",  # of learning, up to the step, in one thread
    "versions",
    "note",
)
Row = dict[str, Any]


def as_text(options: dict[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def run_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS[:6])


def read_rows(folder: Path) -> list[Row]:
    """All rows of a folder; a later row replaces an earlier one of the same measure."""
    latest: dict[Any, Row] = {}
    # What is done with is kept compressed; new rows are appended beside it.
    for path in sorted(folder.glob("*.csv*"), reverse=True):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="") as stream:
            for row in csv.DictReader(stream):
                for name in ("seed", "step", "queries"):
                    row[name] = int(row[name])
                row["value"] = float(row["value"]) if row["value"] else math.nan
                row["seconds"] = float(row["seconds"] or 0)
                latest[tuple(row[name] for name in COLUMNS[: COLUMNS.index("value")])] = row
    return list(latest.values())


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add the rows of a run in one write, so that a run is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    class Lines:
        write = staticmethod(lines.append)

    table = csv.DictWriter(Lines, COLUMNS, lineterminator="\n")
    if not path.exists():
        table.writeheader()
    table.writerows(rows)
    with path.open("a", newline="") as stream:
        stream.write("".join(lines))


def versions() -> str:
    names = ("similia", "numpy", "scipy")
    return " ".join(
        [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
    )


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose columns have the wanted values, or values for which a function is true."""

    def fits(row: Row) -> bool:
        return all(
            value(row[name]) if isinstance(value, Callable) else row[name] == value
            for name, value in wanted.items()
        )

    return [row for row in rows if fits(row)]
