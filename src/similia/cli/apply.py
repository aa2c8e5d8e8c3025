"""``similia apply``: vectors as a model sees them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from similia.cli.options import (
    IdColumn,
    IdsFile,
    ModelPath,
    VectorColumn,
    Vectors,
    load_model,
    note,
)


class Side(StrEnum):
    """Whose vectors these are."""

    queries = "queries"
    items = "items"


SideOption = Annotated[Side, typer.Option("--as", help="Whether the vectors are queries or items.")]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", help="A file of any format for vectors; - writes JSON lines to stdout."
    ),
]


def apply(
    model: ModelPath,
    vectors: Vectors,
    output: Output = Path("-"),
    side: SideOption = Side.queries,
    ids: IdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
) -> None:
    """Transform vectors, to search an index with or to build one of.

    For bilinear similarities the items stay as they are and only queries are transformed.
    """
    from similia.files import read_vectors, write_vectors

    learner = load_model(model)
    if not hasattr(learner, "query_vectors"):
        raise ValueError(f"{model} is a {type(learner).__name__}, which has no vectors to give.")
    X = read_vectors(vectors, ids=ids, vector_column=vector_column, id_column=id_column)
    found = (learner.query_vectors if side is Side.queries else learner.item_vectors)(X.X)
    write_vectors(output, found, X.ids.values)
    note(f"{found.shape[0]} vectors of length {found.shape[1]}; geometry: {learner.geometry}.")
