"""``similia suggest``: the comparisons to ask a person about next."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import (
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    ModelPath,
    Seed,
    VectorColumn,
    Vectors,
    load_model,
    read_sides,
)


class Form(StrEnum):
    """How rows are printed."""

    csv = "csv"
    jsonl = "jsonl"


Count = Annotated[int, typer.Option("--n", "-n", min=1, help="How many comparisons.")]
Queries = Annotated[
    Path | None,
    typer.Option("--queries", help="Ids of the queries to ask about, one a line; any if none."),
]
Candidates = Annotated[
    int, typer.Option("--candidates", min=1, help="Comparisons to choose from, drawn at random.")
]
Depth = Annotated[
    int, typer.Option("--depth", min=2, help="Compare items among so many best of a query.")
]
FormOption = Annotated[Form, typer.Option("--format", help="CSV or JSON lines.")]


def suggest(
    model: ModelPath,
    vectors: Vectors,
    items: Items = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    n: Count = 10,
    queries: Queries = None,
    candidates: Candidates = 2000,
    depth: Depth = 20,
    seed: Seed = 0,
    form: FormOption = Form.csv,
) -> None:
    """Print the comparisons whose answers would teach the model most, the best first.

    Each is a query and two items, in the order that the model believes in, with the gap of their
    scores and its standard deviation. Swap the items where the order is wrong, and learn from it.
    Needs a learner that knows how sure it is.
    """
    import numpy as np

    from similia.stream.questions import candidate_questions

    learner = load_model(model)
    if not hasattr(learner, "suggest"):
        raise ValueError(
            f"{model} is a {type(learner).__name__}, which does not know how sure it is; "
            f"learn one that does: {', '.join(_sure())}."
        )
    X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column))
    asked = None
    if queries is not None:
        asked = _rows(queries, X.ids)
    pool = candidate_questions(
        learner,
        X.X,
        max(candidates, n),
        items=Z and Z.X,
        queries=asked,
        depth=depth,
        random_state=seed,
    )
    chosen = pool[learner.suggest(X.X, pool, min(n, len(pool)), items=Z and Z.X)]
    scores, std = learner.triplet_scores(X.X, chosen, items=Z and Z.X, return_std=True)
    swapped = scores < 0
    chosen[swapped, 1:] = chosen[swapped, :0:-1]
    _print(chosen, np.abs(scores), std, X.ids, (Z or X).ids, form)


def _rows(path: Path, ids: Any) -> Any:
    """Give the rows of the queries whose ids are in a file."""
    import numpy as np

    from similia.files.bad_rows import RowError
    from similia.files.vectors import read_ids

    try:
        rows = [ids.row(value) for value in read_ids(path).tolist()]
    except RowError as error:
        raise ValueError(f"{path}: {error}.") from None
    if not rows:
        raise ValueError(f"{path}: queries must be at least one, got none.")
    return np.array(rows)


def _sure() -> list[str]:
    from similia.registry import LEARNERS, learner_class

    return [name for name in LEARNERS if hasattr(learner_class(name), "suggest")]


def _print(chosen: Any, scores: Any, std: Any, ids: Any, items: Any, form: Form) -> None:
    import csv
    import io
    import json

    names = ["query", "better", "worse", "score", "std"]
    columns = [ids.names(chosen[:, 0]), items.names(chosen[:, 1]), items.names(chosen[:, 2])]
    rows = list(zip(*columns, scores.tolist(), std.tolist(), strict=True))
    if form is Form.jsonl:
        for row in rows:
            typer.echo(json.dumps(dict(zip(names, row, strict=True))))
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([names, *([*row[:3], f"{row[3]:.6g}", f"{row[4]:.6g}"] for row in rows)])
    typer.echo(text.getvalue(), nl=False)
