"""``similia learn``: a model from vectors and judgements in files."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import (
    AsJson,
    BadLog,
    BadRowsOption,
    Feedback,
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    OnBadRow,
    Unjudged,
    UnjudgedOption,
    VectorColumn,
    Vectors,
    bad_rows_of,
    check_files,
    counts_of,
    new_learner,
    print_fields,
    print_json,
    read_sides,
    setting,
)

Output = Annotated[Path, typer.Option("--output", "-o", help="Where to save the model.")]
Learner = Annotated[
    str | None,
    typer.Option("--learner", help="One of `similia learners`; FactoredAROMA if not given."),
]
Start = Annotated[
    Path | None, typer.Option("--from", help="Go on from this saved model, as it was set.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; repeatable."),
]
Chunk = Annotated[
    int, typer.Option("--chunk", min=1, help="Judgements that are scored, then learnt, at a time.")
]
ScoreAll = Annotated[
    bool,
    typer.Option(
        "--score-all",
        help="Score every judgement before it is learnt; else, after 512, one of eight.",
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="Folder that keeps the state meanwhile; gone at the end."),
]
Every = Annotated[
    int, typer.Option("--every", min=1, help="Judgements between two checkpoints, at least.")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from the checkpoint, if there is one: the result is the same."
    ),
]


def learn(
    vectors: Vectors,
    feedback: Feedback,
    output: Output,
    learner: Learner = None,
    settings: Settings = None,
    items: Items = None,
    start: Start = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    unjudged: UnjudgedOption = Unjudged.ignore,
    bad_rows: BadRowsOption = OnBadRow.stop,
    bad_log: BadLog = None,
    checkpoint: CheckpointFolder = None,
    every: Every = 100_000,
    resume: Resume = False,
    chunk: Chunk = 2048,
    score_all: ScoreAll = False,
    as_json: AsJson = False,
) -> None:
    """Learn from judgements, each scored before it is learnt, and save the model."""
    if start is not None and (learner or settings):
        raise typer.BadParameter("--from keeps the saved learner; leave out --learner and --set.")
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint.")
    check_files(vectors, feedback, items, ids, item_ids, outputs=(output, bad_log))
    values = dict(map(setting, settings or []))

    from similia.files import spooled
    from similia.persistence import load, save
    from similia.stream.checkpoint import Checkpoint

    model = new_learner(learner or "FactoredAROMA", values) if start is None else load(start)
    _check_output(output)
    with bad_rows_of(bad_rows, bad_log) as bad, _twice(feedback, model, spooled) as path:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        keeper = None
        if checkpoint is not None:
            task = _task(model, X, Z, feedback, start, chunk, score_all, unjudged)
            keeper = Checkpoint(checkpoint, task)
            if keeper.exists and not resume:
                raise ValueError(
                    f"{checkpoint} holds a checkpoint; add --resume to go on from it, or delete it."
                )
        options = {"chunk": chunk, "score_all": score_all, "checkpoint": keeper, "every": every}
        try:
            model, results = _learnt(model, X, Z, path, unjudged, bad, options)
        except KeyboardInterrupt:
            if keeper is None or not keeper.exists:
                raise
            raise KeyboardInterrupt(f"{checkpoint} is kept, add --resume to go on") from None
        results["bad_rows"] = counts_of(bad)
        save(model, output)
    if keeper is not None:
        keeper.remove()
    results["output"] = str(output)
    if as_json:
        print_json(results)
    else:
        print_fields(_in_words(results))


def _twice(path: Path, model: Any, spooled: Any) -> Any:
    """Classifiers read their feedback twice: first for the labels that will come."""
    from contextlib import nullcontext

    return spooled(path) if model.learns_from == "labels" else nullcontext(path)


def _check_output(path: Path) -> None:
    """Say before the work what would go wrong after it."""
    if path.is_dir():
        raise ValueError(f"save: path must be a file, got the folder {path}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"save: path must be a file, got the device or pipe {path}.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"save: the folder {path.parent} does not exist; make it first.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise PermissionError(f"save: the folder {path.parent} must be writable.")


def _task(
    model: Any,
    X: Any,
    Z: Any,
    feedback: Path,
    start: Any,
    chunk: int,
    score_all: bool,
    unjudged: Any,
) -> dict[str, Any]:
    """Give what must be the same for a checkpoint to be gone on from."""
    return {
        "learner": type(model).__name__,
        "parameters": {name: str(value) for name, value in model.get_params().items()},
        "from": None if start is None else [str(start), model.n_seen_],
        "vectors": [*X.X.shape, str(X.X.dtype)],
        "items": Z and [*Z.X.shape, str(Z.X.dtype)],
        "feedback": str(feedback),
        "unjudged": str(unjudged),
        "chunk": chunk,
        "score_all": score_all,
    }


def _learnt(
    model: Any, X: Any, Z: Any, path: Path, unjudged: Any, bad: Any, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    from similia.files import FeedbackFile, classes_in
    from similia.progress import live_progress
    from similia.stream.lessons import lessons_for
    from similia.stream.progressive import learn_stream
    from similia.stream.report import Witness

    classes = None
    if model.learns_from == "labels":
        classes = getattr(model, "classes_", None)
        classes = classes_in(path, X.ids) if classes is None else classes
    file = FeedbackFile(
        path,
        model.learns_from,
        X.ids,
        Z and Z.ids,
        classes=classes,
        bad_rows=bad,
        unjudged=unjudged.value,
    )
    witness, name = Witness(file), type(model).__name__
    lessons = lessons_for(model, X.X, Z and Z.X, classes)
    with live_progress(name, file.size) as show:

        def watch(tally: Any) -> None:
            show(file.position, _live(tally, bad))

        model, tally = learn_stream(
            model, lessons, witness, bad_rows=bad, source=str(path), watch=watch, **options
        )
    if not witness.n:
        advice = (
            "; no item is above another of the same query, try --unjudged worse"
            if file.layout and "relevance" in file.layout
            else ""
        )
        raise ValueError(f"{path}: feedback must be at least one judgement, got none{advice}.")
    return model, {
        "learner": name,
        "feedback": witness.report(),
        **tally.accuracies(),
        "n_updates": tally.n_updates,
        "n_seen": model.n_seen_,
        "curve": tally.points(),
    }


def _live(tally: Any, bad: Any) -> str:
    """Give what stands beside the bar."""
    found = tally.accuracies()
    words = [f"{tally.n:,} judgements"]
    if found:
        words.append(
            f"right before learning {found['progressive_accuracy']:.3f} "
            f"(at the start {found['accuracy_at_start']:.3f})"
        )
    if bad.n:
        words.append(f"{bad.n:,} bad rows")
    return ", ".join(words)


def _in_words(results: dict[str, Any]) -> dict[str, str]:
    counts, bad = results["feedback"], results["bad_rows"]
    if "n_distinct" in counts:
        examined = f" of the first {counts['n_examined']}" if "n_examined" in counts else ""
        feedback = (
            f"{counts['n']} judgements{examined and ';'}{examined}: {counts['n_queries']} queries, "
            f"{counts['n_duplicates']} duplicates, {counts['n_contradictions']} contradictions, "
            f"{counts['n_degenerate']} degenerate"
        )
    else:
        feedback = f"{counts['n']} labels of {counts['n_classes']} classes"
    scored = f"of {results.get('n_scored', 0)} scored"
    comments = {
        "accuracy_at_start": f"{{:.4f}}  (the model before this feedback, {scored})",
        "progressive_accuracy": f"{{:.4f}}  (each judgement before it was learnt, {scored})",
        "n_updates": "{} steps changed the model",
        "n_seen": "{} judgements in all",
    }
    reasons = ", ".join(f"{n} × {reason}" for reason, n in bad["by_reason"].items())
    return {
        "learner": results["learner"],
        "feedback": feedback,
        **{
            name: words.format(results[name]) for name, words in comments.items() if name in results
        },
        **({"bad_rows": f"{bad['n']} skipped: {reasons}"} if bad["n"] else {}),
        "output": results["output"],
    }
