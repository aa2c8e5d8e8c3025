"""``similia warmup``: compile ahead."""

from typing import Annotated

import typer

from similia.cli.options import AsJson, learner_names
from similia.cli.printing import counted, duration, note, print_json

Learners = Annotated[
    list[str] | None,
    typer.Option(
        "--learner",
        help="One of `similia learners`; repeatable. All if none.",
        autocompletion=learner_names,
    ),
]


def warmup(learners: Learners = None, as_json: AsJson = False) -> None:
    """Compile ahead, so that no command waits for it. The result is cached."""
    from similia.progress import progress
    from similia.registry import ALL_LEARNERS, learner_class
    from similia.stream.warmup import ROW_FORMS, warm_up

    chosen = [learner_class(name).__name__ for name in learners or ALL_LEARNERS]
    rows = []
    with progress("warmup", len(chosen) * len(ROW_FORMS)) as advance:
        for row in warm_up(chosen):
            rows.append(row)
            advance(1)
    if as_json:
        print_json(rows)
        return
    typer.echo(f"{counted(len(chosen), 'learner')} {'is' if len(chosen) == 1 else 'are'} ready.")
    note(f"Done in {duration(sum(row['seconds'] for row in rows))}.")
