"""``similia clicks``: what a log of clicks can tell, and the same log as CSV."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt

LogFile = Annotated[
    Path,
    Argument(
        metavar="LOG",
        help="What was shown and clicked: impression,query,item,position,click in any format; or, "
        "with --events, the queries of OpenSearch's User Behavior Insights, as JSON lines.",
    ),
]
EventsFile = Annotated[Path | None, Option("--events", help="The events of UBI, as JSON lines.")]
QueryIds = Annotated[
    str,
    Option("--query", help="What ids of queries are in UBI: user_query or query_id."),
]
HitDepth = Annotated[
    int | None, Option("--depth", min=1, help="Count so many hits of UBI as shown. Default: all.")
]
LogOutput = Annotated[
    Path | None, Option("--output", "-o", help="Write the log here, as CSV for `similia learn`.")
]
Correct = Annotated[
    bool,
    Option(
        "--correct",
        help="Divide the clicks that are written by the effect of their places (propensities).",
    ),
]
Clip = Annotated[
    float, Option("--clip", min=0.001, max=0.999, help="Least propensity to divide by.")
]


@inputs.grouped
def clicks(
    sides: inputs.Sides,
    path: LogFile,
    events: EventsFile = None,
    query: QueryIds = "user_query",
    depth: HitDepth = None,
    columns: opt.Columns = None,
    position: opt.Position = None,
    output: LogOutput = None,
    correct: Correct = False,
    clip: Clip = 0.1,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Look at a log of clicks: rates by place, and their causes.

    The effect of places can only be told from items that were shown in several; a warning names the
    places that the log cannot identify. --correct is for learners that know nothing of places:
    Blend learns their effect beside the similarity and needs the log as it is.
    """
    if query not in ("user_query", "query_id"):
        raise typer.BadParameter(f"--query must be user_query or query_id, got {query!r}.")
    if correct and output is None:
        raise typer.BadParameter("--correct is about what is written: add --output.")
    inputs.check_files(sides, path, events, outputs=(output, bad_log))

    from similia.feedback import ImpressionsFile, UbiLog
    from similia.feedback.clicks.report import report_log, write_log
    from similia.files import Source, spooled

    with sides.read(action=bad_rows, log=bad_log) as (X, Z, bad):
        of = X.ids, (X if Z is None else Z).ids
        options: dict[str, Any] = {"bad_rows": bad}
        with spooled(Source(path, inputs.named_columns(columns, position))) as source:
            lists: Any = ImpressionsFile(source, *of, **options)
            if events is not None:
                lists = UbiLog(path, events, *of, query=query, depth=depth, **options)
            found = report_log(_ToldOnce(lists), clip=clip)
            if output is not None:
                used = found.propensities if correct else None
                if correct and used is None:
                    raise ValueError(f"{path}: --correct needs places: name their column.")
                write_log(output, _ToldOnce(lists, quiet=True), *of, used, clip=clip)
    counts = dict(getattr(lists, "counts", {}))
    if as_json:
        opt.print_json({**found.to_dict(), "ubi": counts, "bad_rows": bad.to_dict()})
        return
    fields: dict[str, Any] = {
        "lists": found.n_lists,
        "items shown": found.n_shown,
        "clicks": found.n_clicks,
        **counts,
    }
    if found.propensities is not None:
        fields["corrected"] = (
            f"{found.n_clicks} clicks would count as {found.effective_sample_size:.0f}; "
            f"{found.n_clipped} are clipped at {clip:g}"
        )
    opt.print_fields(fields | ({} if output is None else {"output": output}))
    rows = [
        [
            str(place["place"]),
            f"{place['shown']:.0f}",
            f"{place['rate']:.4f}",
            "unknown" if place["propensity"] is None else f"{place['propensity']:.3f}",
            "" if place["error"] is None else f"{100 * place['error']:.0f} %",
        ]
        for place in found.to_dict()["places"]
    ]
    if rows:
        opt.print_table(["place", "shown", "click rate", "propensity", "error"], rows)
    else:
        opt.note("The log has no places (--position), so their effect is not known.")


class _ToldOnce:
    """Log that reports bad rows during its first pass only."""

    def __init__(self, lists: Any, quiet: bool = False) -> None:
        self.lists, self.told = lists, quiet

    def __iter__(self) -> Any:
        from similia.files import BadRows

        if self.told:
            self.lists.bad_rows = BadRows("skip")
        self.told = True
        return iter(self.lists)
