"""``similia learn``: a model from vectors and judgements in files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from similia.cli import options as opt

if TYPE_CHECKING:
    from similia.stream import Learning

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


def learn(
    vectors: opt.Vectors,
    feedback: opt.Feedback,
    output: Output,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    items: opt.Items = None,
    start: Start = None,
    ids: opt.IdsFile = None,
    item_ids: opt.ItemIdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
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
    opt.check_files(vectors, feedback, items, ids, item_ids, outputs=(output, bad_log))
    values = dict(map(opt.setting, settings or []))

    from similia.persistence import load
    from similia.stream import learn_file

    model = load(start) if start else opt.new_learner(learner or "FactoredAROMA", values)
    with opt.bad_rows_of(bad_rows, bad_log) as bad:
        X, Z = opt.read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        found = learn_file(
            model,
            X,
            feedback,
            items=Z,
            output=output,
            unjudged=unjudged.value,
            bad_rows=bad,
            chunk=chunk,
            score_all=score_all,
            checkpoint=checkpoint,
            every=every,
            resume=resume,
            verbose=True,
        )
    if as_json:
        opt.print_json({**found.to_dict(), "output": str(output)})
    else:
        opt.print_fields({**_in_words(found), "output": output})


def _in_words(found: "Learning") -> dict[str, Any]:
    counts, bad, shares = found.feedback, found.bad_rows, found.tally.accuracies()
    if "n_distinct" in counts:
        examined = f" of the first {counts['n_examined']}" if "n_examined" in counts else ""
        feedback = (
            f"{counts['n']} judgements{examined and ';'}{examined}: {counts['n_queries']} queries, "
            f"{counts['n_duplicates']} duplicates, {counts['n_contradictions']} contradictions, "
            f"{counts['n_degenerate']} degenerate"
        )
    else:
        feedback = f"{counts['n']} labels of {counts['n_classes']} classes"
    fields = {"learner": type(found.model).__name__, "feedback": feedback}
    if shares:
        scored = f"of {shares['n_scored']} scored"
        fields["accuracy_at_start"] = (
            f"{shares['accuracy_at_start']:.4f}  (the model before this feedback, {scored})"
        )
        fields["progressive_accuracy"] = (
            f"{shares['progressive_accuracy']:.4f}  (each judgement before it was learnt, {scored})"
        )
    fields["n_updates"] = f"{found.tally.n_updates} steps changed the model"
    fields["n_seen"] = f"{found.model.n_seen_} judgements in all"
    if bad.n:
        reasons = ", ".join(f"{n} × {reason}" for reason, n in bad.counts.items())
        fields["bad_rows"] = f"{bad.n} skipped: {reasons}"
    return fields
