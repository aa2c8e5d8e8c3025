"""``similia evaluate``: the base against the adapted similarity, on judgements."""

from typing import Annotated, Any

import typer
from typer import Option

from similia.cli import options as opt

Base = Annotated[
    str | None,
    Option(
        "--base",
        help="What to compare with: cosine, inner_product, euclidean or the file of another model. "
        "Default: the learner before it learnt anything.",
    ),
]


@opt.grouped
def evaluate(
    model: opt.ModelPath,
    sides: opt.Sides,
    views: opt.FurtherViews,
    feedback: opt.Feedback,
    base: Base = None,
    columns: opt.Columns = None,
    k: opt.Cuts = None,
    level: opt.Level = 0.95,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare a model with the similarity before learning.

    Prints measures, intervals and paired tests on judgements that the model must not have learnt
    from. Columns query,item,relevance or row,label yield all retrieval measures; query,better,worse
    and a,b,label the share in the right order.
    """
    sides.check(feedback, outputs=(bad_log,))

    from similia.files import spooled
    from similia.stream import evaluate_model

    adapted = opt.load_model(model)
    source = opt.source(feedback, columns)
    with sides.read(views, bad_rows, bad_log) as (X, Z, bad), spooled(source) as path:
        found = evaluate_model(
            adapted,
            X,
            path,
            items=Z,
            base=None if base is None else opt.base_named(base),
            k=k or (1, 5, 10),
            level=level,
            bad_rows=bad,
            verbose=True,
        ).to_dict()
    if as_json:
        opt.print_json({**found, "bad_rows": bad.to_dict()})
        return
    opt.note(
        f"{found['n_queries']} queries, {found['n_items']} items; intervals of differences and p "
        f"hold for all {found['n_tests']} measures together."
    )
    _print(found["measures"], level)


def _print(measures: dict[str, Any], level: float) -> None:
    header = ["measure", "base", "adapted", "difference", f"{100 * level:g} % interval", "p"]
    rows = []
    for measure, found in measures.items():
        low, high = found["interval"]
        rows.append(
            [
                measure,
                _with_interval(found["base"]),
                _with_interval(found["adapted"]),
                f"{found['difference']:+.4f}",
                f"{low:+.4f} to {high:+.4f}",
                f"{found['p_value']:.2g}",
                f"{found['wins']}/{found['ties']}/{found['losses']}",
            ]
        )
    opt.print_table([*header, "+/=/-"], rows)
    better = [m for m, found in measures.items() if found["better"] == "adapted"]
    worse = [m for m, found in measures.items() if found["better"] == "base"]
    parts = [f"better in {', '.join(better)}"] if better else []
    parts += [f"worse in {', '.join(worse)}"] if worse else []
    if parts:
        typer.echo(f"Beyond chance, adapted is {' and '.join(parts)}.")
    else:
        typer.echo("The base is as good: no difference is beyond chance.")


def _with_interval(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['mean']:.4f} ({low:.3f}–{high:.3f})"
