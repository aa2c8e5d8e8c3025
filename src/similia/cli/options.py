"""Arguments and options that several commands share."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from similia.cli.printing import Form as Form
from similia.cli.printing import note as note
from similia.cli.printing import print_fields as print_fields
from similia.cli.printing import print_json as print_json
from similia.cli.printing import print_rows as print_rows
from similia.cli.printing import print_table as print_table
from similia.cli.printing import say as say

VECTORS_HELP = (
    "A table with texts (.csv, .tsv, .jsonl, .parquet, .arrow, .db), or vectors: .npy, .npz (dense "
    "or scipy.sparse), .safetensors, .parquet, .arrow, .jsonl or .svmlight; - reads JSON lines."
)
FEEDBACK_HELP = (
    "A log of lists that were shown (query,item,click and, if known, position, impression), or "
    "judgements (query,better,worse; query,item,relevance; a,b,label; row,label): .csv, .tsv, "
    ".jsonl, .parquet, .arrow, .npy, TREC's .qrels, or a BEIR folder; - reads CSV or JSON lines. "
    "Queries are what people typed, where items have texts; items, and other queries, are ids, or "
    "row numbers from 0 if there are no ids."
)


#: options of a group in help
table_option = partial(Option, rich_help_panel="Tables of items")
vector_option = partial(Option, rich_help_panel="Vectors")
view_option = partial(Option, rich_help_panel="Views")
judgement_option = partial(Option, rich_help_panel="Judgements")
bad_row_option = partial(Option, rich_help_panel="Unusable rows")
long_run_option = partial(Option, rich_help_panel="Long runs")
worker_option = partial(Option, rich_help_panel="Many workers")
service_option = partial(Option, rich_help_panel="Service")


class OnBadRow(StrEnum):
    """What to do with an unusable row."""

    stop = "stop"
    skip = "skip"


class Unjudged(StrEnum):
    """Meaning of an item without a grade."""

    ignore = "ignore"
    worse = "worse"


class ClickRule(StrEnum):
    """What a click is preferred to."""

    clicked = "clicked"
    skip_above = "skip-above"
    last_click = "last-click"


def learner_names(begun: str) -> list[str]:
    """Names of learners with this beginning, for tab completion."""
    from similia.registry import ALL_LEARNERS

    return [name for name in ALL_LEARNERS if name.startswith(begun)]


#: where a service listens by default
LOCAL_SERVICE = "http://127.0.0.1:8765"
Url = Annotated[str, service_option("--url", help="Address of the service.")]
TenantAt = Annotated[str, service_option("--tenant", help="Whose judgements these are.")]
ApiKey = Annotated[
    str | None,
    service_option("--key", envvar="SIMILIA_KEY", help="API key; better in the environment."),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
ModelPath = Annotated[
    Path, Argument(metavar="MODEL", help="A saved model, or a folder of `similia promote`.")
]
Vectors = Annotated[
    Path,
    Argument(metavar="ITEMS", help=f"Items; the queries, if --items names those. {VECTORS_HELP}"),
]
Feedback = Annotated[Path, Argument(metavar="FEEDBACK", help=FEEDBACK_HELP)]
Items = Annotated[
    Path | None,
    vector_option("--items", help="Vectors of the items, if they are not the queries."),
]
IdsFile = Annotated[
    Path | None,
    vector_option(
        "--ids", help="Ids of the vectors: text, one per line, or .npy. Default: those in the file."
    ),
]
ItemIdsFile = Annotated[
    Path | None,
    vector_option("--item-ids", help="Ids of the items, likewise."),
]
VectorColumn = Annotated[
    str | None,
    vector_option("--vector-column", help="Column of the vectors in tables and JSON."),
]
IdColumn = Annotated[
    str | None,
    vector_option("--id-column", help="Column of the ids in tables and JSON."),
]
ItemColumns = Annotated[
    list[str] | None,
    table_option(
        "--item-column",
        metavar="NAME=KIND",
        help="Kind of a column: id, text, category, number, date, vector or unused. Repeatable.",
    ),
]
Embed = Annotated[
    str | None,
    table_option(
        "--embed",
        metavar="NAME_OR_FOLDER",
        help="Embed the texts with a model of sentence-transformers, model2vec or fastembed "
        "(fastembed:NAME, or a folder with model.onnx). Vectors are kept beside the items.",
    ),
]
BadRowsOption = Annotated[
    OnBadRow,
    bad_row_option("--bad-rows", help="Stop at an unusable row (exit code 3), or skip it."),
]
BadLog = Annotated[
    Path | None,
    bad_row_option("--bad-log", help="Write every skipped row here, as JSON lines."),
]
UnjudgedOption = Annotated[
    Unjudged,
    judgement_option(
        "--unjudged",
        help="For query,item,relevance: ignore items without a grade, or count them as worse.",
    ),
]
Columns = Annotated[
    str | None,
    judgement_option(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="What the judgements call a column, such as query=query-id,item=corpus-id.",
    ),
]
ClicksOption = Annotated[
    ClickRule,
    judgement_option(
        "--clicks",
        help="For logs of clicks: prefer a click to all that was shown with it, to what was "
        "skipped above it, or to that for the last click only.",
    ),
]
Position = Annotated[
    str | None,
    judgement_option("--position", metavar="COLUMN", help="The same as --columns position=COLUMN."),
]
Learner = Annotated[
    str | None,
    Option(
        "--learner",
        help="One of `similia learners`. Default: Blend.",
        autocompletion=learner_names,
    ),
]
Views = Annotated[
    list[str] | None,
    view_option(
        "--view",
        metavar="NAME=FILE",
        help="Another view of the items, and of the queries if they are the same: vectors, or the "
        "column NAME of a table. Repeatable. One number per item is a field, such as a price.",
    ),
]
QueryViews = Annotated[
    list[str] | None,
    view_option("--query-view", metavar="NAME=FILE", help="The same view of the queries."),
]
Texts = Annotated[
    list[str] | None,
    view_option(
        "--text",
        metavar="NAME=FILE",
        help="Texts of the items, and of the queries if they are the same, as a view by BM25: .txt "
        "with one per line, or the column NAME or text of a table. Repeatable.",
    ),
]
QueryTexts = Annotated[
    list[str] | None,
    view_option("--query-text", metavar="NAME=FILE", help="Texts of the queries, likewise."),
]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; repeatable."),
]
Cuts = Annotated[
    list[int] | None,
    Option("--k", "-k", min=1, help="Cut-off of measures; repeatable. Default: 1, 5, 10."),
]
Measures = Annotated[
    list[str] | None,
    Option("--measure", help="A measure to show, such as nDCG@10; repeatable. Default: all."),
]
Level = Annotated[
    float, Option("--level", min=0.5, max=0.9999, help="Level of the intervals and of the test.")
]
Share = Annotated[
    float, Option("--hold-out", min=0.01, max=0.99, help="Share of queries to test on.")
]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of everything random.")]
FormOption = Annotated[Form, Option("--format", help="CSV or JSON lines.")]
