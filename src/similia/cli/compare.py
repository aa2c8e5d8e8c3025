"""``similia compare``: several learners on the same feedback."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from similia.cli import options as opt

if TYPE_CHECKING:
    from similia.stream import Entry

Learners = Annotated[
    list[str] | None,
    Option(
        "--learner",
        metavar="NAME[,PARAMETER=VALUE…]",
        help="A learner and its parameters; repeatable. Default: all that learn from triplets.",
    ),
]
Measures = Annotated[
    list[str] | None,
    Option("--measure", help="A measure to show, such as ndcg@10; repeatable. Default: all."),
]


def compare(
    vectors: opt.Vectors,
    feedback: opt.Feedback,
    learners: Learners = None,
    items: opt.Items = None,
    ids: opt.IdsFile = None,
    item_ids: opt.ItemIdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    share: opt.Share = 0.25,
    seed: opt.Seed = 0,
    k: opt.Cuts = None,
    measures: Measures = None,
    level: opt.Level = 0.95,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    as_json: opt.AsJson = False,
) -> None:
    """Teach and test several learners on the same judgements.

    The test is on held-out queries. The base, the similarity before learning, is shown beside them.
    """
    opt.check_files(vectors, feedback, items)

    from similia.files import spooled
    from similia.registry import LEARNERS, learner_class
    from similia.stream import contest

    chosen = learners or [n for n in LEARNERS if learner_class(n).learns_from == "triplets"]
    contestants = {text: _learner(text) for text in chosen}
    sides = vectors, ids, items, item_ids, (vector_column, id_column)
    with opt.inputs(*sides) as (X, Z, _), spooled(feedback) as path:
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
    n, rows = base.evaluation.n_judged, [_row(base, e, level, measures) for e in entries]
    if as_json:
        opt.print_json({"n_queries": n, "level": level, "learners": rows})
    else:
        opt.note(f"{n} held-out queries; * marks a difference from the base beyond chance.")
        _print(rows)


def _learner(text: str) -> Any:
    name, *settings = text.split(",")
    from similia.registry import new_learner

    return new_learner(name, dict(map(opt.setting, settings)))


def _row(base: "Entry", entry: "Entry", level: float, measures: list[str] | None) -> dict[str, Any]:
    from similia.stream import Adaptation

    found = Adaptation(base.evaluation, entry.evaluation, level).to_dict()["measures"]
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


def _print(entries: list[dict[str, Any]]) -> None:
    rows = []
    for measure, first in entries[0]["measures"].items():
        row = [measure, f"{first['base']['mean']:.4f} "]
        for entry in entries:
            found = entry["measures"][measure]
            row.append(f"{found['adapted']['mean']:.4f}{'*' if found['better'] else ' '}")
        rows.append(row)
    rows.append(["seconds", "", *(f"{entry['seconds']:.1f} " for entry in entries)])
    opt.print_table(["measure", "base ", *(f"{entry['learner']} " for entry in entries)], rows)
