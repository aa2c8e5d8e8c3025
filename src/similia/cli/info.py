"""``similia info``: what a model file contains."""

from pathlib import Path

import typer

from similia.cli.options import AsJson, ModelPath, print_fields, print_json


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a saved model or index is, from its header; of a folder, its generations."""
    if (model / "history.json").exists():
        _generations(model, as_json)
        return
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


def _generations(folder: Path, as_json: bool) -> None:
    from similia.trust import Promotion

    promotion = Promotion(folder)
    if as_json:
        print_json({"current": promotion.current, "history": promotion.history})
        return
    typer.echo(
        f"generation {promotion.current} is in use" + (" (the base)" * (not promotion.current))
    )
    for event in promotion.history:
        typer.echo(
            f"  {event['time']}  {event['event']:<9}  {event['from']} -> {event['to']}  "
            f"{event.get('reason', '')}".rstrip()
        )
