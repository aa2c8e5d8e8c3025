"""Arguments and options that several commands share."""

from enum import StrEnum
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
Url = Annotated[str, Option("--url", help="Address of the service.", rich_help_panel="Service")]
TenantAt = Annotated[
    str, Option("--tenant", help="Whose judgements these are.", rich_help_panel="Service")
]
ApiKey = Annotated[
    str | None,
    Option(
        "--key",
        envvar="SIMILIA_KEY",
        help="API key; better in the environment.",
        rich_help_panel="Service",
    ),
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
    Option(
        "--items",
        help="Vectors of the items, if they are not the queries.",
        rich_help_panel="Vectors",
    ),
]
IdsFile = Annotated[
    Path | None,
    Option(
        "--ids",
        help="Ids of the vectors: text, one per line, or .npy. Default: those in the file.",
        rich_help_panel="Vectors",
    ),
]
ItemIdsFile = Annotated[
    Path | None,
    Option(
        "--item-ids",
        help="Ids of the items, likewise.",
        rich_help_panel="Vectors",
    ),
]
VectorColumn = Annotated[
    str | None,
    Option(
        "--vector-column",
        help="Column of the vectors in tables and JSON.",
        rich_help_panel="Vectors",
    ),
]
IdColumn = Annotated[
    str | None,
    Option(
        "--id-column",
        help="Column of the ids in tables and JSON.",
        rich_help_panel="Vectors",
    ),
]
ItemColumns = Annotated[
    list[str] | None,
    Option(
        "--item-column",
        metavar="NAME=KIND",
        help="Kind of a column: id, text, category, number, date, vector or unused. Repeatable.",
        rich_help_panel="Tables of items",
    ),
]
Embed = Annotated[
    str | None,
    Option(
        "--embed",
        metavar="NAME_OR_FOLDER",
        help="Embed the texts with a model of sentence-transformers, model2vec or fastembed "
        "(fastembed:NAME, or a folder with model.onnx). Vectors are kept beside the items.",
        rich_help_panel="Tables of items",
    ),
]
BadRowsOption = Annotated[
    OnBadRow,
    Option(
        "--bad-rows",
        help="Stop at an unusable row (exit code 3), or skip it.",
        rich_help_panel="Unusable rows",
    ),
]
BadLog = Annotated[
    Path | None,
    Option(
        "--bad-log",
        help="Write every skipped row here, as JSON lines.",
        rich_help_panel="Unusable rows",
    ),
]
UnjudgedOption = Annotated[
    Unjudged,
    Option(
        "--unjudged",
        help="For query,item,relevance: ignore items without a grade, or count them as worse.",
        rich_help_panel="Judgements",
    ),
]
Columns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="What the judgements call a column, such as query=query-id,item=corpus-id.",
        rich_help_panel="Judgements",
    ),
]
ClicksOption = Annotated[
    ClickRule,
    Option(
        "--clicks",
        help="For logs of clicks: prefer a click to all that was shown with it, to what was "
        "skipped above it, or to that for the last click only.",
        rich_help_panel="Judgements",
    ),
]
Position = Annotated[
    str | None,
    Option(
        "--position",
        metavar="COLUMN",
        help="The same as --columns position=COLUMN.",
        rich_help_panel="Judgements",
    ),
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
    Option(
        "--view",
        metavar="NAME=FILE",
        help="Another view of the items, and of the queries if they are the same: vectors, or the "
        "column NAME of a table. Repeatable. One number per item is a field, such as a price.",
        rich_help_panel="Views",
    ),
]
QueryViews = Annotated[
    list[str] | None,
    Option(
        "--query-view",
        metavar="NAME=FILE",
        help="The same view of the queries.",
        rich_help_panel="Views",
    ),
]
Texts = Annotated[
    list[str] | None,
    Option(
        "--text",
        metavar="NAME=FILE",
        help="Texts of the items, and of the queries if they are the same, as a view by BM25: .txt "
        "with one per line, or the column NAME or text of a table. Repeatable.",
        rich_help_panel="Views",
    ),
]
QueryTexts = Annotated[
    list[str] | None,
    Option(
        "--query-text",
        metavar="NAME=FILE",
        help="Texts of the queries, likewise.",
        rich_help_panel="Views",
    ),
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
