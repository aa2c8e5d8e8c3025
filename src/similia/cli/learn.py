"""``similia learn``: a model from vectors and judgements in files."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from similia.cli import inputs
from similia.cli import options as opt

Output = Annotated[Path, Option("--output", "-o", help="Where to save the model.")]
Start = Annotated[
    Path | None, Option("--from", help="Continue from this saved model, with its own parameters.")
]
Chunk = Annotated[
    int,
    Option(
        "--chunk",
        min=1,
        help="Judgements that are scored, then learnt, at a time.",
        rich_help_panel="Long runs",
    ),
]
ScoreAll = Annotated[
    bool,
    Option(
        "--score-all",
        help="Score every judgement before it is learnt, not just one in eight after the first "
        "512.",
        rich_help_panel="Long runs",
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    Option(
        "--checkpoint",
        help="Folder for the state of an unfinished run.",
        rich_help_panel="Long runs",
    ),
]
Every = Annotated[
    int,
    Option(
        "--every",
        min=1,
        help="Judgements between two checkpoints, at least.",
        rich_help_panel="Long runs",
    ),
]
Resume = Annotated[
    bool,
    Option(
        "--resume",
        help="Continue from the checkpoint, if any; the result is the same.",
        rich_help_panel="Long runs",
    ),
]

ExecutorName = Annotated[
    str | None,
    Option(
        "--executor",
        help="Learn in shares, side by side: processes:4, dask://HOST:PORT or ray://HOST:PORT.",
        rich_help_panel="Many workers",
    ),
]
Shares = Annotated[
    int | None,
    Option(
        "--shares",
        min=1,
        help="Shares for --executor; the result depends on them alone. [8]",
        rich_help_panel="Many workers",
    ),
]
Work = Annotated[
    Path | None,
    Option(
        "--work",
        help="Folder of --executor that all workers find; it is kept. Default: next to the model, "
        "until that is saved.",
        rich_help_panel="Many workers",
    ),
]

HeldOut = Annotated[
    Path | None,
    Option(
        "--held-out",
        help="Judgements of other queries: with --executor, what is merged is refused if one of "
        "its parts proves better on them.",
        rich_help_panel="Many workers",
    ),
]


@inputs.grouped
def learn(
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    feedback: opt.Feedback,
    output: Output,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    start: Start = None,
    columns: opt.Columns = None,
    position: opt.Position = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    clicks: opt.ClicksOption = opt.ClickRule.clicked,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    checkpoint: CheckpointFolder = None,
    every: Every = 100_000,
    resume: Resume = False,
    chunk: Chunk = 2048,
    score_all: ScoreAll = False,
    executor: ExecutorName = None,
    shares: Shares = None,
    work: Work = None,
    held_out: HeldOut = None,
    as_json: opt.AsJson = False,
) -> None:
    """Learn from judgements, scoring each first, and save the model."""
    if start is not None and (learner or settings):
        raise typer.BadParameter("--from keeps the saved learner; leave out --learner and --set.")
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint.")
    if executor is None and (shares or work or held_out):
        raise typer.BadParameter("--shares, --work and --held-out need --executor.")
    if executor is not None and (checkpoint or views):
        raise typer.BadParameter(
            "--executor needs no --checkpoint, as finished shares are kept, and takes no views."
        )
    inputs.check_files(sides, feedback, outputs=(output, bad_log))
    if executor is not None:
        folder = Path(f"{output}.work") if work is None else work
        sides, feedback = sides.fetched(folder), inputs.fetched(feedback, folder)
    values = dict(map(inputs.setting, settings or []))
    names = inputs.named_columns(columns, position)

    from similia.files import Source
    from similia.registry import DEFAULT, new_learner
    from similia.stream import learn_file

    if start is None:
        model = new_learner(learner or DEFAULT, values)
    else:
        from similia.persistence import load

        model = load(start)
    with sides.read(views, bad_rows, bad_log) as (X, Z, bad):
        source = Source(feedback, names)
        options: dict[str, Any] = {
            "output": output,
            "unjudged": unjudged.value,
            "clicks": clicks.value,
            "bad_rows": bad,
            "chunk": chunk,
            "score_all": score_all,
            "verbose": sys.stderr.isatty(),
        }
        if executor is not None:
            from similia.distributed import learn_shares

            vectors, items = sides.paths()
            found = learn_shares(
                model,
                vectors,
                source,
                items=items,
                executor=executor,
                shares=shares or 8,
                work=work,
                held_out=held_out,
                **options,
            )
        else:
            options |= {"checkpoint": checkpoint, "every": every, "resume": resume}
            found = learn_file(model, X, source, items=Z, **options)
    if as_json:
        opt.print_json({**found.to_dict(), "output": str(output)})
    else:
        opt.print_fields({**found.in_words(), "output": output})
