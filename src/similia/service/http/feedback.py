"""Operations on judgements: from a request to the log, many requests in one commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from similia.service import schemas as s
from similia.service.answers import Logged, Receipt
from similia.service.errors import Invalid, ServiceError
from similia.service.http.endpoints import JUDGE, READ, V1, Call, Endpoint
from similia.service.http.keys import Key
from similia.service.http.problems import Problem
from similia.service.http.ubi import judgements_of
from similia.service.log.log import Appended, Entry, Log
from similia.service.log.records import Judgement
from similia.service.log.writer import Request
from similia.service.tenants.checks import receipts

#: judgements, and numbers in their vectors, that are checked on the loop; more take a thread
MAX_PROMPT_JUDGEMENTS, MAX_PROMPT_NUMBERS = 128, 4096
#: rows of the log in one part of an answer
ROWS_A_PART = 50

_encode = msgspec.json.encode


async def feedback(call: Call) -> s.Receipts:
    """Store judgements and learn from them.

    One judgement, or several as `{"judgements": […]}`. The answer means that they are on the disk.
    The same id and body again is a duplicate and changes nothing; the same id with another body
    is refused.
    """
    body: Any = call.body
    return await stored(call, body.judgements if isinstance(body, s.NewJudgements) else [body])


async def feedback_ubi(call: Call) -> s.Receipts:
    """Store searches and clicks of User Behavior Insights.

    Send a search with all of its events, once it is over: the specification has no ids of events,
    so a search that is sent again with more events counts again.
    """
    return await stored(call, judgements_of(call.body))


async def stored(call: Call, given: Sequence[Judgement]) -> s.Receipts:
    """Check judgements, find their queries' vectors, and store them."""
    service, tenant = call.service, call.tenant
    service.check_batch("judgements", given)
    ready = await _with_vectors(call, [_signed(judgement, call.key) for judgement in given])
    if not ready:
        return s.Receipts([])
    elsewhere = service.elsewhere(tenant)
    if elsewhere is not None:
        await call.run_in("write", elsewhere.bring, tenant, ready)
    uploaded = "admin" in call.key.scopes
    entries = tenant.entries_at_once(ready, uploaded=uploaded) if _is_small(ready) else None
    if entries is None:
        entries = await call.run_in("write", tenant.entries, ready, uploaded=uploaded)
    found = receipts(entries, await service.commits(tenant).append(entries))
    known = sum([receipt.duplicate for receipt in found])
    service.metrics.acknowledge(tenant.name, len(found) - known, known)
    return s.Receipts(found)


def _signed(judgement: Judgement, key: Key) -> Judgement:
    """A judge's key signs with the judge's name; only owners say what is trusted."""
    if judgement.trusted and "admin" not in key.scopes:
        raise Problem(403, "trusted judgements need a key for admin.")
    if key.judge is None or judgement.judge == key.judge:
        return judgement
    if judgement.judge is not None:
        raise Problem(403, "judge must be the judge of the key, or be left out.")
    return structs.replace(judgement, judge=key.judge)


async def _with_vectors(call: Call, given: list[Judgement]) -> list[Judgement]:
    """Judgements whose queries have what is known of them."""
    service = call.service
    found = []
    for row, judgement in enumerate(given):
        query = judgement.query
        if query.vectors is not None:
            try:
                service.check_vectors("query.vectors", query.vectors)
            except Invalid as error:
                raise Invalid(str(error), {row: str(error)}) from None
        elif query.item is None or service.elsewhere(call.tenant) is not None:
            judgement = structs.replace(judgement, query=await service.resolved(call, query))
        found.append(judgement)
    return found


def _is_small(judgements: Sequence[Judgement]) -> bool:
    if len(judgements) > MAX_PROMPT_JUDGEMENTS:
        return False
    given = [judgement.query.vectors for judgement in judgements]
    return sum(len(row) for each in given if each for row in each.values()) <= MAX_PROMPT_NUMBERS


class Commits:
    """Appends to a log without a thread for each request.

    Requests of one turn of the loop wake the log's thread once, and those of one commit the loop.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Request] = []
        #: one object, by which the log knows which requests belong together
        self._told = self._tell

    async def append(self, entries: Sequence[Entry]) -> list[Appended]:
        """Store all entries or none; return once they are on the disk."""
        request = Request(entries, self._told, self._loop.create_future())
        self._gathered.append(request)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._send)
        await request.waiter
        if isinstance(request.answer, ServiceError):
            raise request.answer
        assert request.answer is not None
        return request.answer

    def _send(self) -> None:
        requests, self._gathered = self._gathered, []
        try:
            self.log.send(*requests)
        except ServiceError as error:
            for request in requests:
                request.answer = error
            _wake(requests)

    def _tell(self, requests: list[Request]) -> None:
        """Wake those who wait; called by the thread that wrote."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(_wake, requests)


def _wake(requests: list[Request]) -> None:
    for request in requests:
        if not request.waiter.done():
            request.waiter.set_result(None)


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


async def judgements(call: Call) -> AsyncIterator[bytes]:
    """List judgements in the order of the log."""
    page: s.LogPage = call.query

    def rows(after: int, limit: int) -> list[Logged]:
        most = min(limit, ROWS_A_PART)
        return call.tenant.judgements(after, most, query=page.query, judge=page.judge)

    async def parts(found: list[Logged], left: int) -> AsyncIterator[bytes]:
        before = b'{"judgements":['
        while found:
            yield before + b",".join(map(_encode, found))
            before, left = b",", left - len(found)
            found = await call.go_on("bulk", rows, found[-1].seq, left) if left else []
        yield b"]}" if before == b"," else before + b"]}"

    return parts(await call.run(rows, page.after, page.limit), page.limit)


FEEDBACK_ENDPOINTS = [
    Endpoint(
        "POST",
        f"{V1}/feedback",
        feedback,
        JUDGE,
        s.Receipts,
        body=s.NewJudgement,
        batch=s.NewJudgements,
        errors=(409, 507),
    ),
    Endpoint(
        "GET", f"{V1}/feedback", judgements, READ, s.LoggedJudgements, query=s.LogPage, lane="bulk"
    ),
    Endpoint(
        "POST",
        f"{V1}/feedback/ubi",
        feedback_ubi,
        JUDGE,
        s.Receipts,
        body=s.UbiDocuments,
        errors=(409, 507),
    ),
    Endpoint(
        "POST",
        f"{V1}/feedback/{{id}}/retract",
        retract,
        JUDGE,
        Receipt,
        errors=(507,),
        lane="write",
    ),
]
