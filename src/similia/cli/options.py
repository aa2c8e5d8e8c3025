"""Arguments and options that several commands share, and how results are printed."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from similia.files import BadRows, VectorFile

VECTORS = (
    "Vectors: .npy, .npz (dense or scipy.sparse), .safetensors, .parquet, .arrow, .jsonl or "
    ".svmlight; - reads JSON lines."
)
FEEDBACK = (
    "Judgements: .csv, .jsonl, .parquet, .arrow or .npy; - reads CSV or JSON lines. Columns: "
    "query,better,worse or query,item,relevance; a,b,label; row,label. All but relevance and label "
    "are ids of vectors, or row numbers from 0 if the vectors have no ids."
)


class OnBadRow(StrEnum):
    """What to do with an unusable row."""

    stop = "stop"
    skip = "skip"


class Unjudged(StrEnum):
    """Meaning of an item without a grade."""

    ignore = "ignore"
    worse = "worse"


class Form(StrEnum):
    """Format of printed rows."""

    csv = "csv"
    jsonl = "jsonl"


AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
ModelPath = Annotated[
    Path, Argument(metavar="MODEL", help="A saved model, or a folder of `similia promote`.")
]
Vectors = Annotated[Path, Argument(metavar="VECTORS", help=VECTORS)]
Feedback = Annotated[Path, Argument(metavar="FEEDBACK", help=FEEDBACK)]
Items = Annotated[
    Path | None, Option("--items", help="Vectors of the items, if they are not the queries.")
]
IdsFile = Annotated[
    Path | None,
    Option(
        "--ids", help="Ids of the vectors: text, one per line, or .npy. Default: those in the file."
    ),
]
ItemIdsFile = Annotated[Path | None, Option("--item-ids", help="Ids of the items, likewise.")]
VectorColumn = Annotated[
    str | None, Option("--vector-column", help="Column of the vectors in tables and JSON.")
]
IdColumn = Annotated[
    str | None, Option("--id-column", help="Column of the ids in tables and JSON.")
]
BadRowsOption = Annotated[
    OnBadRow, Option("--bad-rows", help="Stop at an unusable row (exit code 3), or skip it.")
]
BadLog = Annotated[
    Path | None, Option("--bad-log", help="Write every skipped row here, as JSON lines.")
]
UnjudgedOption = Annotated[
    Unjudged,
    Option(
        "--unjudged",
        help="For query,item,relevance: ignore items without a grade, or count them as worse.",
    ),
]
Learner = Annotated[
    str | None, Option("--learner", help="One of `similia learners`. Default: FactoredAROMA.")
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; repeatable."),
]
Cuts = Annotated[
    list[int] | None,
    Option("--k", "-k", min=1, help="Cut-off of measures; repeatable. Default: 1, 5, 10."),
]
Level = Annotated[
    float, Option("--level", min=0.5, max=0.9999, help="Level of the intervals and of the test.")
]
Share = Annotated[
    float, Option("--hold-out", min=0.01, max=0.99, help="Share of queries to test on.")
]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of everything random.")]
FormOption = Annotated[Form, Option("--format", help="CSV or JSON lines.")]

# -- parsing -----------------------------------------------------------------------------------


def check_files(*inputs: Path | None, outputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse to read standard input twice, or to overwrite an input."""
    given = [path for path in inputs if path is not None]
    if sum(str(path) == "-" for path in given) > 1:
        raise typer.BadParameter("only one input can be -, standard input.")
    for output in outputs:
        if output is None or not output.exists():
            continue
        if any(path.exists() and output.samefile(path) for path in given):
            raise typer.BadParameter(f"{output} is an input, and would be overwritten.")


def setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; numbers, true, false and none become such values."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--set must be NAME=VALUE, got {text!r}.")
    constants = {"true": True, "false": False, "none": None}
    if value.lower() in constants:
        return name, constants[value.lower()]
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value


def load_model(path: Path, *, plain: bool = False) -> Any:
    """Load a model from its file, or the one in use from a folder of generations.

    If the base is in use there is no model: return None if plain vectors will do, else raise.
    """
    from similia.persistence import load

    if not (path / "history.json").exists():
        return load(path)
    from similia.trust import Promotion

    promotion = Promotion(path)
    if promotion.current:
        return promotion.champion()
    if plain:
        return None
    raise ValueError(f"{path}: the base is in use, and no model; promote one first.")


def base_named(name: str) -> Any:
    """Base to compare with: the name of a plain similarity, or the model in a file."""
    from similia.retrieval.scorers import PLAIN_SCORERS

    return name if name in PLAIN_SCORERS else load_model(Path(name))


@contextmanager
def inputs(
    vectors: Path,
    ids: Path | None,
    items: Path | None,
    item_ids: Path | None,
    columns: tuple[str | None, str | None],
    action: OnBadRow = OnBadRow.stop,
    log: Path | None = None,
) -> "Iterator[tuple[VectorFile, VectorFile | None, BadRows]]":
    """Yield the vectors, those of the items if they are separate, and a policy for bad rows.

    Rows skipped are logged; the first ones are printed at the end.
    """
    from similia.files import BadRows, read_vectors

    options: dict[str, Any] = dict(zip(("vector_column", "id_column"), columns, strict=True))
    with open(log or os.devnull, "w", encoding="utf-8") as file:
        bad = BadRows(action.value, lambda row: print(json.dumps(row._asdict()), file=file))
        X = read_vectors(vectors, ids=ids, bad_rows=bad, **options)
        Z = read_vectors(items, ids=item_ids, bad_rows=bad, **options) if items else None
        yield X, Z, bad
    for row in bad.first:
        note(f"skipped: {row}")
    if bad.n > len(bad.first):
        note(f"skipped: {bad.n - len(bad.first)} more.")


# -- printing ----------------------------------------------------------------------------------


def print_json(values: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(values, indent=2))


def print_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values, aligned."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        typer.echo(f"{indent}{name:<{width}}  {value}")


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, the first to the left and the others to the right."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo("  ".join([first, *others]).rstrip())


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], form: Form) -> None:
    """Print rows as CSV, floats to six digits, or as JSON lines."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if form is Form.csv:
        writer.writerow(names)
    for row in rows:
        if form is Form.csv:
            writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in row])
        else:
            sys.stdout.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


def note(text: str) -> None:
    """Print a remark that is not part of the result, on standard error."""
    typer.echo(text, err=True)
