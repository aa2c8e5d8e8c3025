"""``similia index`` and ``similia search``: vectors, searched by what was learnt."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt


class BackendName(StrEnum):
    """Library that searches."""

    exact = "exact"
    faiss = "faiss"
    usearch = "usearch"
    hnswlib = "hnswlib"


class GeometryName(StrEnum):
    """What counts as near."""

    inner_product = "inner_product"
    l2 = "l2"


Output = Annotated[Path, Option("--output", "-o", help="Where to save the index.")]
Model = Annotated[
    Path | None,
    Option(
        "--model",
        help="A saved model, or a folder of `similia promote`. To build, only metrics need it.",
    ),
]
BackendOption = Annotated[
    BackendName, Option("--backend", help="Exact search, or an installed library.")
]
GeometryOption = Annotated[
    GeometryName | None,
    Option("--geometry", help="What is near, without a model. Default: inner_product."),
]
Options = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="An option of the backend; repeatable."),
]
Queries = Annotated[
    Path | None,
    Option("--queries", help="Vectors to measure recall with. Default: some of the items."),
]
RecallAt = Annotated[
    int, Option("--recall-at", min=1, help="Measure recall of this many best items.")
]
IndexPath = Annotated[
    Path,
    Argument(
        metavar="INDEX",
        help="A file saved by `similia index`; or a table of items, for a model learnt from one.",
    ),
]
QueryPath = Annotated[
    Path | None,
    Argument(
        metavar="QUERIES",
        help="Untransformed vectors, - reads JSON lines; or, for a model learnt from texts, a "
        "table of texts or .txt with one per line.",
    ),
]
Typed = Annotated[
    list[str] | None,
    Option("--query", "-q", metavar="TEXT", help="A query as people type it; repeatable."),
]
Count = Annotated[int, Option("--k", "-k", min=1, help="Number of items per query.")]


@inputs.grouped
def index(
    vectors: opt.Vectors,
    views: inputs.FurtherViews,
    file: inputs.FileOptions,
    output: Output,
    model: Model = None,
    backend: BackendOption = BackendName.exact,
    geometry: GeometryOption = None,
    options: Options = None,
    queries: Queries = None,
    recall_at: RecallAt = 10,
    as_json: opt.AsJson = False,
) -> None:
    """Build an index of items.

    Prints its recall against exact search. For a bilinear similarity the items are added once,
    untransformed, whatever is learnt later: pass the model to `similia search`. A metric moves the
    items, so its index needs the model and must be rebuilt after the model has learnt.
    """
    inputs.check_files(vectors, file, queries, model, outputs=(output,))

    from similia.index import build_index

    learner = None if model is None else inputs.load_model(model, plain=True)
    layout = inputs.layout_of(learner, views)
    Z, asked = inputs.items_of(vectors, layout, file), None
    if queries is not None:
        asked = inputs.queries_of(queries, layout, inputs.FileOptions()).X
    built = build_index(
        Z.X,
        learner,
        backend=backend.value,
        geometry=geometry and geometry.value,
        ids=Z.ids.values,
        queries=asked,
        recall_at=recall_at,
        **dict(map(inputs.setting, options or [])),
    )
    built.save(output)
    if as_json:
        opt.print_json({**built.report.to_dict(), "output": str(output)})
    else:
        opt.say(f"{built.report}\nSaved: {output}")


@inputs.grouped
def search(
    index_path: IndexPath,
    views: inputs.FurtherViews,
    file: inputs.FileOptions,
    queries: QueryPath = None,
    typed: Typed = None,
    model: Model = None,
    k: Count = 10,
    form: opt.FormOption = opt.Form.csv,
) -> None:
    """Find the best items of each query, by what was learnt.

    Prints query,rank,item,score, best first. Without a model, searches by the plain vectors, or by
    the metric that the index was built with.
    """
    if (queries is None) == (typed is None):
        raise typer.BadParameter("search takes either QUERIES or --query TEXT.")

    from similia.files import Ids, ViewFiles
    from similia.index import build_index, open_index
    from similia.tabular.columns import is_table

    learner = None if model is None else inputs.load_model(model, plain=True)
    layout = inputs.layout_of(learner, views)
    if is_table(index_path):
        if isinstance(layout, ViewFiles):
            raise ValueError(
                f"{index_path} is a table: add --model with a model that was learnt from one, or "
                "make an index of its vectors (similia index)."
            )
        Z = layout.items(index_path)
        opened = build_index(Z.X, learner, ids=Z.ids.values)
    else:
        opened = open_index(index_path)
    if queries is not None:
        Q = inputs.queries_of(queries, layout, file)
    elif typed is not None and not isinstance(layout, ViewFiles):
        Q = layout.queries(typed, Ids(typed, len(typed)))
    else:
        raise typer.BadParameter("--query needs a --model that was learnt from a table of texts.")
    found = opened.search(Q.X, min(k, len(opened)), model=learner)
    rows = (
        (query, rank, item, score)
        for query, items, scores in zip(
            Q.ids.names(), found.ids.tolist(), found.scores.tolist(), strict=True
        )
        for rank, (item, score) in enumerate(zip(items, scores, strict=True), start=1)
    )
    opt.print_rows(["query", "rank", "item", "score"], rows, form)
    opt.note(f"{len(found.ids)} queries, {len(opened)} items.")
