"""``similia learn``: a model from vectors and judgements in files."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from similia.cli import inputs
from similia.cli import options as opt

Output = Annotated[
    Path | None,
    Option("--output", "-o", help="Where to save the model. Default: a new model.safetensors."),
]
Shown = Annotated[
    str | None,
    opt.judgement_option(
        "--shown",
        metavar="base:N",
        help="For clicks without what was shown: assume that people saw the best N of today's "
        "ranking. The model keeps this assumption.",
    ),
]
Start = Annotated[
    Path | None, Option("--from", help="Continue from this saved model, with its own parameters.")
]
Chunk = Annotated[
    int,
    opt.long_run_option(
        "--chunk", min=1, help="Judgements that are scored, then learnt, at a time."
    ),
]
ScoreAll = Annotated[
    bool,
    opt.long_run_option(
        "--score-all",
        help="Score every judgement before it is learnt, not just one in eight after the first "
        "512.",
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    opt.long_run_option("--checkpoint", help="Folder for the state of an unfinished run."),
]
Every = Annotated[
    int,
    opt.long_run_option("--every", min=1, help="Judgements between two checkpoints, at least."),
]
Resume = Annotated[
    bool,
    opt.long_run_option(
        "--resume", help="Continue from the checkpoint, if any; the result is the same."
    ),
]

ExecutorName = Annotated[
    str | None,
    opt.worker_option(
        "--executor",
        help="Learn in shares, side by side: processes:4, dask://HOST:PORT or ray://HOST:PORT.",
    ),
]
Shares = Annotated[
    int | None,
    opt.worker_option(
        "--shares", min=1, help="Shares for --executor; the result depends on them alone. [8]"
    ),
]
Work = Annotated[
    Path | None,
    opt.worker_option(
        "--work",
        help="Folder of --executor that all workers find; it is kept. Default: next to the model, "
        "until that is saved.",
    ),
]

HeldOut = Annotated[
    Path | None,
    opt.worker_option(
        "--held-out",
        help="Judgements of other queries: a merged model is refused if one of its parts proves "
        "better on them.",
    ),
]


@inputs.grouped
def learn(
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    feedback: opt.Feedback,
    output: Output = None,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    start: Start = None,
    columns: opt.Columns = None,
    position: opt.Position = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    clicks: opt.ClicksOption = opt.ClickRule.clicked,
    shown: Shown = None,
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
    if executor is not None and (checkpoint or views or shown):
        raise typer.BadParameter(
            "--executor needs no --checkpoint, as finished shares are kept, and takes no views and "
            "no --shown."
        )
    length = None if shown is None else _length(shown)
    if output is None:
        output = Path("model.safetensors")
        if output.exists():
            raise typer.BadParameter(f"{output} exists already; name another with --output.")
    inputs.check_files(sides, feedback, outputs=(output, bad_log))
    if executor is not None:
        folder = Path(f"{output}.work") if work is None else work
        sides, feedback = sides.fetched(folder), inputs.fetched(feedback, folder)
    values = dict(map(inputs.setting, settings or []))
    names = inputs.named_columns(columns, position)

    layout = None
    if start is None and learner in (None, "Blend") and not views and executor is None:
        layout = sides.layout()

    from similia.files import Source
    from similia.registry import DEFAULT, new_learner
    from similia.stream import learn_file

    if start is None:
        model = new_learner(learner or DEFAULT, values)
    else:
        from similia.persistence import load

        model = load(start)
        layout = model.layout_
    source = Source(feedback, names)
    with sides.read(views, bad_rows, bad_log, feedback=source, layout=layout) as (X, Z, bad):
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
            options["shown"] = length
            found = learn_file(model, X, source, items=Z, **options)
    if as_json:
        opt.print_json({**found.to_dict(), "output": str(output)})
    else:
        opt.print_fields({**found.in_words(), "output": output})


def _length(shown: str) -> int:
    """Parse base:N."""
    base, colon, n = shown.partition(":")
    if base != "base" or not colon or not n.isdigit() or not 1 <= int(n) <= 1000:
        raise typer.BadParameter(f"--shown must be base:N, with N from 1 to 1000, got {shown!r}.")
    return int(n)
