"""``similia compare``: several learners on the same feedback."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from similia.cli import inputs
from similia.cli import options as opt
from similia.cli.printing import duration

if TYPE_CHECKING:
    from similia.trust import Contestant

Learners = Annotated[
    list[str] | None,
    Option(
        "--learner",
        metavar="NAME[,PARAMETER=VALUE…]",
        help="A learner and its parameters; repeatable. Default: all that learn from "
        "triplets, or Blend if there are further views.",
    ),
]


@inputs.grouped
def compare(
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    feedback: opt.Feedback,
    learners: Learners = None,
    columns: opt.Columns = None,
    position: opt.Position = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    share: opt.Share = 0.25,
    seed: opt.Seed = 0,
    k: opt.Cuts = None,
    measures: opt.Measures = None,
    level: opt.Level = 0.95,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    as_json: opt.AsJson = False,
) -> None:
    """Teach and test several learners on the same judgements.

    The test is on held-out queries, as differences from the base, the similarity before learning.
    """
    inputs.check_files(sides, feedback)

    from similia.files import Source, spooled
    from similia.registry import DEFAULT, LEARNERS, learner_class
    from similia.retrieval.names import cut_offs
    from similia.trust import contest

    chosen = learners or [
        name
        for name in ([DEFAULT] if views else LEARNERS)
        if learner_class(name).learns_from == "triplets"
    ]
    contestants = dict(map(_learner, chosen))
    source = Source(feedback, inputs.named_columns(columns, position))
    with sides.read(views) as (X, Z, _), spooled(source) as path:
        base, *entries = contest(
            contestants,
            X,
            path,
            items=Z,
            share=share,
            seed=seed,
            k=cut_offs("--measure", measures, k or (1, 5, 10)),
            unjudged=unjudged.value,
            action=bad_rows.value,
        )
    rows = _rows(base, entries, level, measures)
    n, n_tests = base.evaluation.n_judged, sum(len(row["measures"]) for row in rows)
    if as_json:
        opt.print_json({"n_queries": n, "level": level, "n_tests": n_tests, "learners": rows})
    else:
        held = f"{100 * level:g} % intervals of the differences from the base hold for all together"
        opt.note(f"{n} held-out queries, {n_tests} tests; {held}; * is beyond chance.")
        _print(rows)


def _learner(text: str) -> tuple[str, Any]:
    """Name and new learner from NAME,SETTING=VALUE,…."""
    from similia.registry import new_learner

    name, *settings = text.split(",")
    learner = new_learner(name, dict(map(inputs.setting, settings)))
    return ",".join([type(learner).__name__, *settings]), learner


def _rows(
    base: "Contestant", entries: "list[Contestant]", level: float, measures: list[str] | None
) -> list[dict[str, Any]]:
    from similia.retrieval import compare_all
    from similia.retrieval.names import names_among
    from similia.trust.evaluation import plain

    names = names_among("--measure", measures, base.evaluation.per_query)
    evaluations = {entry.name: entry.evaluation for entry in entries}
    found = compare_all(evaluations, base.evaluation, names, level=level)
    return [
        {
            "learner": entry.name,
            "seconds": entry.seconds,
            "n": entry.tally.n,
            **entry.tally.accuracies(),
            "measures": {
                name: {
                    "base": {"mean": one.mean_b},
                    "adapted": {"mean": one.mean_a},
                    **plain(one, "adapted", "base"),
                }
                for name, one in found[entry.name].items()
            },
        }
        for entry in entries
    ]


def _print(entries: list[dict[str, Any]]) -> None:
    rows = []
    for measure, first in entries[0]["measures"].items():
        row = [measure, f"{first['base']['mean']:.4f}"]
        for entry in entries:
            found = entry["measures"][measure]
            low, high = found["interval"]
            star = "*" if found["better"] else " "
            row.append(f"{found['difference']:+.4f} ({low:+.3f} to {high:+.3f}){star}")
        rows.append(row)
    rows.append(["time", "", *(f"{duration(entry['seconds'])} " for entry in entries)])
    opt.print_table(["measure", "base", *(f"{entry['learner']} " for entry in entries)], rows)
