"""Judgements of many requests, stored together: one trip to the log for all that wait."""

import asyncio
from collections import deque
from typing import NamedTuple

from similia.service.errors import Conflict, Invalid
from similia.service.records import Judgement, Receipt
from similia.service.tenant import Tenant
from similia.service.work import Pool

#: trips at a time: the log writes one while the next one gathers
TRIPS = 2
MOST_ROWS = 2000


class _Request(NamedTuple):
    judgements: list[Judgement]
    answer: "asyncio.Future[list[Receipt]]"


class Committer:
    """Stores what requests bring to a tenant; each request is stored whole or refused alone.

    Requests that wait are stored in one call. If one of them is refused, so is the call, and each
    is then stored by itself: nobody suffers from what somebody else has sent.
    """

    def __init__(self, tenant: Tenant, pool: Pool) -> None:
        self.tenant, self.pool = tenant, pool
        self._waiting: deque[_Request] = deque()
        self._trips: set[asyncio.Task[None]] = set()

    async def store(self, judgements: list[Judgement]) -> list[Receipt]:
        """Store judgements, all or none; return once they are on the disk."""
        answer: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(judgements, answer))
        if len(self._trips) < TRIPS:
            trip = asyncio.create_task(self._travel())
            self._trips.add(trip)
            trip.add_done_callback(self._trips.discard)
        return await answer

    async def _travel(self) -> None:
        while requests := self._taken():
            rows = [judgement for request in requests for judgement in request.judgements]
            try:
                receipts = await self.pool.run(self.tenant.feedback, rows)
            except (Invalid, Conflict) as error:
                if len(requests) > 1:
                    await asyncio.gather(*map(self._alone, requests))
                else:
                    _refuse(requests, error)
            except BaseException as error:
                _refuse(requests, error)
                if not isinstance(error, Exception):
                    raise
            else:
                start = 0
                for request in requests:
                    end = start + len(request.judgements)
                    if not request.answer.done():
                        request.answer.set_result(receipts[start:end])
                    start = end

    async def _alone(self, request: _Request) -> None:
        try:
            receipts = await self.pool.run(self.tenant.feedback, request.judgements)
        except Exception as error:
            _refuse([request], error)
        else:
            if not request.answer.done():
                request.answer.set_result(receipts)

    def _taken(self) -> list[_Request]:
        taken: list[_Request] = []
        rows = 0
        while self._waiting and (not taken or rows < MOST_ROWS):
            taken.append(self._waiting.popleft())
            rows += len(taken[-1].judgements)
        return taken


def _refuse(requests: list[_Request], error: BaseException) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(
                error if isinstance(error, Exception) else asyncio.CancelledError()
            )
