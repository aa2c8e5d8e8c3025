"""Operations on judgements: from a request to the log, many requests in one commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any
from weakref import ref

import msgspec
from msgspec import structs

from similia.service import schemas as s
from similia.service.answers import Logged, Receipt
from similia.service.catalogue.external import ExternalItems
from similia.service.errors import Invalid, Problem, ServiceError
from similia.service.http.calls import Call
from similia.service.http.endpoints import JUDGE, READ, V1, endpoint
from similia.service.http.keys import Key
from similia.service.http.ubi import judgements_of
from similia.service.log.provenance import asking_key
from similia.service.log.records import ASKED, JUDGEMENTS, Judgement, decoded
from similia.service.log.rows import Appended, Entry, Row
from similia.service.log.writer import Request, RowSource
from similia.service.tenants.checks import receipts

#: judgements, and numbers in their vectors, that are checked on the loop; more take a thread
MAX_PROMPT_JUDGEMENTS, MAX_PROMPT_NUMBERS = 128, 4096
#: rows of the log in one part of an answer
ROWS_A_PART = 50

_encode = msgspec.json.encode


@endpoint(
    "POST", f"{V1}/feedback", JUDGE, body=s.NewJudgement, batch=s.NewJudgements, errors=(409, 507)
)
async def feedback(call: Call) -> s.Receipts:
    """Store judgements and learn from them.

    One judgement, or several as `{"judgements": […]}`. The answer means that they are on the disk.
    The same id and body again is a duplicate and changes nothing; the same id with another body
    is refused.
    """
    body: Any = call.body
    return await stored(call, body.judgements if isinstance(body, s.NewJudgements) else [body])


@endpoint("POST", f"{V1}/feedback/ubi", JUDGE, body=s.UbiDocuments, errors=(409, 507))
async def feedback_ubi(call: Call) -> s.Receipts:
    """Store searches and clicks of User Behavior Insights.

    Send a search with all of its events, once it is over: the specification has no ids of events,
    so a search that is sent again with more events counts again.
    """
    return await stored(call, judgements_of(call.body))


async def stored(call: Call, given: Sequence[Judgement]) -> s.Receipts:
    """Check judgements, find their queries' vectors, and store them."""
    service, tenant = call.service, call.tenant
    call.check_batch("judgements", given)
    if not given:
        return s.Receipts([])
    elsewhere = service.elsewhere(tenant)
    ready = await _ready(call, given, elsewhere)
    if elsewhere is not None:
        await call.run_in("search", elsewhere.bring, tenant, ready)
    vectors = [row for each in ready if each.query.vectors for row in each.query.vectors.values()]
    is_short = len(ready) <= MAX_PROMPT_JUDGEMENTS and sum(map(len, vectors)) <= MAX_PROMPT_NUMBERS
    check = partial(tenant.checked, ready, uploaded="admin" in call.key.scopes)
    try:
        entries, mark = check() if is_short else await call.run_in("check", check)
    except Invalid:  # perhaps an item was put just now
        await call.learnt(tenant.home)
        entries, mark = await call.run_in("check", check, admitted=not is_short)
    if mark:
        tenant.check_prompt()
        await call.run_in("check", tenant.follow, mark, admitted=not is_short)
    writer = tenant.log.writer
    if (commits := service.commits.get(writer)) is None:
        commits = service.commits[writer] = Commits(writer)
    found = receipts(entries, await commits.append(entries))
    known = sum([receipt.duplicate for receipt in found])
    for n, duplicate in ((len(found) - known, "false"), (known, "true")):
        if n:
            service.metrics.acknowledged(tenant.name, duplicate).inc(n)
    return s.Receipts(found)


async def _ready(
    call: Call, given: Sequence[Judgement], elsewhere: ExternalItems | None
) -> list[Judgement]:
    """Judgements signed by the key's judge, their queries with all vectors that are known."""
    key, found = call.key, []
    for row, judgement in enumerate(given):
        if judgement.trusted and "admin" not in key.scopes:
            raise Problem(403, "trusted judgements need a key for admin.")
        if key.judge is not None and judgement.judge != key.judge:
            if judgement.judge is not None:
                raise Problem(403, "judge must be the judge of the key, or be left out.")
            judgement = structs.replace(judgement, judge=key.judge)
        query = judgement.query
        if query.vectors is not None:
            try:
                call.check_vectors("query.vectors", query.vectors)
            except Invalid as error:
                raise Invalid(str(error), {row: str(error)}) from None
            judgement = structs.replace(
                judgement, query=call.service.with_words(call.tenant, query)
            )
        elif query.item is None or elsewhere is not None:
            judgement = structs.replace(judgement, query=await call.service.resolved(call, query))
        found.append(judgement)
    return found


class Commits:
    """Appends to a log without a thread for each request.

    Requests that arrive in one turn of the loop wake the log's thread once; a commit wakes the loop
    once for all of its requests.
    """

    def __init__(self, writer: RowSource) -> None:
        self._writer = ref(writer)  # which a request that waits keeps
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Request] = []
        #: one bound method for all requests, as the log groups them by their callback
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
        writer = self._writer()
        assert writer is not None
        try:
            writer.send(*requests)
        except ServiceError as error:
            for request in requests:
                request.answer = error
            _wake(requests)

    def _tell(self, requests: list[Request]) -> None:
        """Wake the waiting requests; called by the writing thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(_wake, requests)


def _wake(requests: list[Request]) -> None:
    for request in requests:
        if not request.waiter.done():
            request.waiter.set_result(None)


@endpoint("POST", f"{V1}/feedback/{{id}}/retract", JUDGE, errors=(507,), lane="write")
async def retract(call: Call) -> Receipt:
    """Take a judgement back.

    It stays in the log, with a row that retracts it, and what was learnt from it is unlearnt.
    """
    key = call.key
    call.tenant.check_prompt()
    if key.judge is not None or "admin" not in key.scopes:
        found = await call.run(call.tenant.log.find, call.path["id"])
        if key.judge is not None and (found is None or found.judge != key.judge):
            raise Problem(403, "a judge's key takes back that judge's judgements only.")
        if key.judge is None and found is not None and not _may_take_back(key, found):
            raise Problem(
                403,
                "answers to questions, and what administrators sent, are taken back by whom they "
                "are from, or with a key for admin.",
            )
    return await call.run(call.tenant.retract, call.path["id"], by=key.judge or key.id)


def _may_take_back(key: Key, row: Row) -> bool:
    """Whether a key without a judge of its own may: exams are not chosen by taking answers back."""
    body = decoded(row.body)
    if not body.provenance or not isinstance(body.record, JUDGEMENTS):
        return True
    if body.provenance == ASKED:
        return asking_key(body.record) == key.id or bool(key.name and row.judge == key.name)
    return False


@endpoint("GET", f"{V1}/feedback", READ, returns=s.LoggedJudgements, query=s.LogPage, lane="bulk")
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
            if left:
                found = await call.run_in("bulk", rows, found[-1].seq, left, admitted=True)
            else:
                found = []
        yield b"]}" if before == b"," else before + b"]}"

    return parts(await call.run(rows, page.after, page.limit), page.limit)
