"""Operations on items, and what is found among them."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import structs

from similia.service import schemas as s
from similia.service.answers import Ranking, Receipt, Status
from similia.service.errors import Invalid, NotFound
from similia.service.http.budgets import LaneName
from similia.service.http.calls import Call
from similia.service.http.endpoints import ADMIN, READ, SEE, V1, endpoint
from similia.service.log.records import Item, Query
from similia.service.tenants.tenant import Tenant

#: ranked items up to which explaining takes no longer than ranking
MAX_PROMPT_EXPLANATIONS = 50
#: queries transformed at a time, so that other work gets its turn
QUERIES_A_PIECE = 10

_encode = msgspec.json.encode


@endpoint("POST", f"{V1}/rank", READ, body=s.Rank, lane="search")
async def rank(call: Call) -> Ranking:
    """Rank items for a query by what was learnt.

    With `min_seq`, the answer waits until that place in the log has been learnt.
    """
    asked: s.Rank = call.body
    service, tenant = call.service, call.tenant
    most = service.settings.max_k
    if asked.k > most:
        raise Invalid(f"k must be at most {most}, got {asked.k}.")
    query = await service.resolved(call, asked.query)
    elsewhere = service.elsewhere(tenant)
    lane: LaneName = "bulk" if asked.explain and asked.k > MAX_PROMPT_EXPLANATIONS else "search"
    if asked.min_seq is not None:
        if asked.min_seq > tenant.log.last:
            await call.run_in("look", tenant.expect, asked.min_seq, admitted=True)
        await call.learnt(tenant, asked.min_seq)
        lane = "wait" if lane == "search" else lane  # one published state may wake many
    await call.item_known(query)
    return await call.run_in(
        lane,
        tenant.rank,
        query,
        asked.k,
        items=asked.items,
        explain=asked.explain,
        model=asked.model,
        store=elsewhere,
        timeout=0,
    )


@endpoint(
    "POST", f"{V1}/query-vectors", READ, returns=s.QueryVectors, body=s.Queries, lane="search"
)
async def query_vectors(call: Call) -> AsyncIterator[bytes]:
    """Vectors to search with elsewhere, by what was learnt."""
    asked: s.Queries = call.body
    call.check_batch("queries", asked.queries)
    queries = [await call.service.resolved(call, query) for query in asked.queries]
    for query in queries:
        await call.item_known(query)
    lane: LaneName = "search" if len(queries) <= QUERIES_A_PIECE else "bulk"

    pieces = [
        (call.tenant, queries[start : start + QUERIES_A_PIECE], asked.model)
        for start in range(0, len(queries), QUERIES_A_PIECE)
    ]

    async def parts(found: list[tuple[dict[str, list[float]], str]]) -> AsyncIterator[bytes]:
        yield b'{"vectors":[' + _joined(found)
        for piece in pieces[1:]:
            found = await call.run_in(lane, _transformed, *piece, admitted=True)
            yield b"," + _joined(found)
        yield b'],"revision":%s}' % _encode(found[-1][1])

    return parts(await call.run_in(lane, _transformed, *pieces[0]))


def _joined(found: list[tuple[dict[str, list[float]], str]]) -> bytes:
    return b",".join([_encode(vectors) for vectors, _ in found])


def _transformed(
    tenant: Tenant, queries: Sequence[Query], model: str
) -> list[tuple[dict[str, list[float]], str]]:
    return [tenant.query_vectors(query, model=model, timeout=0) for query in queries]


@endpoint("POST", f"{V1}/items", ADMIN, body=s.NewItems, errors=(507,), lane="write")
async def put_items(call: Call) -> Receipt:
    """Add items, or put them in place of those with the same ids."""
    call.tenant.check_prompt()
    call.check_batch("items", call.body.items)
    for item in call.body.items:
        call.check_vectors("vectors", item.vectors)
    items = await call.service.embedded(call.tenant, call.body.items)
    return await call.run(call.tenant.put_items, items)


@endpoint("PUT", f"{V1}/items/{{id}}", ADMIN, body=s.ItemBody, errors=(507,), lane="write")
async def put_item(call: Call) -> Receipt:
    """Add an item, or put it in place of the one with the same id."""
    call.tenant.check_prompt()
    item = Item(id=call.path["id"], **structs.asdict(call.body))
    call.check_vectors("vectors", item.vectors)
    return await call.run(call.tenant.put_items, await call.service.embedded(call.tenant, [item]))


@endpoint("GET", f"{V1}/items/{{id}}", SEE)
async def item(call: Call) -> Item:
    """An item."""
    await call.learnt(call.tenant.home)
    found = await call.run(call.tenant.item, call.path["id"], timeout=0)
    if found is None:
        raise NotFound(f"there is no item {call.path['id']!r:.80}.")
    return found


@endpoint("DELETE", f"{V1}/items/{{id}}", ADMIN, errors=(507,), lane="write")
async def delete_item(call: Call) -> Receipt:
    """Delete an item."""
    call.tenant.check_prompt()
    return await call.run(call.tenant.delete_items, [call.path["id"]])


@endpoint("GET", f"{V1}/status", SEE)
async def status(call: Call) -> Status:
    """Where the tenant stands: counts, what is learnt, how far it is trusted."""
    tenant = call.tenant
    # Without reading no thread is needed; one would compete with rankings.
    return tenant.status() if tenant.log.is_counted else await call.run(tenant.status)
