"""How results are printed: JSON, tables and lines, and quantities in words."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import typer


class Form(StrEnum):
    """Format of printed rows."""

    csv = "csv"
    jsonl = "jsonl"


def printable(text: str) -> str:
    """Text with escapes for what a terminal would obey instead of showing."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line that may quote a file."""
    typer.echo(printable(text), err=err)


def print_json(values: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(values, indent=2))


def print_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values, aligned."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        typer.echo(printable(f"{indent}{name:<{width}}  {value}"))


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, the first to the left and the others to the right."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        say("  ".join([first, *others]).rstrip())


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], form: Form) -> None:
    """Print rows as CSV, floats to six digits and no formulas, or as JSON lines."""
    import csv

    from similia.files.rows import csv_text

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.6g}"
        text = csv_text(value) if isinstance(value, str) else f"{value}"
        return printable(text) if sys.stdout.isatty() else text

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if form is Form.csv:
        writer.writerow(names)
    for row in rows:
        if form is Form.csv:
            writer.writerow([cell(value) for value in row])
        else:
            sys.stdout.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


def note(text: str) -> None:
    """Print a remark that is not part of the result, on standard error."""
    say(text, err=True)


# -- words -------------------------------------------------------------------------------------


def counted(n: int, noun: str) -> str:
    """A number and a noun, in the plural unless there is one: "1 learner", "2 learners"."""
    return f"{n} {noun}{'s' * (n != 1)}"


def duration(seconds: float) -> str:
    """A time in the units that people would use: "85 ms", "2.4 s", "3 min 5 s", "2 h 4 min"."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
