"""A client of a similia service: the library's words over HTTP, with retries that repeat nothing.

Judgements get an id before they are sent, so the service recognizes a retry.
"""

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

from similia.exceptions import MissingExtraError
from similia.service.answers import Receipt
from similia.service.client import calls
from similia.service.client.calls import ServiceCall, as_query, items_of
from similia.service.log.records import Item
from similia.service.schemas import Error

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("similia.client", "httpx", "client") from error

__all__ = ["AsyncClient", "Client", "ServiceProblem", "as_query", "items_of"]

T = TypeVar("T")
C = TypeVar("C", bound="Client")
A = TypeVar("A", bound="AsyncClient")
P = ParamSpec("P")

#: statuses that may pass: too many requests, not ready, a proxy without its service
RETRYABLE = {429, 502, 503, 504}
#: seconds between two attempts
MAX_PAUSE = 10.0


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
    """What both clients share: addresses, keys, retries."""

    _transport: ClassVar[Any]

    def __init__(
        self,
        url: str,
        tenant: str = "default",
        key: str | None = None,
        *,
        retries: int = 5,
        timeout: float = 30.0,
    ) -> None:
        self.tenant, self.retries = tenant, retries
        self._url = f"{url.rstrip('/')}/v1/{quote(tenant, safe='')}"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = self._transport(base_url=f"{self._url}/", headers=headers, timeout=timeout)

    def _request(self, call: ServiceCall[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {"method": call.method, "url": call.path or self._url}
        if call.body is not None:
            given["content"] = msgspec.json.encode(call.body)
            given["headers"] = {"content-type": "application/json"}
        if call.query is not None:
            given["params"] = {k: v for k, v in call.query.items() if v is not None}
        return given

    def _pause(
        self, attempt: int, cause: httpx.Response | Exception, call: ServiceCall[Any]
    ) -> float:
        """Seconds until the next attempt; negative to give up."""
        if attempt >= self.retries:
            return -1.0
        if isinstance(cause, httpx.Response):
            if cause.is_success or cause.status_code not in RETRYABLE:
                return -1.0
            if cause.headers.get("retry-after", "").isdigit():
                return min(MAX_PAUSE, float(cause.headers["retry-after"]))
        elif not (call.repeatable or isinstance(cause, httpx.ConnectError)):
            return -1.0
        return min(MAX_PAUSE, 0.1 * 2**attempt) * (0.5 + random.random() / 2)

    def _answer(self, call: ServiceCall[T], response: httpx.Response) -> T:
        if response.is_success:
            return call.take(msgspec.json.decode(response.content, type=call.answer))
        try:
            error = msgspec.json.decode(response.content, type=Error)
        except msgspec.DecodeError:  # from a proxy
            request = response.headers.get("x-request-id", "unknown")
            error = Error(response.reason_phrase, response.status_code, request)
        raise ServiceProblem(error)


def _method(send: Callable[..., Any], make: Callable[..., Any]) -> Any:
    """The method of a client that sends what `make` makes, with its name and documentation."""
    signature = inspect.signature(make)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    send.__name__ = send.__qualname__ = make.__name__
    send.__doc__ = make.__doc__
    parameters = [own, *signature.parameters.values()]
    returns = signature.return_annotation.__args__[0]
    shown = signature.replace(parameters=parameters, return_annotation=returns)
    send.__signature__ = shown  # type: ignore[attr-defined]
    return send


def _sent(make: Callable[P, ServiceCall[T]]) -> "Callable[Concatenate[Client, P], T]":
    found: Any = _method(lambda self, *given, **named: self._send(make(*given, **named)), make)
    return found


def _sent_soon(
    make: Callable[P, ServiceCall[T]],
) -> "Callable[Concatenate[AsyncClient, P], Awaitable[T]]":
    found: Any = _method(lambda self, *given, **named: self._send(make(*given, **named)), make)
    return found


class Client(_Connection):
    """A service, from Python.

    Requests are retried when connections break or services restart. Nothing is counted twice: the
    service recognizes a judgement by its id.

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

    _transport = httpx.Client

    def _send(self, call: ServiceCall[T]) -> T:
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

    feedback = _sent(calls.feedback)
    examine = _sent(calls.examine)
    prefer = _sent(calls.prefer)
    retract = _sent(calls.retract)
    judgements = _sent(calls.judgements)
    rank = _sent(calls.rank)
    query_vectors = _sent(calls.query_vectors)
    item = _sent(calls.item)
    delete_item = _sent(calls.delete_item)
    next = _sent(calls.next)
    models = _sent(calls.models)
    promote = _sent(calls.promote)
    rollback = _sent(calls.rollback)
    history = _sent(calls.history)
    evaluate = _sent(calls.evaluate)
    status = _sent(calls.status)
    create = _sent(calls.create)

    def put_items(self, items: Iterable[Item]) -> Receipt | None:
        """Add or replace items, in as many requests as needed; None if there are none."""
        last = None
        for call in calls.put_items(items):
            last = self._send(call)
        return last

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

    _transport = httpx.AsyncClient

    async def _send(self, call: ServiceCall[T]) -> T:
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

    feedback = _sent_soon(calls.feedback)
    examine = _sent_soon(calls.examine)
    prefer = _sent_soon(calls.prefer)
    retract = _sent_soon(calls.retract)
    judgements = _sent_soon(calls.judgements)
    rank = _sent_soon(calls.rank)
    query_vectors = _sent_soon(calls.query_vectors)
    item = _sent_soon(calls.item)
    delete_item = _sent_soon(calls.delete_item)
    next = _sent_soon(calls.next)
    models = _sent_soon(calls.models)
    promote = _sent_soon(calls.promote)
    rollback = _sent_soon(calls.rollback)
    history = _sent_soon(calls.history)
    evaluate = _sent_soon(calls.evaluate)
    status = _sent_soon(calls.status)
    create = _sent_soon(calls.create)

    async def put_items(self, items: Iterable[Item]) -> Receipt | None:
        """Add or replace items, in as many requests as needed; None if there are none."""
        last = None
        for call in calls.put_items(items):
            last = await self._send(call)
        return last

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
