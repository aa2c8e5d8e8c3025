"""``similia apply``: vectors as a model sees them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Option

from similia.cli import options as opt


class Side(StrEnum):
    """Which side the vectors are on."""

    queries = "queries"
    items = "items"


SideOption = Annotated[Side, Option("--as", help="Whether the vectors are queries or items.")]
Output = Annotated[
    Path,
    Option(
        "--output", "-o", help="A file of vectors in any format; - writes JSON lines to stdout."
    ),
]


def apply(
    model: opt.ModelPath,
    vectors: opt.Vectors,
    output: Output = Path("-"),
    side: SideOption = Side.queries,
    ids: opt.IdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
) -> None:
    """Transform vectors by a model.

    The result can be searched with, or put into an index. A bilinear similarity transforms queries
    only; items stay as they are.
    """
    from similia.contract import Ranker
    from similia.files import read_vectors, write_vectors

    learner = opt.load_model(model)
    if not isinstance(learner, Ranker):
        raise ValueError(f"{model} is a {type(learner).__name__}, which has no vectors.")
    X = read_vectors(vectors, ids=ids, vector_column=vector_column, id_column=id_column)
    found = (learner.query_vectors if side is Side.queries else learner.item_vectors)(X.X)
    write_vectors(output, found, X.ids.values)
    opt.note(f"{found.shape[0]} vectors of length {found.shape[1]}; geometry: {learner.geometry}.")
