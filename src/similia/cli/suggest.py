"""``similia suggest``: the comparisons to ask a person about next."""

from pathlib import Path
from typing import Annotated

from typer import Option

from similia.cli import inputs
from similia.cli import options as opt

Count = Annotated[int, Option("--n", "-n", min=1, help="Number of comparisons.")]
Queries = Annotated[
    Path | None,
    Option("--queries", help="Ids of the queries to ask about, one per line. Default: any."),
]
Candidates = Annotated[
    int, Option("--candidates", min=1, help="Comparisons to choose from, drawn at random.")
]
Depth = Annotated[
    int, Option("--depth", min=2, help="Compare items among this many best of a query.")
]


@inputs.grouped
def suggest(
    model: opt.ModelPath,
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    n: Count = 10,
    queries: Queries = None,
    candidates: Candidates = 2000,
    depth: Depth = 20,
    seed: opt.Seed = 0,
    form: opt.FormOption = opt.Form.csv,
) -> None:
    """Print the comparisons whose answers would teach a model most.

    The best comes first. Each is a query and two items in the order that the model believes in,
    with the gap between their scores and its standard deviation. Swap the items where the order is
    wrong, then learn from the result. The model must know how sure it is.
    """
    from similia.files import read_rows
    from similia.stream import suggest_questions

    learner = inputs.load_model(model)
    layout = None if views else learner.layout_
    with sides.read(views, layout=layout) as (X, Z, _):
        found = suggest_questions(
            learner,
            X,
            n,
            items=Z,
            queries=None if queries is None else read_rows(queries, X.ids),
            candidates=candidates,
            depth=depth,
            random_state=seed,
        )
    query, better, worse = found.tuples.T
    names = [X.ids.names(query), (Z or X).ids.names(better), (Z or X).ids.names(worse)]
    rows = zip(*names, found.scores.tolist(), found.std.tolist(), strict=True)
    opt.print_rows(["query", "better", "worse", "score", "std"], rows, form)
