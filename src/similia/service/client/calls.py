"""What can be asked of a service: one function for each request, which both clients send."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import structs

from similia.service.answers import (
    Figures,
    Model,
    ModelAt,
    Question,
    Ranking,
    Receipt,
    Status,
    Verdict,
)
from similia.service.log.records import EXAM, Item, Judgement, Query, Triplet
from similia.service.schemas import (
    Created,
    LoggedJudgements,
    Models,
    NewItems,
    NewJudgements,
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
ITEMS_PER_REQUEST = 500


@dataclass(frozen=True)
class ServiceCall(Generic[T]):
    """A request, and what its answer means."""

    method: str
    #: below that of the tenant
    path: str
    #: the type of the answer
    answer: Any
    body: Any = None
    query: Mapping[str, Any] | None = None
    #: whether it does no harm to ask again if the answer was lost
    repeatable: bool = True
    #: from the answer to what the client returns
    take: Callable[[Any], T] = lambda answer: answer


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


def _identified(judgement: Any) -> Judgement:
    """A judgement with an id of its own."""
    if not isinstance(judgement, msgspec.Struct):
        judgement = msgspec.convert(judgement, Judgement)
    if judgement.id is None:
        judgement = structs.replace(judgement, id=uuid.uuid4().hex)
    return judgement


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


# -- requests ----------------------------------------------------------------------------------


def feedback(judgements: Any, queries: str = "item") -> ServiceCall[list[Receipt]]:
    """Send judgements, all stored or none; on the disk once this returns.

    They are records or dictionaries as the API takes them, or a table (pandas, polars, Arrow, a
    dictionary of arrays) with the columns query,better,worse, query,item,relevance, or
    query,item,click and what else a log has. `queries` says what the queries of a table are: each
    an "item", an "id" of a known query, or a "text" that people typed. Each judgement gets an id,
    by which the service recognizes a retry.
    """
    if hasattr(judgements, "columns") or (
        isinstance(judgements, Mapping) and "query" in judgements
    ):
        # Tables need more of the library than a client is to import.
        from similia.service.client.sending import judgements_of_table

        judgements = judgements_of_table(judgements, queries)
    body = NewJudgements(judgements=[_identified(judgement) for judgement in judgements])
    return ServiceCall("POST", "feedback", Receipts, body, take=lambda answer: answer.results)


def examine(judgements: Any, queries: str = "item") -> ServiceCall[list[Receipt]]:
    """Upload judged queries for exams, as `feedback` takes them: nothing is learnt from them.

    Needs a key for admin. Queries that something was learnt about do not count. Ask `evaluate`
    then.
    """
    call = feedback(judgements, queries)
    body = [structs.replace(judgement, source=EXAM) for judgement in call.body.judgements]
    return replace(call, body=NewJudgements(judgements=body))


def prefer(query: Any, better: str, worse: str, **named: Any) -> ServiceCall[Receipt]:
    """Say that one item is better than another for a query."""
    triplet = Triplet(query=as_query(query), better=better, worse=worse, **named)
    body = NewJudgements(judgements=[_identified(triplet)])
    return ServiceCall("POST", "feedback", Receipts, body, take=lambda answer: answer.results[0])


def retract(id: str) -> ServiceCall[Receipt]:
    """Take a judgement back."""
    return ServiceCall("POST", f"feedback/{quote(id, safe='')}/retract", Receipt)


def judgements(*, after: int = 0, limit: int = 100, **of: Any) -> ServiceCall[LoggedJudgements]:
    """List judgements, of a `query` or a `judge`, in the order of the log."""
    return ServiceCall(
        "GET", "feedback", LoggedJudgements, query={"after": after, "limit": limit, **of}
    )


def rank(query: Any, **named: Any) -> ServiceCall[Ranking]:
    """Rank items; `k`, `items`, `min_seq`, `explain` and `model` as in the API."""
    asked: Any = as_query(query)
    return ServiceCall("POST", "rank", Ranking, Rank(query=asked, **named))


def query_vectors(queries: Iterable[Any], model: Any = "live") -> ServiceCall[QueryVectors]:
    """Vectors to search with elsewhere."""
    asked: Any = [as_query(query) for query in queries]
    return ServiceCall("POST", "query-vectors", QueryVectors, Queries(queries=asked, model=model))


def put_items(items: Iterable[Item]) -> list[ServiceCall[Receipt]]:
    """Put items, some in each request."""
    found: list[Any] = list(items)
    starts = range(0, len(found), ITEMS_PER_REQUEST)
    batches = [NewItems(items=found[start : start + ITEMS_PER_REQUEST]) for start in starts]
    return [ServiceCall("POST", "items", Receipt, batch) for batch in batches]


def item(id: str) -> ServiceCall[Item]:
    """An item."""
    return ServiceCall("GET", f"items/{quote(id, safe='')}", Item)


def delete_item(id: str) -> ServiceCall[Receipt]:
    """Delete an item."""
    return ServiceCall("DELETE", f"items/{quote(id, safe='')}", Receipt)


def next(n: int = 10, judge: str | None = None) -> ServiceCall[list[Question]]:
    """What to ask a person next."""
    asked = {"n": n, "judge": judge}
    return ServiceCall("GET", "next", Questions, query=asked, take=lambda answer: answer.questions)


def models() -> ServiceCall[list[Model]]:
    """Generations that were promoted."""
    return ServiceCall("GET", "models", Models, take=lambda answer: answer.models)


def promote() -> ServiceCall[Verdict]:
    """Promote what was learnt, if it is better."""
    return ServiceCall("POST", "promote", Verdict, repeatable=False)


def rollback(to: int | None = None) -> ServiceCall[Model]:
    """Go back to an earlier generation, by default the one before."""
    return ServiceCall("POST", "rollback", Model, Rollback(to=to), repeatable=to is not None)


def history(at: datetime) -> ServiceCall[ModelAt]:
    """Which model ranked at a time."""
    return ServiceCall("GET", "history", ModelAt, query={"at": at.astimezone().isoformat()})


def evaluate() -> ServiceCall[Figures]:
    """How good the ranking is on queries that were held out."""
    return ServiceCall("GET", "evaluate", Figures)


def status() -> ServiceCall[Status]:
    """Where the tenant stands."""
    return ServiceCall("GET", "status", Status)


def create(shares: str | None = None) -> ServiceCall[bool]:
    """Make the tenant, with items of its own or those of the tenant that it `shares`.

    False if it is there already. Needs a key of all tenants.
    """
    body = NewTenant(shares=shares)
    return ServiceCall("PUT", "", Created, body, take=lambda answer: answer.created)
