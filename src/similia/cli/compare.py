"""``similia compare``: several learners on the same feedback."""

from typing import Annotated, Any

import typer

from similia.cli.evaluate import compared
from similia.cli.options import (
    AsJson,
    BadRowsOption,
    Cuts,
    Feedback,
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    Level,
    OnBadRow,
    Seed,
    Unjudged,
    UnjudgedOption,
    VectorColumn,
    Vectors,
    check_files,
    new_learner,
    note,
    print_json,
    print_table,
    read_sides,
    setting,
)

Learners = Annotated[
    list[str] | None,
    typer.Option(
        "--learner",
        metavar="NAME[,PARAMETER=VALUE…]",
        help="A learner and how it is set; repeatable. All that learn from triplets if none.",
    ),
]
Share = Annotated[
    float, typer.Option("--hold-out", min=0.01, max=0.99, help="Share of queries to test on.")
]
Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", help="A measure to show, such as ndcg@10; repeatable. All if none."),
]


def compare(
    vectors: Vectors,
    feedback: Feedback,
    learners: Learners = None,
    items: Items = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    unjudged: UnjudgedOption = Unjudged.ignore,
    share: Share = 0.25,
    seed: Seed = 0,
    k: Cuts = None,
    measures: Measures = None,
    level: Level = 0.95,
    bad_rows: BadRowsOption = OnBadRow.stop,
    as_json: AsJson = False,
) -> None:
    """Teach several learners the same judgements; test them on queries that were held out.

    The base, which is the similarity before learning, stands beside them.
    """
    check_files(vectors, feedback, items)

    from similia.files import spooled
    from similia.registry import LEARNERS, learner_class
    from similia.stream.contest import contest

    chosen = learners or [n for n in LEARNERS if learner_class(n).learns_from == "triplets"]
    contestants = {text: _learner(text) for text in chosen}
    X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column))
    with spooled(feedback) as path:
        base, *entries = contest(
            contestants,
            X,
            path,
            items=Z,
            share=share,
            seed=seed,
            k=k or (1, 5, 10),
            unjudged=unjudged.value,
            action=bad_rows.value,
        )
    results = {
        "n_queries": base.evaluation.n_judged,
        "level": level,
        "learners": [_row(base, entry, level, measures) for entry in entries],
    }
    if as_json:
        print_json(results)
    else:
        _print(results)


def _learner(text: str) -> Any:
    name, *settings = text.split(",")
    return new_learner(name, dict(map(setting, settings)))


def _row(base: Any, entry: Any, level: float, measures: list[str] | None) -> dict[str, Any]:
    found = compared(base.evaluation, entry.evaluation, level)
    unknown = sorted(set(measures or []) - set(found))
    if unknown:
        raise ValueError(f"--measure must be one of {', '.join(found)}, got {unknown[0]}.")
    return {
        "learner": entry.name,
        "seconds": entry.seconds,
        "n": entry.tally.n,
        **entry.tally.accuracies(),
        "measures": {name: found[name] for name in measures or found},
    }


def _print(results: dict[str, Any]) -> None:
    entries = results["learners"]
    note(f"{results['n_queries']} queries were held out; * beyond chance against the base.")
    rows = []
    for measure in entries[0]["measures"]:
        row = [measure, f"{entries[0]['measures'][measure]['base']['mean']:.4f} "]
        for entry in entries:
            found = entry["measures"][measure]
            row.append(f"{found['adapted']['mean']:.4f}{'*' if found['better'] else ' '}")
        rows.append(row)
    rows.append(["seconds", "", *(f"{entry['seconds']:.1f} " for entry in entries)])
    print_table(["measure", "base ", *(f"{entry['learner']} " for entry in entries)], rows)
