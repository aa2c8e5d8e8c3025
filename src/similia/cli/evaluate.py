"""``similia evaluate``: the base against the adapted similarity, on judgements."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt

if TYPE_CHECKING:
    from similia.files import BadRows, Source, VectorFile
    from similia.tabular.layout import ViewLayout

Vectors = Annotated[
    Path | None,
    Argument(
        metavar="ITEMS", help=f"Items; the queries, if --items names those. {opt.VECTORS_HELP}"
    ),
]
Feedback = Annotated[Path | None, Argument(metavar="FEEDBACK", help=opt.FEEDBACK_HELP)]
Beir = Annotated[
    Path | None,
    Option(
        "--beir",
        metavar="FOLDER",
        help="In place of ITEMS and FEEDBACK: a data set in BEIR's form (queries.jsonl, "
        "corpus.jsonl, qrels/test.tsv), with queries.npy and corpus.npy beside the texts, in "
        "their order.",
    ),
]
Base = Annotated[
    str | None,
    Option(
        "--base",
        help="What to compare with: cosine, inner_product, euclidean or the file of another model. "
        "Default: today's ranking, the first view as it is.",
    ),
]
ExecutorName = Annotated[
    str | None,
    opt.worker_option(
        "--executor",
        help="Evaluate in parts, side by side, with the same result: processes:4, "
        "dask://HOST:PORT or ray://HOST:PORT.",
    ),
]
ServiceUrl = Annotated[
    str | None,
    opt.service_option("--url", help="Address of a service, to be examined in place of a model."),
]
#: seconds that a service may take to read an upload
READ_WITHIN = 60
#: judgements in one request
EXAMS_AT_ONCE = 200
Parts = Annotated[
    int | None,
    opt.worker_option(
        "--parts", min=1, help="Parts for --executor; the result does not depend on them. [8]"
    ),
]
Work = Annotated[
    Path | None,
    opt.worker_option(
        "--work",
        help="Folder of --executor that all workers find; it is kept. Default: next to the model, "
        "until all is measured.",
    ),
]


@inputs.grouped
def evaluate(
    model: opt.ModelPath,
    sides: inputs.SideOptions,
    views: inputs.FurtherViews,
    vectors: Vectors = None,
    feedback: Feedback = None,
    beir: Beir = None,
    base: Base = None,
    columns: opt.Columns = None,
    k: opt.Cuts = None,
    measures: opt.Measures = None,
    level: opt.Level = 0.95,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    executor: ExecutorName = None,
    parts: Parts = None,
    work: Work = None,
    url: ServiceUrl = None,
    tenant: opt.TenantAt = "default",
    key: opt.ApiKey = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare a model with today's ranking.

    Prints measures, intervals and paired tests on judgements that the model must not have learnt
    from. Columns query,item,relevance or row,label yield all retrieval measures; query,better,worse
    and a,b,label the share in the right order. With --url, MODEL is the file of judgements: they
    are uploaded to the service for its exams, and what it ranks is compared on them.
    """
    if url is not None:
        if (vectors, feedback, beir) != (None, None, None):
            raise typer.BadParameter("--url takes judgements alone: similia evaluate F --url URL.")
        _examined(model, columns, url, tenant, key, as_json)
        return
    folder = Path(f"{model}.evaluation.work") if work is None else work
    if beir is None and vectors is not None and feedback is not None:
        from similia.files import Source

        whole = inputs.Sides(vectors=vectors, **vars(sides))
        layout = None if views else inputs.load_model(model).layout_
        inputs.check_files(whole, feedback, outputs=(bad_log,))
        if executor is not None:
            whole, feedback = whole.fetched(folder), inputs.fetched(feedback, folder)
        source = Source(feedback, inputs.named_columns(columns))
        read = _read(whole, views, source, bad_rows, bad_log, layout)
    elif (
        beir is not None
        and (vectors, columns, sides) == (None, None, inputs.SideOptions())
        and not views
    ):
        read = _read_beir(beir, bad_rows, bad_log)
    else:
        raise typer.BadParameter(
            "evaluate takes ITEMS and FEEDBACK, or else --beir FOLDER, which has all of them."
        )

    if executor is None and (parts or work):
        raise typer.BadParameter("--parts and --work need --executor.")
    if executor is not None and (beir is not None or views):
        raise typer.BadParameter("--executor takes neither --beir nor views.")

    from similia.trust import evaluate_model

    adapted, against = inputs.load_model(model), None if base is None else inputs.base_named(base)
    options: dict[str, Any] = {"k": k or (1, 5, 10), "verbose": True}
    with read as (X, Z, path, bad):
        options["bad_rows"] = bad
        if executor is None:
            found = evaluate_model(
                adapted,
                X,
                path,
                items=Z,
                base=against,
                measures=measures,
                level=level,
                **options,
            )
        else:
            from similia.distributed import evaluate_parts
            from similia.retrieval.names import cut_offs
            from similia.trust.evaluation import adaptation, base_in_words, contenders

            scorers = contenders(adapted, X.X, Z and Z.X, against)
            vectors_at, items_at = whole.paths()
            options["k"] = cut_offs("measure", measures, options["k"])
            parted = evaluate_parts(
                scorers,
                vectors_at,
                path,
                items=items_at,
                executor=executor,
                parts=parts or 8,
                work=folder,
                **options,
            )
            found = adaptation(parted, base_in_words(scorers["base"], X.X), level, measures)
            if work is None:
                shutil.rmtree(folder)
    outcome = found.to_dict()
    if as_json:
        opt.print_json({**outcome, "bad_rows": bad.to_dict()})
        return
    n = outcome["n_tests"]
    together = f"; intervals of differences and p hold for all {n} measures together"
    told = f"{outcome['n_queries']} queries, {outcome['n_items']} items; base: {outcome['base']}"
    opt.note(f"{told}{together if n > 1 else ''}.")
    _print(outcome["measures"], level)


def _examined(
    path: Path, columns: str | None, url: str, tenant: str, key: str | None, as_json: bool
) -> None:
    """Upload judged queries to a service, and print how it does on its exams."""
    from similia.cli.serve import kind_of_queries, service_in_words
    from similia.client import Client
    from similia.service.client.sending import batches, judgements_in

    names = inputs.named_columns(columns)
    with service_in_words(), Client(url, tenant, key) as client:
        last = 0
        queries = kind_of_queries(client, path, names)
        alike = n_judged = 0
        for rows in batches(judgements_in(path, columns=names, queries=queries), EXAMS_AT_ONCE):
            n_judged += len(rows)
            alike += sum(_is_alike(row) for row in rows)
            last = max(receipt.seq for receipt in client.examine(rows))
        if alike:
            opt.note(
                f"warning: {alike} of {n_judged} judged queries have one grade only, so they "
                "compare nothing; grade some items that do not fit, too, with relevance 0."
            )
        deadline = time.monotonic() + READ_WITHIN
        while client.status().learnt_seq < last and time.monotonic() < deadline:
            time.sleep(0.05)
        found = client.evaluate()
    if as_json:
        from msgspec import to_builtins

        opt.print_json(to_builtins(found))
        return
    fields: dict[str, object] = {"measure": f"{found.measure} on {found.n_queries} queries"}
    titles = {"base": "today's ranking", "live": "learnt"}
    fields |= {titles.get(name, name): f"{mean:.4f}" for name, mean in found.means.items()}
    if found.interval is not None:
        low, high = found.interval
        fields["learnt - base"] = f"{found.difference:+.4f} ({low:+.4f} to {high:+.4f})"
    opt.print_fields(fields)
    if found.note:
        opt.note(found.note)


def _is_alike(judgement: Any) -> bool:
    """Whether all items of a judgement have one grade."""
    return len(set(getattr(judgement, "grades", {0: 0, 1: 1}).values())) < 2


@contextmanager
def _read(
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    source: "Source",
    action: opt.OnBadRow,
    log: Path | None,
    layout: "ViewLayout | None",
) -> "Iterator[tuple[VectorFile, VectorFile | None, Source, BadRows]]":
    """Yield queries, items if they are separate, judgements, and a policy for bad rows."""
    from similia.files import spooled

    with (
        spooled(source) as path,
        sides.read(views, action, log, feedback=path, layout=layout) as (X, Z, bad),
    ):
        yield X, Z, path, bad


@contextmanager
def _read_beir(
    folder: Path, action: opt.OnBadRow, log: Path | None
) -> "Iterator[tuple[VectorFile, VectorFile | None, Source, BadRows]]":
    """Yield the same from a folder of BEIR."""
    from similia.files import Source, read_beir

    found = read_beir(folder)
    with inputs.skipping(action, log) as bad:
        yield found.queries, found.corpus, Source(found.qrels), bad


def _print(measures: dict[str, Any], level: float) -> None:
    names = ["base", *(["start"] if "start" in next(iter(measures.values())) else []), "adapted"]
    titles = {"base": "today's ranking (base)", "start": "start", "adapted": "learnt"}
    header = ["measure", *(titles[name] for name in names)]
    header += ["learnt - base", f"{100 * level:g} % interval", "p"]
    rows = []
    for measure, found in measures.items():
        low, high = found["interval"]
        rows.append(
            [
                measure,
                *(f"{found[name]['mean']:.4f}" for name in names),
                f"{found['difference']:+.4f}",
                f"{low:+.4f} to {high:+.4f}",
                f"{found['p_value']:.2g}",
                f"{found['wins']}/{found['ties']}/{found['losses']}",
            ]
        )
    opt.print_table([*header, "+/=/-"], rows)
    better = [m for m, found in measures.items() if found["better"] == "adapted"]
    worse = [m for m, found in measures.items() if found["better"] == "base"]
    parts = [f"better in {', '.join(better)}"] if better else []
    parts += [f"worse in {', '.join(worse)}"] if worse else []
    if parts:
        typer.echo(f"Beyond chance, what was learnt is {' and '.join(parts)}.")
    else:
        typer.echo("The base is as good: no difference is beyond chance.")
