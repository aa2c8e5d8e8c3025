"""``similia split``, ``promote`` and ``rollback``: use what was learnt only if it is better."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from similia.cli.learn import Learner, Settings
from similia.cli.options import (
    AsJson,
    BadLog,
    BadRowsOption,
    Feedback,
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    Level,
    OnBadRow,
    Unjudged,
    UnjudgedOption,
    VectorColumn,
    Vectors,
    bad_rows_of,
    check_files,
    counts_of,
    load_model,
    new_learner,
    print_fields,
    print_json,
    read_sides,
    setting,
)

if TYPE_CHECKING:
    from similia.trust import Outcome

#: exit code of `promote` if the champion stays
NOT_PROMOTED = 4


class Kind(StrEnum):
    """Kind of judgement in a matrix, whose columns have no names."""

    triplets = "triplets"
    pairs = "pairs"
    grades = "grades"


Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Home of the generations and their history.")
]
Continue = Annotated[
    bool,
    typer.Option("--continue", help="Continue from a copy of the champion, not a new learner."),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        help="Judge this saved model instead of learning one. It must have learnt from what "
        "`similia split` wrote of the same feedback, and from nothing else.",
    ),
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        help="Similarity before any learning: cosine, inner_product, euclidean or a saved model.",
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        "--hold-out",
        min=0.01,
        max=0.99,
        help="Share of queries to judge on; by default that of the recorded split, else 0.3.",
    ),
]
SplitSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Seed of everything random; by default that of the recorded split, else 0.",
    ),
]
Measure = Annotated[
    str | None,
    typer.Option(
        "--measure",
        help="Measure that decides, such as ndcg@10, for query,item,relevance with --items. "
        "Otherwise the share of held-out judgements in the right order.",
    ),
]
To = Annotated[
    int | None,
    typer.Option("--to", min=0, help="A generation, 0 for the base; by default the one before."),
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="Where to write the judgements to learn from."),
]
KindOption = Annotated[
    Kind | None,
    typer.Option("--kind", help="What a .npy matrix holds; other files tell by their columns."),
]


def split(
    folder: Folder,
    vectors: Vectors,
    feedback: Feedback,
    output: Output,
    items: Items = None,
    share: Share = None,
    seed: SplitSeed = None,
    kind: KindOption = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    bad_rows: BadRowsOption = OnBadRow.stop,
    bad_log: BadLog = None,
    as_json: AsJson = False,
) -> None:
    """Hold out some queries for `similia promote --model`; write the rest to learn from.

    The split is recorded in FOLDER. The output has the rows of FEEDBACK that are not held out,
    unchanged and in the same format: learn from them with `similia learn` or any other way.
    """
    check_files(vectors, feedback, items, ids, item_ids, outputs=(output, bad_log))

    from similia.files import spooled
    from similia.stream import split_file
    from similia.trust import Promotion

    promotion = Promotion(folder, share=share, seed=seed)
    with bad_rows_of(bad_rows, bad_log) as bad, spooled(feedback) as path:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        found = split_file(promotion, X, path, output, items=Z, kind=kind, bad_rows=bad)
    if as_json:
        figures = {**found.split._asdict(), "n_learning": found.n_learning, "output": str(output)}
        print_json({**figures, "bad_rows": counts_of(bad)})
    else:
        typer.echo(f"{found.split} {found.n_learning} judgements to learn from: {output}")


def promote(
    folder: Folder,
    vectors: Vectors,
    feedback: Feedback,
    learner: Learner = None,
    settings: Settings = None,
    go_on: Continue = False,
    model: Model = None,
    items: Items = None,
    base: Base = "cosine",
    share: Share = None,
    level: Level = 0.95,
    measure: Measure = None,
    unjudged: UnjudgedOption = Unjudged.ignore,
    seed: SplitSeed = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    bad_rows: BadRowsOption = OnBadRow.stop,
    bad_log: BadLog = None,
    as_json: AsJson = False,
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
    check_files(vectors, feedback, items, ids, item_ids, outputs=(bad_log,))

    from similia.retrieval.scorers import PLAIN_SCORERS
    from similia.stream import promote_file
    from similia.trust import Promotion

    start = base if base in PLAIN_SCORERS else load_model(Path(base))
    promotion = Promotion(folder, base=start, share=share, level=level, seed=seed)
    if model is not None:
        challenger = load_model(model)
    elif go_on and promotion.current:
        challenger = promotion.champion()
    else:
        challenger = new_learner(learner or "FactoredAROMA", dict(map(setting, settings or [])))
    with bad_rows_of(bad_rows, bad_log) as bad:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
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
        print_json({**outcome.to_dict(), "bad_rows": counts_of(bad)})
    else:
        _print(outcome)
    if not outcome.promoted:
        raise typer.Exit(NOT_PROMOTED)


def _print(outcome: "Outcome") -> None:
    means = outcome.figures
    comparisons = {"champion": outcome.against_champion, "base": outcome.against_base}
    typer.echo(outcome.reason)
    print_fields(
        {
            "measure": f"{outcome.measure} on {outcome.n_queries} held-out queries",
            "base": f"{means['base']:.4f}",
            "champion": f"{means['champion']:.4f}  (generation {outcome.champion})",
            "challenger": f"{means['challenger']:.4f}",
            **{
                f"against {name}": f"{found.difference:+.4f} ({found.interval[0]:+.4f} to "
                f"{found.interval[1]:+.4f}), p = {found.p_value:.2g}"
                for name, found in comparisons.items()
            },
            "learnt from": f"{outcome.n_learnt} judgements",
            "in use": f"generation {outcome.generation}",
        }
    )


def rollback(folder: Folder, to: To = None, as_json: AsJson = False) -> None:
    """Return to the generation before the current one, or to a given one."""
    from similia.trust import Promotion

    promotion = Promotion(folder)
    before = promotion.current
    now = promotion.rollback(to)
    if as_json:
        print_json({"from": before, "to": now})
    else:
        typer.echo(f"Generation {now} is in use; it replaces generation {before}.")
