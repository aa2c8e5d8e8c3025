"""``similia promote`` and ``similia rollback``: use what was learnt only if it is better."""

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
    Seed,
    Unjudged,
    UnjudgedOption,
    VectorColumn,
    Vectors,
    bad_rows_of,
    check_files,
    load_model,
    new_learner,
    print_fields,
    print_json,
    read_sides,
    setting,
)

#: exit code of `promote` where the champion stays
NOT_PROMOTED = 4

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where generations and their history are kept.")
]
Learner = Annotated[
    str | None,
    typer.Option("--learner", help="One of `similia learners`; FactoredAROMA if not given."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; repeatable."),
]
Continue = Annotated[
    bool,
    typer.Option("--continue", help="Let a copy of the champion go on, instead of a new learner."),
]
Base = Annotated[
    str,
    typer.Option(
        "--base", help="What is in use before: cosine, inner_product, euclidean or a model's file."
    ),
]
Share = Annotated[
    float, typer.Option("--hold-out", min=0.01, max=0.99, help="Share of queries to judge on.")
]
Level = Annotated[
    float, typer.Option("--level", min=0.5, max=0.9999, help="How strong evidence must be.")
]
Measure = Annotated[
    str | None,
    typer.Option(
        "--measure",
        help="Such as ndcg@10: what decides, for query,item,relevance with --items. Otherwise the "
        "share of held-out judgements in the right order.",
    ),
]
To = Annotated[
    int | None,
    typer.Option("--to", min=0, help="A generation, 0 for the base; the one before if not given."),
]


def promote(
    folder: Folder,
    vectors: Vectors,
    feedback: Feedback,
    learner: Learner = None,
    settings: Settings = None,
    go_on: Continue = False,
    items: Items = None,
    base: Base = "cosine",
    share: Share = 0.3,
    level: Level = 0.95,
    measure: Measure = None,
    unjudged: UnjudgedOption = Unjudged.ignore,
    seed: Seed = 0,
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
    with the champion and with the base. Exit code 4 says that the champion stays.
    """
    if go_on and (learner or settings):
        raise typer.BadParameter("--continue keeps the champion's learner and its parameters.")
    check_files(vectors, feedback, items, ids, item_ids, outputs=(bad_log,))

    from similia.files import spooled
    from similia.retrieval.scorers import PLAIN_SCORERS
    from similia.stream.promoting import promote_file
    from similia.trust import Promotion

    promotion = Promotion(
        folder,
        base=base if base in PLAIN_SCORERS else load_model(Path(base)),
        share=share,
        level=level,
        seed=seed,
    )
    if go_on and promotion.current:
        challenger = promotion.champion()
    else:
        challenger = new_learner(learner or "FactoredAROMA", dict(map(setting, settings or [])))
    with bad_rows_of(bad_rows, bad_log) as bad, spooled(feedback) as path:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        outcome = promote_file(
            promotion,
            challenger,
            X,
            path,
            items=Z,
            measure=measure,
            unjudged=unjudged.value,
            bad_rows=bad,
        )
    if as_json:
        print_json({**outcome.to_dict(), "bad_rows": bad.to_dict()})
    else:
        _print(outcome)
    if not outcome.promoted:
        raise typer.Exit(NOT_PROMOTED)


def _print(outcome: Any) -> None:
    found = outcome.to_dict()
    low, high = found["interval"]
    base_low, base_high = found["interval_to_base"]
    typer.echo(found["reason"])
    print_fields(
        {
            "measure": f"{found['measure']} on {found['n_queries']} held-out queries",
            "base": f"{found['base']:.4f}",
            "champion": f"{outcome.figures['champion']:.4f}  (generation {outcome.champion})",
            "challenger": f"{found['challenger']:.4f}",
            "against champion": f"{found['difference']:+.4f} ({low:+.4f} to {high:+.4f}), "
            f"p = {found['p_value']:.2g}",
            "against base": f"{found['difference_to_base']:+.4f} "
            f"({base_low:+.4f} to {base_high:+.4f}), p = {found['p_value_to_base']:.2g}",
            "learnt from": f"{found['n_learnt']} judgements",
            "in use": f"generation {found['generation']}",
        }
    )


def rollback(folder: Folder, to: To = None, as_json: AsJson = False) -> None:
    """Return to the generation before the current one, or to a given one."""
    from similia.trust import Promotion

    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no folder of generations.")
    promotion = Promotion(folder)
    before = promotion.current
    now = promotion.rollback(to)
    if as_json:
        print_json({"from": before, "to": now})
    else:
        typer.echo(f"Generation {now} is in use; before, {before} was.")
