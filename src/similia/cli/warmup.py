"""``similia warmup``: compile ahead."""

from typing import Annotated

import typer

from similia.cli.options import AsJson, note, print_json

Learners = Annotated[
    list[str] | None,
    typer.Option("--learner", help="One of `similia learners`; repeatable. All if none."),
]


def warmup(learners: Learners = None, as_json: AsJson = False) -> None:
    """Compile what learners need, so that no first judgement waits. The result is kept."""
    from similia.progress import progress
    from similia.registry import LEARNERS
    from similia.stream.warmup import FORMS, warm_up

    chosen = learners or list(LEARNERS)
    rows = []
    with progress("warmup", len(chosen) * len(FORMS)) as advance:
        for row in warm_up(chosen):
            rows.append(row)
            advance(1)
    if as_json:
        print_json(rows)
    else:
        seconds = sum(row["seconds"] for row in rows)
        typer.echo(f"{len(chosen)} learners are ready.")
        note(f"Done in {seconds:.1f} s.")
