"""``similia info`` and ``similia learners``: what a file holds, and what there is to learn with."""

from pathlib import Path

import typer

from similia.cli import options as opt


def info(model: opt.ModelPath, as_json: opt.AsJson = False) -> None:
    """Describe a saved model or index, or a folder of generations."""
    if (model / "history.json").exists():
        _generations(model, as_json)
        return
    from similia.persistence import describe

    found = describe(model)
    if as_json:
        opt.print_json(found.to_dict())
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
        opt.print_fields(fields, "  ")


def _generations(folder: Path, as_json: bool) -> None:
    from similia.trust import Promotion

    promotion = Promotion(folder)
    if as_json:
        opt.print_json({"current": promotion.current, "history": promotion.history})
        return
    typer.echo(
        f"generation {promotion.current} is in use" + (" (the base)" * (not promotion.current))
    )
    for event in promotion.history:
        typer.echo(
            f"  {event['time']}  {event['event']:<9}  {event['from']} -> {event['to']}  "
            f"{event.get('reason', '')}".rstrip()
        )


def learners(as_json: opt.AsJson = False) -> None:
    """List the learners."""
    import inspect

    from similia.registry import ALL_LEARNERS, learner_class

    documents = {name: inspect.getdoc(learner_class(name)) or "" for name in ALL_LEARNERS}
    lines = {name: document.split("\n")[0] for name, document in documents.items()}
    if as_json:
        opt.print_json([{"name": name, "description": line} for name, line in lines.items()])
    else:
        opt.print_fields(lines)
        opt.note("\nParameters of each: python -c 'import similia; help(similia.OASIS)'")
