"""What requests and responses contain, beside the records of the log.

Requests are checked as they are decoded, so what is here is all that a client needs to know.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, Union

from msgspec import Meta, Struct, defstruct, field

from similia.service.answers import Logged, Model, Question, Receipt
from similia.service.log import limits
from similia.service.log.records import (
    Clicks,
    Grades,
    Item,
    NoneOfThese,
    Pair,
    Query,
    Skip,
    Tie,
    Triplet,
)

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=limits.MAX_ID_LENGTH)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
QueryText: TypeAlias = Annotated[str, Meta(max_length=limits.MAX_QUERY_TEXT)]
Text: TypeAlias = Annotated[str, Meta(max_length=limits.MAX_ITEM_TEXT)]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=limits.MAX_SEQ)]
ModelName: TypeAlias = Literal["live", "champion", "base"]
Scope: TypeAlias = Literal["read", "feedback", "admin"]

Number: TypeAlias = Annotated[float, Meta(ge=-limits.MAX_FLOAT32, le=limits.MAX_FLOAT32)]
Numbers: TypeAlias = Annotated[list[Number], Meta(min_length=1)]
VectorsByView: TypeAlias = Annotated[dict[Id, Numbers], Meta(max_length=limits.MAX_VIEWS)]
Fields: TypeAlias = Annotated[dict[Id, Text | float | bool], Meta(max_length=limits.MAX_FIELDS)]
Weight: TypeAlias = Annotated[float, Meta(ge=0, le=limits.MAX_WEIGHT)]
Grade: TypeAlias = Annotated[float, Meta(ge=0, le=limits.MAX_GRADE)]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=limits.MAX_MILLISECONDS)]
Position: TypeAlias = Annotated[int, Meta(ge=1, le=limits.MAX_POSITION)]
_SHOWN = Meta(min_length=1, max_length=limits.MAX_SHOWN)


class Error(Struct, frozen=True, omit_defaults=True):
    """Why a request failed; nothing of it was stored."""

    error: str
    status: int
    request_id: str
    #: what is wrong with single rows of a batch, by their places from 0
    rows: dict[str, str] | None = None


class Strict(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a client sends. Unknown fields are rejected."""


class NewQuery(Query, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A query: vectors by view, an item that stands for them, or a text."""

    id: Id | None = None
    text: QueryText | None = None
    vectors: VectorsByView | None = None
    item: Id | None = None


class NewItem(Item, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something to find: a vector for each view, and what people see of it.

    Without vectors, it gets that of its text, if the service makes those of typed queries.
    Fields named like columns of the table that was served first are views, too: numbers, dates such
    as 2024-05-02, or categories. A missing number or date is the median of that table; a category
    that is missing, or was not in it, is none.
    """

    id: Id
    vectors: VectorsByView = {}
    text: Text | None = None
    fields: Fields = {}
    image: Text | None = None


#: what all judgements have in common, within limits
_COMMON: list[tuple[str, Any, Any]] = [
    ("id", Id | None, None),
    ("judge", Id | None, None),
    ("weight", Weight, 1.0),
    ("source", Id | None, None),
    ("question", Id | None, None),
    ("left", Id | None, None),
    ("milliseconds", Milliseconds | None, None),
]
#: and each kind has for itself
_OWN: dict[type[Struct], list[tuple[Any, ...]]] = {
    Triplet: [("better", Id), ("worse", Id)],
    Tie: [("items", tuple[Id, Id])],
    NoneOfThese: [("shown", Annotated[list[Id], _SHOWN])],
    Grades: [("grades", Annotated[dict[Id, Grade], _SHOWN])],
    Clicks: [
        ("shown", Annotated[list[Id], _SHOWN]),
        ("clicked", Annotated[list[Id], Meta(max_length=limits.MAX_SHOWN)]),
        ("positions", Annotated[list[Position], _SHOWN] | None, None),
    ],
    Pair: [("item", Id)],
    Skip: [("shown", Annotated[list[Id], _SHOWN])],
}


def _strict(kind: type[Struct], own: list[tuple[Any, ...]]) -> Any:
    """A kind of judgement as clients send it."""
    return defstruct(
        f"New{kind.__name__}",
        [("query", NewQuery), *_COMMON, *own],
        bases=(kind,),
        namespace={"__doc__": kind.__doc__, "__module__": __name__},
        tag_field="kind",
        tag=kind.__struct_config__.tag,
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
    )


#: judgements as they are sent; the log reads them without these rules, as it may hold newer ones
NewJudgement: Any = Union[tuple(_strict(kind, own) for kind, own in _OWN.items())]  # noqa: UP007


# -- feedback ------------------------------------------------------------------------------------


class NewJudgements(Strict, frozen=True, kw_only=True):
    """Several judgements, all stored or none."""

    judgements: Annotated[list[NewJudgement], Meta(min_length=1)]


class Receipts(Struct, frozen=True):
    """Where each judgement is in the log."""

    results: list[Receipt]


class LoggedJudgements(Struct, frozen=True):
    """Judgements, oldest first; ask for more after the last one's seq."""

    judgements: list[Logged]


class LogPage(Strict, frozen=True, kw_only=True):
    """Which judgements to list."""

    after: Annotated[Seq, Meta(description="List those after this place in the log.")] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.MAX_LOGGED, description="How many at most.")] = 100
    query: Annotated[Id, Meta(description="Those of the query with this id.")] | None = None
    judge: Annotated[Id, Meta(description="Those of this judge.")] | None = None


# -- ranking -------------------------------------------------------------------------------------


class Rank(Strict, frozen=True, kw_only=True):
    """What to rank, and how."""

    query: NewQuery
    k: Annotated[int, Meta(ge=1, le=limits.MAX_RANKED)] = 10
    #: rank these only
    items: Annotated[list[Id], Meta(max_length=limits.MAX_RANKED)] | None = None
    #: wait until this row of the log has been learnt, such as one of your own
    min_seq: Seq | None = None
    explain: bool = False
    model: ModelName = "live"


class Queries(Strict, frozen=True, kw_only=True):
    """Queries to transform."""

    queries: Annotated[list[NewQuery], Meta(min_length=1)]
    model: ModelName = "live"


class QueryVectors(Struct, frozen=True):
    """Vectors to search with elsewhere, by view."""

    revision: str
    vectors: list[dict[str, list[float]]]


# -- items ---------------------------------------------------------------------------------------


class NewItems(Strict, frozen=True, kw_only=True):
    """Items to add, or to put in place of those with the same ids."""

    items: Annotated[list[NewItem], Meta(min_length=1)]


class ItemBody(Strict, frozen=True, kw_only=True):
    """An item whose id is in the path."""

    vectors: VectorsByView = {}
    text: Text | None = None
    fields: Fields = {}
    image: Text | None = None


# -- asking, judging models ----------------------------------------------------------------------


class NextPage(Strict, frozen=True, kw_only=True):
    """How many questions, and for whom."""

    n: Annotated[int, Meta(ge=1, le=limits.MAX_QUESTIONS, description="How many.")] = 10
    judge: Annotated[Id, Meta(description="For whom.")] | None = None


class Questions(Struct, frozen=True):
    """Comparisons to ask a person."""

    questions: list[Question]


class Models(Struct, frozen=True):
    """Generations, oldest first."""

    models: list[Model]


class Rollback(Strict, frozen=True, kw_only=True):
    """Generation to go back to; by default the one before."""

    to: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class At(Strict, frozen=True, kw_only=True):
    """A time."""

    at: Annotated[datetime, Meta(tz=True, description="RFC 3339, with its zone.")]


# -- tenants and keys ----------------------------------------------------------------------------


class Tenancy(Struct, frozen=True):
    """Tenants that a key can see."""

    tenants: list[str]


class NewTenant(Strict, frozen=True, kw_only=True):
    """A tenant to make."""

    #: tenant whose items it ranks; by default it has its own
    shares: Name | None = None


class Created(Struct, frozen=True, omit_defaults=True):
    """A tenant, and whether it is new."""

    tenant: str
    created: bool
    #: tenant whose items it ranks
    shares: str | None = None


class NewKey(Strict, frozen=True, kw_only=True):
    """A key to make."""

    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)] = field(
        default_factory=lambda: ["feedback"]
    )
    name: Annotated[str, Meta(max_length=100)] = ""
    #: judgements with this key are this judge's
    judge: Id | None = None
    #: hours until the key expires
    hours: Annotated[float, Meta(gt=0, le=10**6)] | None = None


class KeyInfo(Struct, frozen=True, omit_defaults=True):
    """What is known of a key."""

    id: str
    tenant: str
    scopes: list[str]
    name: str = ""
    judge: str | None = None
    created: str = ""
    expires: float | None = None


class MadeKey(Struct, frozen=True):
    """A new key; it is shown once."""

    id: str
    key: str


class KeyList(Struct, frozen=True):
    """Keys of a tenant, without their secrets."""

    keys: list[KeyInfo]


class Health(Struct, frozen=True, omit_defaults=True):
    """Whether the service is there."""

    status: str
    #: rows of logs that are followed and not learnt yet, and seconds since they were last read
    behind: int | None = None
    heard: float | None = None


class UbiDocuments(Struct, frozen=True):
    """Documents of User Behavior Insights (1.0.0 to 1.3.0)."""

    queries: list[dict[str, Any]]
    events: list[dict[str, Any]]
