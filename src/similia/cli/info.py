"""``similia info``: what a model file contains."""

import typer

from similia.cli.options import AsJson, ModelPath, print_fields, print_json


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a saved model is, from its header alone."""
    from similia.persistence import describe

    found = describe(model)
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(f"{found.class_name}, format {found.format}")
    numbers = {n: v for n, v in found.attributes.items() if n not in found.tensors}
    for title, fields in (
        ("parameters", found.parameters),
        ("learnt", numbers),
        ("arrays", found.tensors),
        ("written with", found.versions),
    ):
        typer.echo(f"{title}:")
        print_fields(fields, "  ")
