"""Operations on items, and what is found among them."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import structs

from similia.service import schemas as s
from similia.service.answers import Ranking, Receipt, Status
from similia.service.errors import NotFound
from similia.service.http.endpoints import ADMIN, READ, SEE, V1, Call, Endpoint
from similia.service.http.lanes import LaneName
from similia.service.log.records import Item, Query
from similia.service.tenants.tenant import Tenant

#: items whose ranking is explained as quickly as it is made
MAX_PROMPT_EXPLANATIONS = 50
#: queries that are transformed in one piece of work, so that others come in between
QUERIES_A_PIECE = 10

_encode = msgspec.json.encode


async def rank(call: Call) -> Ranking:
    """Rank items for a query by what was learnt.

    With `min_seq`, the answer waits until that place in the log has been learnt.
    """
    asked: s.Rank = call.body
    service, tenant = call.service, call.tenant
    service.check_ranking(asked.k)
    query = await service.resolved(call, asked.query)
    if asked.min_seq is not None:
        await service.learnt(tenant, asked.min_seq)
    elsewhere = service.elsewhere(tenant)
    lane: LaneName = "bulk" if asked.explain and asked.k > MAX_PROMPT_EXPLANATIONS else "search"
    return await call.run_in(
        lane,
        tenant.rank,
        query,
        asked.k,
        items=asked.items,
        explain=asked.explain,
        model=asked.model,
        store=elsewhere,
    )


async def query_vectors(call: Call) -> AsyncIterator[bytes]:
    """Vectors to search with elsewhere, by what was learnt."""
    asked: s.Queries = call.body
    call.service.check_batch("queries", asked.queries)
    queries = [await call.service.resolved(call, query) for query in asked.queries]
    lane: LaneName = "search" if len(queries) <= QUERIES_A_PIECE else "bulk"

    pieces = [
        (call.tenant, queries[start : start + QUERIES_A_PIECE], asked.model)
        for start in range(0, len(queries), QUERIES_A_PIECE)
    ]

    async def parts(found: list[tuple[dict[str, list[float]], str]]) -> AsyncIterator[bytes]:
        yield b'{"vectors":[' + _joined(found)
        for piece in pieces[1:]:
            found = await call.go_on(lane, _transformed, *piece)
            yield b"," + _joined(found)
        yield b'],"revision":%s}' % _encode(found[-1][1])

    return parts(await call.run_in(lane, _transformed, *pieces[0]))


def _joined(found: list[tuple[dict[str, list[float]], str]]) -> bytes:
    return b",".join([_encode(vectors) for vectors, _ in found])


def _transformed(
    tenant: Tenant, queries: Sequence[Query], model: str
) -> list[tuple[dict[str, list[float]], str]]:
    return [tenant.query_vectors(query, model=model) for query in queries]


async def put_items(call: Call) -> Receipt:
    """Add items, or put them in place of those with the same ids."""
    call.service.check_batch("items", call.body.items)
    for item in call.body.items:
        call.service.check_vectors("vectors", item.vectors)
    return await call.run(call.tenant.put_items, call.body.items)


async def put_item(call: Call) -> Receipt:
    """Add an item, or put it in place of the one with the same id."""
    item = Item(id=call.path["id"], **structs.asdict(call.body))
    call.service.check_vectors("vectors", item.vectors)
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


RANKING_ENDPOINTS = [
    Endpoint("POST", f"{V1}/rank", rank, READ, Ranking, body=s.Rank),
    Endpoint("POST", f"{V1}/query-vectors", query_vectors, READ, s.QueryVectors, body=s.Queries),
    Endpoint(
        "POST",
        f"{V1}/items",
        put_items,
        ADMIN,
        Receipt,
        body=s.NewItems,
        errors=(507,),
        lane="write",
    ),
    Endpoint("GET", f"{V1}/items/{{id}}", item, SEE, Item),
    Endpoint(
        "PUT",
        f"{V1}/items/{{id}}",
        put_item,
        ADMIN,
        Receipt,
        body=s.ItemBody,
        errors=(507,),
        lane="write",
    ),
    Endpoint(
        "DELETE", f"{V1}/items/{{id}}", delete_item, ADMIN, Receipt, errors=(507,), lane="write"
    ),
    Endpoint("GET", f"{V1}/status", status, SEE, Status),
]
