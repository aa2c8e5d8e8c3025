"""Arguments and options that several commands share, and how results are printed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

VECTORS = (
    "Vectors: .npy, .npz (dense or scipy.sparse), .safetensors, .parquet, .arrow, .jsonl, "
    ".svmlight; - reads JSON lines."
)
FEEDBACK = (
    "Judgements: .csv, .jsonl, .parquet, .arrow or .npy; - reads CSV or JSON lines. Columns: "
    "query,better,worse or query,item,relevance; a,b,label; row,label. All but relevance and label "
    "are ids of vectors, or row numbers from 0 where vectors have no ids."
)


class OnBadRow(StrEnum):
    """What to do with a row that cannot be used."""

    stop = "stop"
    skip = "skip"


class Unjudged(StrEnum):
    """What an item without a grade means."""

    ignore = "ignore"
    worse = "worse"


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ModelPath = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A saved model, or a folder of `similia promote`."),
]
Vectors = Annotated[Path, typer.Argument(metavar="VECTORS", help=VECTORS)]
Feedback = Annotated[Path, typer.Argument(metavar="FEEDBACK", help=FEEDBACK)]
Items = Annotated[
    Path | None,
    typer.Option("--items", help="Vectors of the items, where queries are different things."),
]
IdsFile = Annotated[
    Path | None,
    typer.Option(
        "--ids", help="Ids of the vectors: a text, one a line, or .npy. Else those in the file."
    ),
]
ItemIdsFile = Annotated[Path | None, typer.Option("--item-ids", help="Ids of the items, likewise.")]
VectorColumn = Annotated[
    str | None, typer.Option("--vector-column", help="Name of the vectors in tables and JSON.")
]
IdColumn = Annotated[
    str | None, typer.Option("--id-column", help="Name of the ids in tables and JSON.")
]
BadRowsOption = Annotated[
    OnBadRow,
    typer.Option("--bad-rows", help="Stop at a row that cannot be used (code 3), or skip it."),
]
BadLog = Annotated[
    Path | None, typer.Option("--bad-log", help="Write every skipped row here, as JSON lines.")
]
UnjudgedOption = Annotated[
    Unjudged,
    typer.Option(
        "--unjudged",
        help="With query,item,relevance: whether items without a grade count as worse.",
    ),
]
Cuts = Annotated[
    list[int] | None,
    typer.Option("--k", "-k", min=1, help="Cut-off of measures; repeatable. 1, 5 and 10 if none."),
]
Level = Annotated[
    float, typer.Option("--level", min=0.5, max=0.9999, help="Level of intervals and of the test.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]


def print_json(values: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(values, indent=2))


def print_fields(fields: dict[str, Any], indent: str = "") -> None:
    """Print names and values, aligned."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        typer.echo(f"{indent}{name:<{width}}  {value}")


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, the first to the left and numbers to the right."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo("  ".join([first, *others]).rstrip())


def note(text: str) -> None:
    """Say something on standard error that is not part of the result."""
    typer.echo(text, err=True)


@contextmanager
def bad_rows_of(action: OnBadRow, log: Path | None = None) -> Iterator[Any]:
    """Give what handles bad rows, log all that are skipped, and name the first at the end."""
    from similia.files import BadRows

    if log is None:
        found = BadRows(action.value)
        yield found
    else:
        with open(log, "w", encoding="utf-8") as file:

            def tell(row: Any) -> None:
                file.write(json.dumps(row._asdict()) + "\n")

            found = BadRows(action.value, tell)
            yield found
    for row in found.first:
        note(f"skipped: {row}")
    if found.n > len(found.first):
        note(f"skipped: {found.n - len(found.first)} more.")


def load_model(path: Path, *, plain: bool = False) -> Any:
    """Load a model from its file, or the one in use from a folder of generations.

    Where the base is in use there is no model: None if the plain vectors will do, else an error.
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


def check_files(*inputs: Path | None, outputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse to read standard input twice, or to write over what is read."""
    given = [path for path in inputs if path is not None]
    if sum(str(path) == "-" for path in given) > 1:
        raise typer.BadParameter("only one input can be -, standard input.")
    for output in outputs:
        if output is not None and any(_same(output, path) for path in given):
            raise typer.BadParameter(f"{output} is an input, and would be written over.")


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def read_sides(
    vectors: Path,
    ids: Path | None,
    items: Path | None,
    item_ids: Path | None,
    columns: tuple[str | None, str | None],
    bad_rows: Any = None,
) -> tuple[Any, Any]:
    """Read the vectors, and those of the items if they are others (else None)."""
    from similia.files import read_vectors

    vector, name = columns
    found = [
        path
        and read_vectors(path, ids=given, vector_column=vector, id_column=name, bad_rows=bad_rows)
        for path, given in ((vectors, ids), (items, item_ids))
    ]
    return found[0], found[1]


def counts_of(bad_rows: Any) -> dict[str, Any]:
    """Give how many rows were skipped, and why, for results."""
    return {"n": bad_rows.n, "by_reason": dict(bad_rows.counts)}


def setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE: numbers, true, false and none are what they look like."""
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


def new_learner(name: str, values: dict[str, Any]) -> Any:
    """Give a learner with some parameters set."""
    from similia.registry import learner_class

    model = learner_class(name)()
    unknown = sorted(set(values) - set(model.get_params()))
    if unknown:
        raise ValueError(
            f"{name}: --set must name one of {', '.join(model.get_params())}, got {unknown[0]}."
        )
    return model.set_params(**values)
