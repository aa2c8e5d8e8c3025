"""Options that several commands share, and how results are printed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that similia has saved.")]


def print_json(values: Any) -> None:
    """Print JSON on standard output."""
    typer.echo(json.dumps(values, indent=2))


def print_fields(fields: dict[str, Any], indent: str = "") -> None:
    """Print names and values, aligned."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        typer.echo(f"{indent}{name:<{width}}  {value}")


def note(text: str) -> None:
    """Say something on standard error that is not part of the result."""
    typer.echo(text, err=True)
