"""What a row of the log holds. The log is the truth, so these structs only ever grow.

Vectors are kept apart from the rest of a record, as the bytes of float32 numbers: a row is the
msgpack array [record without vectors, vectors]. Numbers are rounded to float32 before anything else
sees them, so what is learnt live is what is learnt again from the log.
"""

import hashlib
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from similia.service.errors import Damaged
from similia.tabular.column_views import ColumnView

Vector: TypeAlias = NDArray[np.float32]
Value: TypeAlias = str | float | bool


class Query(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What was asked: vectors by view, an item that stands for them, or a text."""

    id: str | None = None
    text: str | None = None
    vectors: dict[str, list[float]] | None = None
    item: str | None = None


class Item(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to find: its vectors by view, and what people see."""

    id: str
    vectors: dict[str, list[float]] = {}
    text: str | None = None
    fields: dict[str, Value] = {}
    image: str | None = None


# -- judgements ----------------------------------------------------------------------------------


class Judged(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Fields of every judgement."""

    query: Query
    id: str | None = None
    judge: str | None = None
    weight: float = 1.0
    time: datetime | None = None
    #: whether to obey it at once on its query; by default yes, except for clicks
    trusted: bool | None = None
    #: what kind of question it answers: "random" ones can serve as exam questions
    source: str | None = None
    #: id of the question of the service that it answers
    question: str | None = None
    #: the item shown on the left, or first, and the time it took to answer
    left: str | None = None
    milliseconds: int | None = None


class Triplet(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="triplet"):
    """One item is better than another."""

    better: str
    worse: str


class Tie(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="tie"):
    """Two items are equally good."""

    items: tuple[str, str]


class NoneOfThese(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="none"):
    """None of the items shown will do."""

    shown: list[str]


class Grades(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="grades"):
    """How good each item is, from 0."""

    grades: dict[str, float]


class Clicks(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="clicks"):
    """Which of the items shown were clicked, and where they stood, from 1."""

    shown: list[str]
    clicked: list[str]
    positions: list[int] | None = None


class Pair(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="pair"):
    """An item is similar to the query, or not."""

    item: str
    similar: bool


class Skip(Judged, frozen=True, kw_only=True, omit_defaults=True, tag="skip"):
    """A question that a person passed over: logged, not learnt."""

    shown: list[str]


Judgement: TypeAlias = Triplet | Tie | NoneOfThese | Grades | Clicks | Pair | Skip
JUDGEMENTS = (Triplet, Tie, NoneOfThese, Grades, Clicks, Pair, Skip)


# -- everything else -----------------------------------------------------------------------------


class View(Struct, frozen=True, omit_defaults=True):
    """A view of the items: its name, its width, and whether queries have it too."""

    name: str
    width: int
    #: False for a field: a vector of the items alone
    compared: bool = True


def view_of(column: ColumnView) -> View:
    """The view that a column of a table is."""
    return View(column.name, column.width, compared=column.is_category)


class TenantSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a tenant learns; in the log, since replay depends on it."""

    #: the base first; by default those of the first item, all of them compared
    views: list[View] | None = None
    #: fields of items (numbers) that are learnt as views, too
    fields: list[str] = []
    #: columns of a table whose fields are learnt as views, as they were when it was first served
    columns: list[ColumnView] = []
    #: share of the queries that are kept apart for exams
    held_out: float = 0.2
    #: sources of the judgements that are kept apart on those queries; "*" stands for all
    exam_sources: list[str] = msgspec.field(default_factory=lambda: ["random"])
    #: most queries to remember
    memory: int = 10_000
    half_life: float | None = None
    #: "exact", or a library that searches approximately: "faiss", "usearch" or "hnswlib"
    search: str = "exact"
    #: tenant whose items are ranked; a tenant that shares has none of its own
    shares: str | None = None
    #: signs questions and chooses held-out queries, so that nobody can aim at exams;
    #: "" in logs of version 0.2, whose choice is public
    secret: str = ""


class Put(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="put"):
    """Items added, or put in place of those with the same ids."""

    items: list[Item]


class Delete(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="delete"):
    """Items taken away."""

    items: list[str]


class Retraction(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="retraction"
):
    """A judgement taken back, by its id."""

    judgement: str
    by: str | None = None


class Configured(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="settings"
):
    """TenantSettings from here on."""

    settings: TenantSettings


class Follow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="follow"):
    """Shared items from here on: as they were after this row of their owner's log."""

    seq: int
    #: hash of that row, by which the owner's log is recognized
    hash: bytes


class SetAside(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="set_aside"
):
    """A row that cannot be learnt: from now on it is as if it had never been written."""

    seq: int
    reason: str


class Decision(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="decision"
):
    """A promotion, a refusal or a rollback: which generation ranked before, and which ranks now."""

    event: str
    #: the generation before and after; 0 is the base
    before: int
    after: int
    #: last row that the challenger had learnt
    learnt: int = 0
    figures: dict[str, Any] = {}
    #: evidence against the champion, by kind of challenger
    evidence: dict[str, Any] = {}


Record: TypeAlias = (
    Triplet
    | Tie
    | NoneOfThese
    | Grades
    | Clicks
    | Pair
    | Skip
    | Put
    | Delete
    | Retraction
    | Configured
    | Follow
    | SetAside
    | Decision
)


# -- bytes ---------------------------------------------------------------------------------------

Packed: TypeAlias = dict[str, bytes]
#: characters of a text that names a query; a longer one is named by its digest
MAX_KEY_TEXT = 512


#: provenance of a judgement that answers a question of the service, and of one that an
#: administrator sent; "" is feedback
ASKED, UPLOADED = "asked", "uploaded"
#: source of judged queries that an administrator uploads: exam questions, whatever their query
EXAM = "exam"


class Body(Struct, frozen=True, array_like=True, gc=False):
    """Decoded bytes of a row."""

    record: Record
    #: of the query of a judgement, or of each item put
    vectors: list[Packed] = []


class JudgedBody(Body, frozen=True, array_like=True, gc=False):
    """Body of a judgement with provenance."""

    provenance: str = ""


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(JudgedBody)


def packed(vectors: Mapping[str, Any] | None) -> Packed:
    """Vectors as bytes, by name."""
    found = vectors or {}
    return {name: np.asarray(found[name], "<f4").tobytes() for name in sorted(found)}


def unpacked(vectors: Packed) -> dict[str, Vector]:
    """Vectors from their bytes; read-only."""
    return {name: np.frombuffer(given, "<f4") for name, given in vectors.items()}


def encoded(record: Record) -> bytes:
    """Canonical bytes of a record other than a judgement: equal for equal records."""
    if isinstance(record, Put):
        vectors = [packed(item.vectors) for item in record.items]
        bare = [structs.replace(item, vectors={}) for item in record.items]
        return _encoder.encode(Body(Put(items=bare), vectors))
    return _encoder.encode(Body(record))


def decoded(body: bytes) -> JudgedBody:
    """Record, vectors and provenance from the bytes of a row; raises Damaged."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise Damaged(
            f"log: a row cannot be decoded ({error}); restore the log from a backup."
        ) from error


def whole(body: bytes) -> Record:
    """A record as it was given, vectors included."""
    found = decoded(body)
    record, vectors = found.record, found.vectors
    if isinstance(record, Put):
        items = [
            structs.replace(item, vectors=_lists(own))
            for item, own in zip(record.items, vectors, strict=True)
        ]
        return Put(items=items)
    if vectors and isinstance(record, JUDGEMENTS):
        query = structs.replace(record.query, vectors=_lists(vectors[0]))
        return structs.replace(record, query=query)
    return record


def readable(body: bytes) -> Record | None:
    """A record as it was given; None if the bytes hold none."""
    try:
        return whole(body)
    except (Damaged, ValueError):
        return None


def _lists(vectors: Packed) -> dict[str, list[float]]:
    return {name: vector.tolist() for name, vector in unpacked(vectors).items()}


def with_id(judgement: Judgement) -> tuple[Judgement, bytes]:
    """A judgement with an id, by default a digest of its bytes, and the bytes."""
    id, body, _ = written(judgement)
    return judgement if judgement.id is not None else structs.replace(judgement, id=id), body


def written(judgement: Judgement, provenance: str = "") -> tuple[str, bytes, Packed | None]:
    """Id, canonical bytes and query vectors of a judgement; without an id, a digest is its id."""
    vectors, apart, id = None, [], judgement.id
    if judgement.query.vectors is not None:
        vectors = packed(judgement.query.vectors)
        apart = [vectors]
        judgement = structs.replace(judgement, query=structs.replace(judgement.query, vectors=None))
    if id is None:
        id = _digest(_encoder.encode(Body(judgement, apart)))
        judgement = structs.replace(judgement, id=id)
    body = JudgedBody(judgement, apart, provenance) if provenance else Body(judgement, apart)
    return id, _encoder.encode(body), vectors


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def query_key(query: Query, vectors: Packed | None = None) -> str:
    """Key shared by judgements of one query: its id, its item, or a digest."""
    if query.id is not None:
        return f"id:{query.id}"
    if query.item is not None:
        return f"item:{query.item}"
    if vectors is None:
        vectors = packed(query.vectors)
    if vectors:
        digest = hashlib.blake2b(digest_size=12)
        for name in sorted(vectors):
            digest.update(name.encode() + b"\0" + vectors[name])
        return f"vectors:{digest.hexdigest()}"
    text = query.text or ""
    if len(text) > MAX_KEY_TEXT or "\0" in text:  # too long for a database index
        text = _digest(text.encode())
    return f"text:{text}"


def named_items(judgement: Judgement) -> list[str]:
    """Ids of all items that a judgement names."""
    match judgement:
        case Triplet():
            return [judgement.better, judgement.worse]
        case Tie():
            return list(judgement.items)
        case Grades():
            return list(judgement.grades)
        case Pair():
            return [judgement.item]
        case Clicks():
            return [*judgement.shown, *judgement.clicked]
        case _:
            return judgement.shown


def is_number(value: object) -> bool:
    """Whether a field can be learnt: a finite number, or a truth value."""
    return isinstance(value, bool | int | float) and abs(value) <= sys.float_info.max
