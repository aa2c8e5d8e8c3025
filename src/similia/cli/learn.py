"""``similia learn``: a model from vectors and judgements in files."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from similia.cli import options as opt

Output = Annotated[Path, Option("--output", "-o", help="Where to save the model.")]
Start = Annotated[
    Path | None, Option("--from", help="Continue from this saved model, with its own parameters.")
]
Chunk = Annotated[
    int, Option("--chunk", min=1, help="Judgements that are scored, then learnt, at a time.")
]
ScoreAll = Annotated[
    bool,
    Option(
        "--score-all",
        help="Score every judgement before it is learnt, not just one in eight after the first "
        "512.",
    ),
]
CheckpointFolder = Annotated[
    Path | None, Option("--checkpoint", help="Folder for the state of an unfinished run.")
]
Every = Annotated[
    int, Option("--every", min=1, help="Judgements between two checkpoints, at least.")
]
Resume = Annotated[
    bool, Option("--resume", help="Continue from the checkpoint, if any; the result is the same.")
]


@opt.grouped
def learn(
    sides: opt.Sides,
    views: opt.FurtherViews,
    feedback: opt.Feedback,
    output: Output,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    start: Start = None,
    columns: opt.Columns = None,
    position: opt.Position = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    clicks: opt.ClicksOption = opt.Clicks.clicked,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    checkpoint: CheckpointFolder = None,
    every: Every = 100_000,
    resume: Resume = False,
    chunk: Chunk = 2048,
    score_all: ScoreAll = False,
    as_json: opt.AsJson = False,
) -> None:
    """Learn from judgements, scoring each first, and save the model."""
    if start is not None and (learner or settings):
        raise typer.BadParameter("--from keeps the saved learner; leave out --learner and --set.")
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint.")
    sides.check(feedback, outputs=(output, bad_log))
    values = dict(map(opt.setting, settings or []))

    from similia.persistence import load
    from similia.registry import DEFAULT, new_learner
    from similia.stream import learn_file

    source = opt.source(feedback, columns, position)
    model = load(start) if start else new_learner(learner or DEFAULT, values)
    with sides.read(views, bad_rows, bad_log) as (X, Z, bad):
        found = learn_file(
            model,
            X,
            source,
            items=Z,
            output=output,
            unjudged=unjudged.value,
            clicks=clicks.value,
            bad_rows=bad,
            chunk=chunk,
            score_all=score_all,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
            verbose=sys.stderr.isatty(),
        )
    if as_json:
        opt.print_json({**found.to_dict(), "output": str(output)})
    else:
        opt.print_fields({**found.in_words(), "output": output})
