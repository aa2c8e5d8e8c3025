"""Judgements of many requests, stored together: the log commits all that wait at once."""

import asyncio
import contextlib
import logging

from similia.service.answers import Receipt
from similia.service.errors import ServiceError
from similia.service.http.work import Pool
from similia.service.log.log import Entry
from similia.service.log.records import Judgement
from similia.service.log.writer import Request
from similia.service.tenants.checks import receipts
from similia.service.tenants.tenant import Tenant

logger = logging.getLogger("similia.service")

#: judgements, and numbers in their vectors, that are prepared at once; more are work for a thread
FEW, FEW_NUMBERS = 128, 4096


class Committer:
    """Stores what requests bring to a tenant; each request is stored whole or refused alone.

    Nothing here waits but for the log: what is small is prepared where it arrives, and all
    requests of one commit are answered in one turn of the loop.
    """

    def __init__(self, tenant: Tenant, pool: Pool) -> None:
        self.tenant, self.pool = tenant, pool
        self._loop = asyncio.get_running_loop()
        #: tells requests of a commit; one object, by which the log knows that they belong together
        self.told = self._tell
        #: what came in this turn of the loop
        self._gathered: list[Request] = []

    def prepared(
        self, judgements: list[Judgement], *, uploaded: bool = False
    ) -> list[Entry] | None:
        """Entries of few judgements, without waiting; None if that is work for a thread."""
        if not _is_small(judgements):
            return None
        return self.tenant.entries_at_once(judgements, uploaded=uploaded)

    def plain(self, judgements: list[Judgement]) -> list[Entry] | None:
        """The same for judgements that need no more than a glance; None if any needs more."""
        return self.tenant.plain_entries(judgements) if len(judgements) <= FEW else None

    async def store(self, judgements: list[Judgement], *, uploaded: bool = False) -> list[Receipt]:
        """Store judgements, all or none; return once they are on the disk."""
        entries = self.prepared(judgements, uploaded=uploaded)
        if entries is None:
            entries = await self.pool.run(self.tenant.entries, judgements, uploaded=uploaded)
        answer: asyncio.Future[None] = self._loop.create_future()

        def waken(_: Request) -> None:
            if not answer.done():
                answer.set_result(None)

        request = Request(entries, self.told, waken)
        self.send(request)
        await answer
        if isinstance(request.answer, ServiceError):
            raise request.answer
        assert request.answer is not None
        return receipts(entries, request.answer)

    def send(self, request: Request) -> None:
        """Store a request with all others that come in this turn of the loop."""
        self._gathered.append(request)
        if len(self._gathered) == 1:
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        """Hand all that was gathered to the log, whose thread then wakes up once."""
        requests, self._gathered = self._gathered, []
        try:
            self.tenant.log.send(*requests)
        except ServiceError as error:
            for request in requests:
                request.answer = error
            _wake(requests)

    def _tell(self, requests: list[Request]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(_wake, requests)


def _wake(requests: list[Request]) -> None:
    for request in requests:
        waken, request.waken = request.waken, None  # whom it wakes mostly holds it
        try:
            if waken is not None:
                waken(request)
        except Exception:  # others wait
            logger.exception("An answer reached nobody.")


def _is_small(judgements: list[Judgement]) -> bool:
    if len(judgements) > FEW:
        return False
    given = [judgement.query.vectors for judgement in judgements]
    return sum(len(row) for each in given if each for row in each.values()) <= FEW_NUMBERS
