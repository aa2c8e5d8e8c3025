"""``similia index`` and ``similia search``: vectors that can be searched by what was learnt."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import (
    AsJson,
    IdColumn,
    IdsFile,
    VectorColumn,
    Vectors,
    check_files,
    load_model,
    note,
    print_json,
    setting,
)


class Backend(StrEnum):
    """Who searches."""

    exact = "exact"
    faiss = "faiss"
    usearch = "usearch"
    hnswlib = "hnswlib"


class Geometry(StrEnum):
    """What is near."""

    inner_product = "inner_product"
    l2 = "l2"


class Form(StrEnum):
    """How rows are printed."""

    csv = "csv"
    jsonl = "jsonl"


Output = Annotated[Path, typer.Option("--output", "-o", help="Where to save the index.")]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model",
        help="A saved model, or a folder of `similia promote`. To build, only metrics need it.",
    ),
]
BackendOption = Annotated[
    Backend, typer.Option("--backend", help="Exact search, or a library that is installed.")
]
GeometryOption = Annotated[
    Geometry | None,
    typer.Option("--geometry", help="Without a model, what is near: inner products if not given."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An option of the backend; repeatable."),
]
Queries = Annotated[
    Path | None,
    typer.Option("--queries", help="Vectors to measure recall with; some items if not given."),
]
RecallAt = Annotated[int, typer.Option("--recall-at", min=1, help="Measure recall among so many.")]
IndexPath = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A file that `similia index` has saved.")
]
Count = Annotated[int, typer.Option("--k", "-k", min=1, help="How many items for each query.")]
FormOption = Annotated[Form, typer.Option("--format", help="CSV or JSON lines.")]


def index(
    vectors: Vectors,
    output: Output,
    model: Model = None,
    backend: BackendOption = Backend.exact,
    geometry: GeometryOption = None,
    options: Options = None,
    queries: Queries = None,
    recall_at: RecallAt = 10,
    ids: IdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    as_json: AsJson = False,
) -> None:
    """Build an index of items, and print its recall against exact search.

    For bilinear similarities the items are added as they are, once, whatever is learnt later: give
    the model to `similia search`. A metric moves the items, so its index needs the model, and must
    be built again when the model has learnt.
    """
    check_files(vectors, ids, queries, model, outputs=(output,))

    from similia.files import read_vectors
    from similia.index import build_index

    Z = read_vectors(vectors, ids=ids, vector_column=vector_column, id_column=id_column)
    learner = None if model is None else load_model(model, plain=True)
    built = build_index(
        Z.X,
        learner if getattr(learner, "geometry", None) != "inner_product" else None,
        backend=backend.value,
        geometry=geometry and geometry.value,
        ids=Z.ids.values,
        queries=None if queries is None else _asked(queries, learner),
        recall_at=recall_at,
        **dict(map(setting, options or [])),
    )
    built.save(output)
    if as_json:
        print_json({**built.report.to_dict(), "output": str(output)})
    else:
        typer.echo(f"{built.report}\nSaved: {output}")


def _asked(path: Path, learner: Any) -> Any:
    """Give the queries; a bilinear learner has changed them already, a metric's index will."""
    from similia.files import read_vectors

    Q = read_vectors(path).X
    moved = getattr(learner, "geometry", None) == "inner_product"
    return learner.query_vectors(Q) if moved else Q


def search(
    index_path: IndexPath,
    queries: Annotated[
        Path, typer.Argument(metavar="QUERIES", help="Vectors as they are; - reads JSON lines.")
    ],
    model: Model = None,
    k: Count = 10,
    ids: IdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    form: FormOption = Form.csv,
) -> None:
    """Find the best items of each query, by what was learnt.

    Prints query,rank,item,score, the best first. Without a model, by the plain vectors, or by the
    metric that the index was built with.
    """
    from similia.files import read_vectors
    from similia.index import open_index

    opened = open_index(index_path)
    learner = None if model is None else load_model(model, plain=True)
    Q = read_vectors(queries, ids=ids, vector_column=vector_column, id_column=id_column)
    found = opened.search(Q.X, min(k, len(opened)), model=learner)
    _print(Q.ids.names(), found, form)
    note(f"{len(found.ids)} queries, {len(opened)} items.")


def _print(names: list[Any], found: Any, form: Form) -> None:
    import csv
    import json
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = ("query", "rank", "item", "score")
    if form is Form.csv:
        writer.writerow(columns)
    for name, items, scores in zip(names, found.ids.tolist(), found.scores.tolist(), strict=True):
        for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1):
            if form is Form.csv:
                writer.writerow([name, rank, item, f"{score:.6g}"])
            else:
                row = dict(zip(columns, (name, rank, item, score), strict=True))
                sys.stdout.write(json.dumps(row) + "\n")
