"""``similia learners``: what there is to choose from."""

import typer

from similia.cli.options import AsJson, print_fields, print_json


def learners(as_json: AsJson = False) -> None:
    """List the learners."""
    import inspect

    from similia.registry import LEARNERS, learner_class

    lines = {name: (inspect.getdoc(learner_class(name)) or "").split("\n")[0] for name in LEARNERS}
    if as_json:
        print_json([{"name": name, "description": line} for name, line in lines.items()])
    else:
        print_fields(lines)
        typer.echo(
            "\nParameters of each: python -c 'import similia; help(similia.OASIS)'", err=True
        )
