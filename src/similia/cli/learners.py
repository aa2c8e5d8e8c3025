"""``similia learners``: what there is to choose from."""

import typer

from similia.cli.options import AsJson, print_fields, print_json


def learners(as_json: AsJson = False) -> None:
    """List the learners."""
    import inspect

    from similia.registry import ALL_LEARNERS, learner_class

    documents = {name: inspect.getdoc(learner_class(name)) or "" for name in ALL_LEARNERS}
    lines = {name: document.split("\n")[0] for name, document in documents.items()}
    if as_json:
        print_json([{"name": name, "description": line} for name, line in lines.items()])
    else:
        print_fields(lines)
        typer.echo(
            "\nParameters of each: python -c 'import similia; help(similia.OASIS)'", err=True
        )
