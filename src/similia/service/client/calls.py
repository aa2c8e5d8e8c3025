"""What can be asked of a service, as requests: clients differ only in how they send them."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import structs

from similia.service.answers import Figures, Model, Ranking, Receipt, Status, Then, Verdict
from similia.service.log.records import Item, Judgement, Query, Triplet
from similia.service.schemas import (
    Created,
    Items,
    Judgements,
    Log,
    Models,
    NewTenant,
    Queries,
    QueryVectors,
    Questions,
    Rank,
    Receipts,
    Rollback,
)

T = TypeVar("T")

#: items in one request
BATCH = 500


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the type of its answer."""

    method: str
    #: below that of the tenant
    path: str
    returns: type[T]
    body: Any = None
    query: Mapping[str, Any] | None = None
    #: whether it does no harm to ask again if the answer was lost
    repeatable: bool = True


def as_query(query: Any) -> Query:
    """A query: as it is, a text, the id of an item as ``{"item": …}``, a vector, or several."""
    if isinstance(query, Query):
        return query
    if isinstance(query, str):
        return Query(text=query)
    if isinstance(query, Mapping):
        if set(query) <= {"id", "text", "vectors", "item"}:
            vectors = query.get("vectors")
            plain = {**query, "vectors": _vectors(vectors)} if vectors is not None else query
            return msgspec.convert(plain, Query)
        return Query(vectors=_vectors(query))
    return Query(vectors=_vectors(query))


def _vectors(vectors: Any) -> dict[str, list[float]]:
    """Vectors by view; a single one is the view "vectors"."""
    named = vectors if isinstance(vectors, Mapping) else {"vectors": vectors}
    return {name: [float(value) for value in vector] for name, vector in named.items()}


def _signed(judgement: Any) -> Judgement:
    """A judgement with an id of its own."""
    if not isinstance(judgement, msgspec.Struct):
        judgement = msgspec.convert(judgement, Judgement)
    if judgement.id is None:
        judgement = structs.replace(judgement, id=uuid.uuid4().hex)
    return judgement


def feedback(judgements: Any) -> Call[Receipts]:
    """Send judgements, or a table of them, each with an id, so that a retry is recognized."""
    if hasattr(judgements, "columns"):
        # Tables need more of the library than a client is to import.
        from similia.service.client.sending import judgements_of_table

        judgements = judgements_of_table(judgements)
    body = Judgements(judgements=[_signed(judgement) for judgement in judgements])
    return Call("POST", "feedback", Receipts, body)


def triplet(query: Any, better: str, worse: str, named: dict[str, Any]) -> Call[Receipts]:
    """Send one judgement: an item is better than another."""
    return feedback([Triplet(query=as_query(query), better=better, worse=worse, **named)])


def rank(query: Any, named: dict[str, Any]) -> Call[Ranking]:
    """Rank items."""
    asked: Any = as_query(query)
    return Call("POST", "rank", Ranking, Rank(query=asked, **named))


def query_vectors(queries: Iterable[Any], model: Any) -> Call[QueryVectors]:
    """Transform queries."""
    asked: Any = [as_query(query) for query in queries]
    body = Queries(queries=asked, model=model)
    return Call("POST", "query-vectors", QueryVectors, body)


def put_items(items: Iterable[Item]) -> list[Call[Receipt]]:
    """Put items, some in each request."""
    found: list[Any] = list(items)
    starts = range(0, len(found), BATCH)
    return [Call("POST", "items", Receipt, Items(items=found[i : i + BATCH])) for i in starts]


def items_of(ids: Sequence[Any], vectors: Any, texts: Sequence[str] | None = None) -> list[Item]:
    """Items from ids and rows of a matrix, or of several by view.

    Parameters
    ----------
    ids : sequence of n ids
        Names of the items.
    vectors : array of shape (n, d), or a mapping of such arrays
        One row for each item.
    texts : sequence of n strings, optional
        What people see of them.

    Returns
    -------
    list of Item
    """
    views = vectors if isinstance(vectors, Mapping) else {"vectors": vectors}
    return [
        Item(
            id=str(name),
            vectors={view: [float(v) for v in matrix[i]] for view, matrix in views.items()},
            text=None if texts is None else texts[i],
        )
        for i, name in enumerate(ids)
    ]


def of_item(name: str, method: str, returns: type[T]) -> Call[T]:
    """Do something with one item."""
    return Call(method, f"items/{quote(name, safe='')}", returns)


def create(shares: str | None) -> Call[Created]:
    """Make the tenant itself."""
    return Call("PUT", "", Created, NewTenant(shares=shares))


def retract(name: str) -> Call[Receipt]:
    """Take a judgement back."""
    return Call("POST", f"feedback/{quote(name, safe='')}/retract", Receipt)


def rollback(to: int | None) -> Call[Model]:
    """Go back to a generation; the one before can be asked for only once."""
    return Call("POST", "rollback", Model, Rollback(to=to), repeatable=to is not None)


def history(at: datetime) -> Call[Then]:
    """Ask which model ranked."""
    return Call("GET", "history", Then, query={"at": at.astimezone().isoformat()})


def judgements(query: Mapping[str, Any]) -> Call[Log]:
    """List judgements."""
    return Call("GET", "feedback", Log, query=query)


def questions(n: int, judge: str | None) -> Call[Questions]:
    """Ask for questions to a person."""
    return Call("GET", "next", Questions, query={"n": n, "judge": judge})


#: whether a promotion happened is not asked twice
PROMOTE = Call("POST", "promote", Verdict, repeatable=False)
MODELS = Call("GET", "models", Models)
EVALUATE = Call("GET", "evaluate", Figures)
STATUS = Call("GET", "status", Status)
