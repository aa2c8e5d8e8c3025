"""Operations on judgements, items and rankings of a tenant."""

from typing import Any

from msgspec import structs

from similia.service import schemas as s
from similia.service.answers import Ranking, Receipt, Status
from similia.service.errors import NotFound
from similia.service.http.endpoints import Call, Endpoint
from similia.service.http.problems import Problem
from similia.service.http.ubi import judgements_of
from similia.service.log.records import Item, Judgement

READ, JUDGE, OWN = ("read",), ("feedback",), ("admin",)
SEE = ("read", "feedback")


async def feedback(call: Call) -> s.Receipts:
    """Store judgements and learn from them.

    One judgement, or several as `{"judgements": […]}`. The answer means that they are on the disk.
    The same id and body again is a duplicate and changes nothing; the same id with another body
    is refused.
    """
    return await stored(call, given(call.body))


def given(body: Any) -> list[Judgement]:
    """Judgements of a body, which may be one."""
    return body.judgements if isinstance(body, s.Judgements) else [body]


async def feedback_ubi(call: Call) -> s.Receipts:
    """Store searches and clicks of User Behavior Insights.

    Send a search with all of its events, once it is over: the specification has no ids of events,
    so a search that is sent again with more events counts again.
    """
    return await stored(call, judgements_of(call.body))


async def stored(call: Call, given: list[Judgement]) -> s.Receipts:
    """Check judgements, find their queries' vectors, and store them."""
    service = call.service
    checked = service.bounds.judgements(given, call.key)
    ready = []
    for judgement in checked:
        asked = judgement.query
        # Items that are elsewhere are copied with the judgement, so they need no vectors here.
        known = asked.item or asked.vectors
        query = asked if known else await service.resolved(call.tenant, asked)
        ready.append(judgement if query is asked else structs.replace(judgement, query=query))
    elsewhere = service.elsewhere(call.tenant)
    if elsewhere is not None:
        await call.run(elsewhere.bring, call.tenant, ready)
    uploaded = "admin" in call.key.scopes
    committer = service.committer(call.tenant)
    receipts = await committer.store(ready, uploaded=uploaded) if ready else []
    new = sum(not receipt.duplicate for receipt in receipts)
    service.metrics.acknowledge(call.path["tenant"], new, len(receipts) - new)
    return s.Receipts(receipts)


async def retract(call: Call) -> Receipt:
    """Take a judgement back.

    It stays in the log, with a row that retracts it, and what was learnt from it is unlearnt.
    """
    judge = call.key.judge
    if judge is not None:
        found = await call.run(call.tenant.log.find, call.path["id"])
        if found is None or found.judge != judge:
            raise Problem(403, "a judge's key takes back that judge's judgements only.")
    return await call.run(call.tenant.retract, call.path["id"], by=judge or call.key.id)


async def judgements(call: Call) -> s.Log:
    """List judgements in the order of the log."""
    page: s.LogPage = call.query
    found = await call.run(
        call.tenant.judgements,
        after=page.after,
        limit=page.limit,
        query=page.query,
        judge=page.judge,
    )
    return s.Log(found)


async def rank(call: Call) -> Ranking:
    """Rank items for a query by what was learnt.

    With `min_seq`, the answer waits until that place in the log has been learnt.
    """
    asked: s.Rank = call.body
    service, limits = call.service, call.service.settings
    service.bounds.query(asked.query)
    service.bounds.ranking(asked.k, asked.items)
    query = await service.resolved(call.tenant, asked.query)
    elsewhere = service.elsewhere(call.tenant)
    return await call.run(
        call.tenant.rank,
        query,
        asked.k,
        items=asked.items,
        min_seq=asked.min_seq,
        explain=asked.explain,
        model=asked.model,
        timeout=limits.timeout * 0.9,
        store=elsewhere,
    )


async def query_vectors(call: Call) -> s.QueryVectors:
    """Vectors to search with elsewhere, by what was learnt."""
    asked: s.Queries = call.body
    call.service.bounds.batch("queries", asked.queries)
    for query in asked.queries:
        call.service.bounds.query(query)
    queries = [await call.service.resolved(call.tenant, query) for query in asked.queries]

    def work() -> s.QueryVectors:
        found = [call.tenant.query_vectors(query, model=asked.model) for query in queries]
        return s.QueryVectors(found[-1][1], [vectors for vectors, _ in found])

    return await call.run(work)


async def put_items(call: Call) -> Receipt:
    """Add items, or put them in place of those with the same ids."""
    call.service.bounds.batch("items", call.body.items)
    for item in call.body.items:
        call.service.bounds.item(item)
    return await call.run(call.tenant.put_items, call.body.items)


async def put_item(call: Call) -> Receipt:
    """Add an item, or put it in place of the one with the same id."""
    item = Item(id=call.path["id"], **structs.asdict(call.body))
    call.service.bounds.item(item)
    return await call.run(call.tenant.put_items, [item])


async def item(call: Call) -> Item:
    """An item."""
    found = await call.run(call.tenant.item, call.path["id"])
    if found is None:
        raise NotFound(f"there is no item {call.path['id']!r:.80}.")
    return found


async def delete_item(call: Call) -> Receipt:
    """Delete an item."""
    return await call.run(call.tenant.delete_items, [call.path["id"]])


async def status(call: Call) -> Status:
    """Where the tenant stands: counts, what is learnt, how far it is trusted."""
    return await call.run(call.tenant.status)


V1 = "/v1/{tenant}"
ENDPOINTS = [
    Endpoint(
        "POST",
        f"{V1}/feedback",
        feedback,
        JUDGE,
        s.Receipts,
        body=s.NewJudgement,
        batch=s.Judgements,
        errors=(409, 507),
    ),
    Endpoint("GET", f"{V1}/feedback", judgements, READ, s.Log, query=s.LogPage),
    Endpoint(
        "POST",
        f"{V1}/feedback/ubi",
        feedback_ubi,
        JUDGE,
        s.Receipts,
        body=s.UbiLog,
        errors=(409, 507),
    ),
    Endpoint("POST", f"{V1}/feedback/{{id}}/retract", retract, JUDGE, Receipt, errors=(507,)),
    Endpoint("POST", f"{V1}/rank", rank, READ, Ranking, body=s.Rank),
    Endpoint("POST", f"{V1}/query-vectors", query_vectors, READ, s.QueryVectors, body=s.Queries),
    Endpoint("POST", f"{V1}/items", put_items, OWN, Receipt, body=s.Items, errors=(507,)),
    Endpoint("GET", f"{V1}/items/{{id}}", item, SEE, Item),
    Endpoint("PUT", f"{V1}/items/{{id}}", put_item, OWN, Receipt, body=s.ItemBody, errors=(507,)),
    Endpoint("DELETE", f"{V1}/items/{{id}}", delete_item, OWN, Receipt, errors=(507,)),
    Endpoint("GET", f"{V1}/status", status, SEE, Status),
]
