"""``similia interleave``: compare two rankings by the clicks on lists that mix them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt
from similia.cli.promote import NOT_PROMOTED, Base, print_outcome

RANKING_FORMS = "a run of TREC, or a table query,item,score such as `similia search` prints"
Challenger = Annotated[
    Path,
    Argument(metavar="CHALLENGER", help=f"A saved model or, without --vectors, {RANKING_FORMS}."),
]
Champion = Annotated[
    str,
    Argument(
        metavar="CHAMPION",
        help="A folder of `similia promote`, a saved model, cosine, inner_product or euclidean; or "
        "a ranking, likewise.",
    ),
]
VectorsOption = Annotated[
    Path | None, Option("--vectors", help=f"Rank by models. {opt.VECTORS_HELP}")
]
Searches = Annotated[
    Path | None,
    Option(
        "--searches",
        help="Searches to draft lists for: search,query. Default: each query once.",
    ),
]
Length = Annotated[int, Option("-k", "--length", min=1, help="Length of the lists.")]
Seed = Annotated[
    int | None, Option("--seed", min=0, help="Seed of the coins; by default they are fresh.")
]
Output = Annotated[Path, Option("--output", "-o", help="Where to write the lists, as CSV.")]
Lists = Annotated[
    Path,
    Argument(
        metavar="LISTS",
        help="Lists of `similia interleave draft`, with 1 in the column click for what was "
        "clicked, or with --clicks.",
    ),
]
ClicksFile = Annotated[
    Path | None, Option("--clicks", help="What was clicked, if not in the lists: search,item.")
]
FolderOption = Annotated[
    Path | None, Option("--folder", help="Promote the challenger in this folder if it is better.")
]
Model = Annotated[Path | None, Option("--model", help="The challenger, for --folder.")]

app = typer.Typer(
    help="Compare two rankings by clicks on lists that mix both.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("draft")
@inputs.grouped
def draft(
    challenger: Challenger,
    champion: Champion,
    output: Output,
    views: inputs.FurtherViews,
    vectors: VectorsOption = None,
    searches: Searches = None,
    items: opt.Items = None,
    base: Base = None,
    length: Length = 10,
    seed: Seed = None,
    ids: opt.IdsFile = None,
    item_ids: opt.ItemIdsFile = None,
    vector_column: opt.VectorColumn = None,
    id_column: opt.IdColumn = None,
    as_json: opt.AsJson = False,
) -> None:
    """Mix two rankings into one list for each search (team draft).

    Prints a row for each item to show: search,query,item,position,team,champion,challenger,click.
    Show the lists as they are, set click to 1 for what is clicked, and judge them.
    """
    inputs.check_files(vectors, searches, items, ids, item_ids, challenger, outputs=(output,))

    from similia.feedback.rankings import read_rankings
    from similia.trust.interleaving import draft_file, model_name, rankings_of

    generation, name = None, ""
    if vectors is None:
        ours, theirs = read_rankings(challenger), read_rankings(Path(champion))
    else:
        scorers, generation = _scorers(challenger, champion, base)
        name = model_name(challenger)
        sides = inputs.Sides(
            vectors=vectors,
            items=items,
            ids=ids,
            item_ids=item_ids,
            vector_column=vector_column,
            id_column=id_column,
        )
        layout = None if views else scorers[0].layout_
        with sides.read(views, layout=layout) as (X, Z, _):
            ours, theirs = (rankings_of(s, X, Z, length=length) for s in scorers)
    found = draft_file(
        output,
        ours,
        theirs,
        searches,
        length=length,
        generation=generation,
        name=name,
        seed=seed,
    )
    if as_json:
        opt.print_json({**found._asdict(), "output": str(output)})
    else:
        opt.say(f"{found.n_lists} lists, {found.n_rows} items: {output}")
        if found.n_missing:
            opt.note(f"{found.n_missing} searches have no ranking by both, and so no list.")


def _scorers(challenger: Path, champion: str, base: str | None) -> tuple[list[Any], int | None]:
    """Challenger and champion, and the generation of the champion, 0 for a plain similarity."""
    from similia.retrieval.scorers import PLAIN_SCORERS
    from similia.trust import Promotion

    model, folder = inputs.load_model(challenger), Path(champion)
    if champion in PLAIN_SCORERS or not folder.is_dir():
        return [model, inputs.base_named(champion)], 0 if champion in PLAIN_SCORERS else None
    promotion = Promotion(folder, base=inputs.base_named(base or "inner_product"))
    return [model, promotion.champion()], promotion.current


@app.command("judge")
def judge(
    lists: Lists,
    clicks: ClicksFile = None,
    folder: FolderOption = None,
    model: Model = None,
    base: Base = None,
    level: opt.Level = 0.95,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Say whose items are clicked more often, search by search.

    The evidence holds however often you look; the p-value of the sign test is for those who look
    once. With --folder and --model the challenger is promoted if there is enough evidence, and the
    exit code is 4 if not.
    """
    if (folder is None) != (model is None):
        raise typer.BadParameter("--folder and --model go together.")
    inputs.check_files(lists, clicks, model, outputs=(bad_log,))

    from similia.trust import Promotion
    from similia.trust.interleaving import judge_drafts, model_name, read_interleaving

    name = None if model is None else model_name(model)
    with inputs.skipping(bad_rows, bad_log) as bad:
        test, generation, n_strays = read_interleaving(lists, clicks, name=name, bad_rows=bad)
    found = test.preference()
    outcome = None
    if folder is not None and model is not None:
        promotion = Promotion(folder, base=inputs.base_named(base or "inner_product"), level=level)
        outcome = judge_drafts(promotion, inputs.load_model(model), test, generation)
    if as_json:
        told = {} if outcome is None else {"outcome": outcome.to_dict()}
        figures = {**vars(found), "strays": n_strays, "bad_rows": bad.to_dict()}
        opt.print_json({**figures, "needed": 1 / (1 - level), **told})
    else:
        opt.say(f"{found} Evidence of {1 / (1 - level):.3g} would do.")
        if outcome is not None:
            print_outcome(outcome)
    if n_strays:
        opt.note(f"{n_strays} clicks are on what was not in their list, and do not count.")
    if outcome is not None and not outcome.promoted:
        raise typer.Exit(NOT_PROMOTED)
