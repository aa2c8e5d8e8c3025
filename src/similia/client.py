"""A client of a similia service: the library's words over HTTP, with retries that repeat nothing.

Judgements get an id before they are sent, so a retry is recognized as the same judgement.
"""

import asyncio
import random
import time
from collections.abc import Iterable
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from similia.exceptions import MissingExtraError
from similia.service.answers import (
    Figures,
    Model,
    Question,
    Ranking,
    Receipt,
    Status,
    Then,
    Verdict,
)
from similia.service.client import calls
from similia.service.client.calls import Call, as_query, items_of
from similia.service.http.problems import Error
from similia.service.log.records import (
    Item,
)
from similia.service.schemas import Log, QueryVectors

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("similia.client", "httpx", "client") from error

__all__ = ["AsyncClient", "Client", "ServiceProblem", "as_query", "items_of"]

T = TypeVar("T")
C = TypeVar("C", bound="Client")
A = TypeVar("A", bound="AsyncClient")

#: statuses that may pass: too many requests, not ready, a proxy without its service
PASSING = {429, 502, 503, 504}
LONGEST_WAIT = 10.0


class ServiceProblem(Exception):
    """A refusal by the service.

    Attributes
    ----------
    status : int
        Status of HTTP.
    request_id : str
        To find the request in the log of the service.
    rows : dict
        What is wrong with single rows of a batch, by their places.
    """

    def __init__(self, error: Error) -> None:
        super().__init__(f"{error.error} (status {error.status}, request {error.request_id})")
        self.status = error.status
        self.request_id = error.request_id
        self.rows = {int(row): why for row, why in (error.rows or {}).items()}


# -- how it is sent --------------------------------------------------------------------------------


class _Connection:
    """What both clients share: addresses, keys, when to try again."""

    def __init__(
        self, url: str, tenant: str, key: str | None, retries: int, timeout: float
    ) -> None:
        self.tenant, self.retries = tenant, retries
        headers = {"authorization": f"Bearer {key}"} if key else {}
        base = f"{url.rstrip('/')}/v1/{quote(tenant, safe='')}/"
        self._options: dict[str, Any] = {"base_url": base, "headers": headers, "timeout": timeout}

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        address = call.path or str(self._options["base_url"]).rstrip("/")
        given: dict[str, Any] = {"method": call.method, "url": address}
        if call.body is not None:
            given["content"] = msgspec.json.encode(call.body)
            given["headers"] = {"content-type": "application/json"}
        if call.query is not None:
            given["params"] = {k: v for k, v in call.query.items() if v is not None}
        return given

    def _pause(self, attempt: int, cause: httpx.Response | Exception, call: Call[Any]) -> float:
        """Seconds to wait before the next attempt; below 0 if there is to be none."""
        if attempt >= self.retries:
            return -1.0
        if isinstance(cause, httpx.Response):
            if cause.is_success or cause.status_code not in PASSING:
                return -1.0
            if cause.headers.get("retry-after", "").isdigit():
                return min(LONGEST_WAIT, float(cause.headers["retry-after"]))
        elif not (call.repeatable or isinstance(cause, httpx.ConnectError)):
            return -1.0
        return min(LONGEST_WAIT, 0.1 * 2**attempt) * (0.5 + random.random() / 2)

    def _answer(self, call: Call[T], response: httpx.Response) -> T:
        if response.is_success:
            return msgspec.json.decode(response.content, type=call.returns)
        try:
            error = msgspec.json.decode(response.content, type=Error)
        except msgspec.DecodeError:  # from a proxy
            request = response.headers.get("x-request-id", "unknown")
            error = Error(response.reason_phrase, response.status_code, request)
        raise ServiceProblem(error)


class Client(_Connection):
    """A service, from Python.

    Connections that break and services that restart are retried. That repeats nothing: a judgement
    carries its id, by which the service knows it again.

    Parameters
    ----------
    url : str
        Address of the service, such as ``http://127.0.0.1:8765``.
    tenant : str
        Whose judgements and items.
    key : str, optional
        API key.
    retries : int
        Times to try again.
    timeout : float
        Seconds to wait for an answer.
    """

    def __init__(
        self,
        url: str,
        tenant: str = "default",
        key: str | None = None,
        *,
        retries: int = 5,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(url, tenant, key, retries, timeout)
        self._http = httpx.Client(**self._options)

    def _send(self, call: Call[T]) -> T:
        request = self._request(call)
        for attempt in count():
            try:
                response = self._http.request(**request)
                pause = self._pause(attempt, response, call)
                if pause < 0:
                    return self._answer(call, response)
            except httpx.TransportError as error:
                pause = self._pause(attempt, error, call)
                if pause < 0:
                    raise
            time.sleep(pause)
        raise AssertionError

    def feedback(self, judgements: Any) -> list[Receipt]:
        """Send judgements, all stored or none; on the disk once this returns.

        They are records or dictionaries as the API takes them, or a table (pandas, polars, Arrow)
        with the columns query,better,worse or query,item,relevance, in which queries are items.
        """
        return self._send(calls.feedback(judgements)).results

    def prefer(self, query: Any, better: str, worse: str, **named: Any) -> Receipt:
        """Say that one item is better than another for a query."""
        return self._send(calls.triplet(query, better, worse, named)).results[0]

    def retract(self, id: str) -> Receipt:
        """Take a judgement back."""
        return self._send(calls.retract(id))

    def judgements(self, *, after: int = 0, limit: int = 100, **of: Any) -> Log:
        """List judgements, of a `query` or a `judge`, in the order of the log."""
        return self._send(calls.judgements({"after": after, "limit": limit, **of}))

    def rank(self, query: Any, **named: Any) -> Ranking:
        """Rank items; `k`, `items`, `min_seq`, `explain` and `model` as in the API."""
        return self._send(calls.rank(query, named))

    def query_vectors(self, queries: Iterable[Any], model: str = "live") -> QueryVectors:
        """Vectors to search with elsewhere."""
        return self._send(calls.query_vectors(queries, model))

    def put_items(self, items: Iterable[Item]) -> Receipt | None:
        """Add or replace items, in as many requests as needed; None if there are none."""
        last = None
        for call in calls.put_items(items):
            last = self._send(call)
        return last

    def item(self, id: str) -> Item:
        """An item."""
        return self._send(calls.of_item(id, "GET", Item))

    def delete_item(self, id: str) -> Receipt:
        """Delete an item."""
        return self._send(calls.of_item(id, "DELETE", Receipt))

    def next(self, n: int = 10, judge: str | None = None) -> list[Question]:
        """What to ask a person next."""
        return self._send(calls.questions(n, judge)).questions

    def models(self) -> list[Model]:
        """Generations that were promoted."""
        return self._send(calls.MODELS).models

    def promote(self) -> Verdict:
        """Promote what was learnt, if it is better."""
        return self._send(calls.PROMOTE)

    def rollback(self, to: int | None = None) -> Model:
        """Go back to an earlier generation."""
        return self._send(calls.rollback(to))

    def history(self, at: datetime) -> Then:
        """Which model ranked at a time."""
        return self._send(calls.history(at))

    def evaluate(self) -> Figures:
        """How good the ranking is on queries that were held out."""
        return self._send(calls.EVALUATE)

    def status(self) -> Status:
        """Where the tenant stands."""
        return self._send(calls.STATUS)

    def create(self, shares: str | None = None) -> bool:
        """Make the tenant, with items of its own or those of the tenant that it `shares`.

        False if it is there already. Needs a key of all tenants.
        """
        return self._send(calls.create(shares)).created

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(_Connection):
    """The same for asyncio; parameters and methods are those of `Client`."""

    def __init__(
        self,
        url: str,
        tenant: str = "default",
        key: str | None = None,
        *,
        retries: int = 5,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(url, tenant, key, retries, timeout)
        self._http = httpx.AsyncClient(**self._options)

    async def _send(self, call: Call[T]) -> T:
        request = self._request(call)
        for attempt in count():
            try:
                response = await self._http.request(**request)
                pause = self._pause(attempt, response, call)
                if pause < 0:
                    return self._answer(call, response)
            except httpx.TransportError as error:
                pause = self._pause(attempt, error, call)
                if pause < 0:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError

    async def feedback(self, judgements: Any) -> list[Receipt]:
        """Send judgements, all stored or none; on the disk once this returns.

        They are records or dictionaries as the API takes them, or a table (pandas, polars, Arrow)
        with the columns query,better,worse or query,item,relevance, in which queries are items.
        """
        return (await self._send(calls.feedback(judgements))).results

    async def prefer(self, query: Any, better: str, worse: str, **named: Any) -> Receipt:
        """Say that one item is better than another for a query."""
        return (await self._send(calls.triplet(query, better, worse, named))).results[0]

    async def retract(self, id: str) -> Receipt:
        """Take a judgement back."""
        return await self._send(calls.retract(id))

    async def judgements(self, *, after: int = 0, limit: int = 100, **of: Any) -> Log:
        """List judgements, of a `query` or a `judge`, in the order of the log."""
        return await self._send(calls.judgements({"after": after, "limit": limit, **of}))

    async def rank(self, query: Any, **named: Any) -> Ranking:
        """Rank items; `k`, `items`, `min_seq`, `explain` and `model` as in the API."""
        return await self._send(calls.rank(query, named))

    async def query_vectors(self, queries: Iterable[Any], model: str = "live") -> QueryVectors:
        """Vectors to search with elsewhere."""
        return await self._send(calls.query_vectors(queries, model))

    async def put_items(self, items: Iterable[Item]) -> Receipt | None:
        """Add or replace items, in as many requests as needed; None if there are none."""
        last = None
        for call in calls.put_items(items):
            last = await self._send(call)
        return last

    async def item(self, id: str) -> Item:
        """An item."""
        return await self._send(calls.of_item(id, "GET", Item))

    async def delete_item(self, id: str) -> Receipt:
        """Delete an item."""
        return await self._send(calls.of_item(id, "DELETE", Receipt))

    async def next(self, n: int = 10, judge: str | None = None) -> list[Question]:
        """What to ask a person next."""
        return (await self._send(calls.questions(n, judge))).questions

    async def models(self) -> list[Model]:
        """Generations that were promoted."""
        return (await self._send(calls.MODELS)).models

    async def promote(self) -> Verdict:
        """Promote what was learnt, if it is better."""
        return await self._send(calls.PROMOTE)

    async def rollback(self, to: int | None = None) -> Model:
        """Go back to an earlier generation."""
        return await self._send(calls.rollback(to))

    async def history(self, at: datetime) -> Then:
        """Which model ranked at a time."""
        return await self._send(calls.history(at))

    async def evaluate(self) -> Figures:
        """How good the ranking is on queries that were held out."""
        return await self._send(calls.EVALUATE)

    async def status(self) -> Status:
        """Where the tenant stands."""
        return await self._send(calls.STATUS)

    async def create(self, shares: str | None = None) -> bool:
        """Make the tenant, with items of its own or those of the tenant that it `shares`.

        False if it is there already. Needs a key of all tenants.
        """
        return (await self._send(calls.create(shares))).created

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
