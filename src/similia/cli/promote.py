"""``similia split``, ``promote`` and ``rollback``: use what was learnt only if it is better."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from similia.cli import options as opt

if TYPE_CHECKING:
    from similia.trust import Outcome

#: exit code of `promote` if the champion stays
NOT_PROMOTED = 4


Folder = Annotated[
    Path, Argument(metavar="FOLDER", help="Home of the generations and their history.")
]
Continue = Annotated[
    bool, Option("--continue", help="Continue from a copy of the champion, not a new learner.")
]
Model = Annotated[
    Path | None,
    Option(
        "--model",
        help="Judge this saved model instead of learning one. It must have learnt from what "
        "`similia split` wrote of the same feedback, and from nothing else.",
    ),
]
Base = Annotated[
    str,
    Option(
        "--base",
        help="Similarity before any learning: cosine, inner_product, euclidean or a saved model.",
    ),
]
Share = Annotated[
    float | None,
    Option(
        "--hold-out",
        min=0.01,
        max=0.99,
        help="Share of queries to judge on; by default that of the recorded split, else 0.3.",
    ),
]
SplitSeed = Annotated[
    int | None,
    Option(
        "--seed",
        min=0,
        help="Seed of everything random; by default that of the recorded split, else 0.",
    ),
]
Measure = Annotated[
    str | None,
    Option(
        "--measure",
        help="Measure that decides, such as ndcg@10, for query,item,relevance with --items. "
        "Otherwise the share of held-out judgements in the right order.",
    ),
]
To = Annotated[
    int | None,
    Option("--to", min=0, help="A generation, 0 for the base; by default the one before."),
]
Output = Annotated[
    Path, Option("--output", "-o", help="Where to write the judgements to learn from.")
]
KindOption = Annotated[
    Literal["triplets", "pairs", "grades"] | None,
    Option("--kind", help="What a .npy matrix holds; other files tell by their columns."),
]


def split(
    folder: Folder,
    vectors: opt.Vectors,
    feedback: opt.Feedback,
    output: Output,
    items: opt.Items = None,
    share: Share = None,
    seed: SplitSeed = None,
    kind: KindOption = None,
    ids: opt.IdsFile = None,
    item_ids: opt.ItemIdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Hold out some queries for `similia promote --model`; write the rest to learn from.

    The split is recorded in FOLDER. The output has the rows of FEEDBACK that are not held out,
    unchanged and in the same format: learn from them with `similia learn` or any other way.
    """
    opt.check_files(vectors, feedback, items, ids, item_ids, outputs=(output, bad_log))

    from similia.files import spooled
    from similia.stream import split_file
    from similia.trust import Promotion

    promotion = Promotion(folder, share=share, seed=seed)
    with opt.bad_rows_of(bad_rows, bad_log) as bad, spooled(feedback) as path:
        X, Z = opt.read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        found, n_learning = split_file(promotion, X, path, output, items=Z, kind=kind, bad_rows=bad)
    if as_json:
        figures = {**found._asdict(), "n_learning": n_learning, "output": str(output)}
        opt.print_json({**figures, "bad_rows": bad.to_dict()})
    else:
        typer.echo(f"{found} {n_learning} judgements to learn from: {output}")


def promote(
    folder: Folder,
    vectors: opt.Vectors,
    feedback: opt.Feedback,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    go_on: Continue = False,
    model: Model = None,
    items: opt.Items = None,
    base: Base = "cosine",
    share: Share = None,
    level: opt.Level = 0.95,
    measure: Measure = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    seed: SplitSeed = None,
    ids: opt.IdsFile = None,
    item_ids: opt.ItemIdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Learn a challenger; let it replace what is in use only if it is better beyond chance.

    Judgements are split by query: the challenger learns from one side and is compared on the other
    with the champion and with the base. With --model the challenger is a model that was learnt
    elsewhere, judged on what `similia split` held out. Exit code 4 if the champion stays.
    """
    if go_on and (learner or settings):
        raise typer.BadParameter("--continue keeps the champion's learner and its parameters.")
    if model is not None and (learner or settings or go_on):
        raise typer.BadParameter("--model is learnt: leave out --learner, --set and --continue.")
    opt.check_files(vectors, feedback, items, ids, item_ids, outputs=(bad_log,))

    from similia.stream import promote_file
    from similia.trust import Promotion

    before = opt.base_named(base)
    promotion = Promotion(folder, base=before, share=share, level=level, seed=seed)
    if model is not None:
        challenger = opt.load_model(model)
    elif go_on and promotion.current:
        challenger = promotion.champion()
    else:
        values = dict(map(opt.setting, settings or []))
        challenger = opt.new_learner(learner or "FactoredAROMA", values)
    with opt.bad_rows_of(bad_rows, bad_log) as bad:
        X, Z = opt.read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        outcome = promote_file(
            promotion,
            challenger,
            X,
            feedback,
            items=Z,
            learnt=model is not None,
            measure=measure,
            unjudged=unjudged.value,
            bad_rows=bad,
        )
    if as_json:
        opt.print_json({**outcome.to_dict(), "bad_rows": bad.to_dict()})
    else:
        _print(outcome)
    if not outcome.promoted:
        raise typer.Exit(NOT_PROMOTED)


def _print(outcome: "Outcome") -> None:
    fields = {"measure": f"{outcome.measure} on {outcome.n_queries} held-out queries"}
    fields |= {name: f"{mean:.4f}" for name, mean in outcome.figures.items()}
    fields["champion"] += f"  (generation {outcome.champion})"
    for name, found in (("champion", outcome.against_champion), ("base", outcome.against_base)):
        low, high = found.interval
        interval = f"({low:+.4f} to {high:+.4f}), p = {found.p_value:.2g}"
        fields[f"against {name}"] = f"{found.difference:+.4f} {interval}"
    fields["learnt from"] = f"{outcome.n_learnt} judgements"
    fields["in use"] = f"generation {outcome.generation}"
    typer.echo(outcome.reason)
    opt.print_fields(fields)


def rollback(folder: Folder, to: To = None, as_json: opt.AsJson = False) -> None:
    """Return to the generation before the current one, or to a given one."""
    from similia.trust import Promotion

    promotion = Promotion(folder)
    before = promotion.current
    now = promotion.rollback(to)
    if as_json:
        opt.print_json({"from": before, "to": now})
    else:
        typer.echo(f"Generation {now} is in use; it replaces generation {before}.")
