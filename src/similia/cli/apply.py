"""``similia apply``: vectors as a model sees them."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from similia.cli import inputs
from similia.cli import options as opt


class SideName(StrEnum):
    """Which side the vectors are on."""

    queries = "queries"
    items = "items"


SideOption = Annotated[SideName, Option("--as", help="Whether the vectors are queries or items.")]
ScaleLike = Annotated[
    str | None,
    Option(
        "--scale-like",
        help="Scale queries so that scores differ as much as those of cosine, inner_product, "
        "euclidean or another model, on the vectors given (and --items).",
    ),
]
Output = Annotated[
    Path,
    Option(
        "--output", "-o", help="A file of vectors in any format; - writes JSON lines to stdout."
    ),
]


@inputs.grouped
def apply(
    model: opt.ModelPath,
    vectors: opt.Vectors,
    views: inputs.FurtherViews,
    file: inputs.FileOptions,
    output: Output = Path("-"),
    side: SideOption = SideName.queries,
    items: opt.Items = None,
    scale_like: ScaleLike = None,
) -> None:
    """Transform vectors by a model.

    The result can be searched with, or put into an index. A bilinear similarity transforms queries
    only; items stay as they are.
    """
    if scale_like is not None and side is SideName.items:
        raise typer.BadParameter("--scale-like changes queries; leave it out for items.")

    from similia.contract import Ranker, Searchable
    from similia.files import write_vectors

    learner = inputs.load_model(model)
    if not isinstance(learner, Ranker):
        raise ValueError(f"{model}: {type(learner).__name__} has no vectors.")
    as_queries = side is SideName.queries
    read = inputs.queries_of if as_queries else inputs.items_of
    X = read(vectors, inputs.layout_of(learner, views), file)
    scorer: Searchable = learner
    scale = ""
    if scale_like is not None:
        from similia.retrieval import scaled_like

        if learner.geometry != "inner_product":
            raise ValueError(
                "--scale-like must be left out for a distance, whose items it would change, too; "
                "use similia.scaled_like."
            )
        Z = replace(file, ids=None).vectors_in(items).X if items else None
        scaled = scaled_like(learner, inputs.base_named(scale_like), X.X, Z)
        scorer, scale = scaled, f"; scores times {scaled.factor:.4g}"
    found = (scorer.query_vectors if as_queries else scorer.item_vectors)(X.X)
    write_vectors(output, found, X.ids.values)
    opt.note(
        f"{found.shape[0]} vectors of length {found.shape[1]}; geometry: {learner.geometry}{scale}."
    )
