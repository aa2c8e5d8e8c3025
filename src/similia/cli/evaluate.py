"""``similia evaluate``: the base against the adapted similarity, on judgements."""

from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import (
    AsJson,
    BadLog,
    BadRowsOption,
    Cuts,
    Feedback,
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    Level,
    ModelPath,
    OnBadRow,
    VectorColumn,
    Vectors,
    bad_rows_of,
    check_files,
    counts_of,
    load_model,
    note,
    print_json,
    print_table,
    read_sides,
)

Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="What to compare with: cosine, inner_product, euclidean or another model's file; "
        "if not given, the learner before it learnt anything.",
    ),
]


def evaluate(
    model: ModelPath,
    vectors: Vectors,
    feedback: Feedback,
    items: Items = None,
    base: Base = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    k: Cuts = None,
    level: Level = 0.95,
    bad_rows: BadRowsOption = OnBadRow.stop,
    bad_log: BadLog = None,
    as_json: AsJson = False,
) -> None:
    """Compare a model with the similarity before learning: measures, intervals, paired test.

    Give judgements that the model has not learnt from. Columns query,item,relevance or row,label
    give all retrieval measures; query,better,worse and a,b,label the share in the right order.
    """
    check_files(vectors, feedback, items, ids, item_ids, outputs=(bad_log,))

    from similia.files import spooled
    from similia.stream.judged import evaluate_file

    adapted = load_model(model)
    with bad_rows_of(bad_rows, bad_log) as bad, spooled(feedback) as path:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        scorers = {"base": _base(base, adapted, X, Z), "adapted": adapted}
        found = evaluate_file(
            scorers, X, path, items=Z, k=k or (1, 5, 10), bad_rows=bad, verbose=True
        )
    results: dict[str, Any] = {
        "n_queries": found["base"].n_judged,
        "n_items": found["base"].n_items,
        "bad_rows": counts_of(bad),
        "level": level,
        "measures": compared(found["base"], found["adapted"], level),
    }
    if as_json:
        print_json(results)
        return
    note(f"{results['n_queries']} queries, {results['n_items']} items.")
    print_measures(results["measures"], "adapted", level)


def _base(name: str | None, adapted: Any, X: Any, Z: Any) -> Any:
    from similia.retrieval.scorers import PLAIN_SCORERS
    from similia.stream.base_scorer import base_of

    if name is None:
        return base_of(adapted, X.X, Z and Z.X)
    return name if name in PLAIN_SCORERS else load_model(Path(name))


def compared(base: Any, other: Any, level: float) -> dict[str, Any]:
    """Give each measure of both with intervals, and the paired comparison."""
    from similia.retrieval import compare

    results = {}
    for measure in base.per_query:
        pair = compare(other, base, measure, level=level)
        results[measure] = {
            "base": {"mean": pair.mean_b, "interval": list(base.interval(measure, level))},
            "adapted": {"mean": pair.mean_a, "interval": list(other.interval(measure, level))},
            "difference": pair.difference,
            "interval": list(pair.interval),
            "p_value": pair.p_value,
            "wins": pair.wins,
            "ties": pair.ties,
            "losses": pair.losses,
            "better": {"a": "adapted", "b": "base", None: None}[pair.better],
        }
    return results


def print_measures(measures: dict[str, Any], name: str, level: float) -> None:
    """Print the base beside the other, measure by measure, and a sentence."""
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
    header = ["measure", "base", name, "difference", f"{100 * level:g} % interval", "p", "+/=/-"]
    print_table(header, rows)
    typer.echo(verdict(measures, name))


def verdict(measures: dict[str, Any], name: str) -> str:
    """Say in a sentence what the paired tests say."""
    better = [m for m, found in measures.items() if found["better"] == "adapted"]
    worse = [m for m, found in measures.items() if found["better"] == "base"]
    if not better and not worse:
        return f"The base is as good: no difference of {name} is beyond chance."
    parts = [f"better in {', '.join(better)}"] if better else []
    parts += [f"worse in {', '.join(worse)}"] if worse else []
    return f"Beyond chance, {name} is {' and '.join(parts)}."


def _with_interval(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['mean']:.4f} ({low:.3f}–{high:.3f})"
