"""One request: who sends it, its body, its endpoint, its answer, its line in the log."""

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sized
from functools import partial
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from similia.service.errors import Gone, Invalid, Problem, ServiceError
from similia.service.http import journal
from similia.service.http.budgets import LaneName
from similia.service.http.keys import VISITOR
from similia.service.log.records import Query
from similia.service.schemas import Error

if TYPE_CHECKING:
    from similia.service.http.app import Service
    from similia.service.http.endpoints import Endpoint
    from similia.service.http.server import Connection
    from similia.service.tenants.tenant import Tenant

T = TypeVar("T")
Header = tuple[bytes, bytes]

#: finds the row of a batch in an error
ROW = re.compile(r"`\$\.(?:judgements|items|queries)\[(\d+)\]")
#: bytes of a body that is decoded on the loop; a longer one takes a thread
MAX_PROMPT_BODY = 64 * 1024
#: parameters of one URL
MAX_PARAMETERS = 100
#: key of the connection in a request's ASGI state
CONNECTION = "similia.connection"
JSON = b"application/json"
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: for all answers but pages, which have a policy of their own
API_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
    b"content-security-policy": API_POLICY,
}
#: methods that are counted by name
METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
#: routes that probes poll
QUIET_ROUTES = {"/livez", "/readyz", "/metrics"}
#: status in the log if the client left
CLIENT_LEFT = 499
#: seconds to go on reading a body that is too long, so that its sender sees the answer
LINGER = 2.0
#: bytes that any connection may buffer
SMALL_ANSWER = 64 * 1024


class Call:
    """One request and its answer."""

    #: set once they are known
    endpoint: "Endpoint"
    tenant: "Tenant"

    def __init__(self, service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
        self.service, self.scope = service, scope
        self._receive, self._send = receive, send
        self.connection: Connection = scope["state"][CONNECTION]
        self.started = time.perf_counter()
        self.status = 0
        #: path of the endpoint, and the names in it
        self.route = "none"
        self.path: dict[str, str] = {}
        self.key = VISITOR
        #: the structs of the body and of the URL's query
        self.body: Any = None
        self.query: Any = None
        #: the first header of each name
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        given = self.headers.get(b"x-request-id", b"")
        self.id = (
            given.decode() if REQUEST_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        )
        #: further fields of the line in the log
        self.details: dict[str, Any] = {"request_id": self.id}
        #: bytes of the body charged to the caller
        self._held = 0
        #: whether the whole body was received
        self.is_read = not (
            b"transfer-encoding" in self.headers
            or self.headers.get(b"content-length", b"0") != b"0"
        )

    @property
    def address(self) -> str:
        """Address of the peer, which may be a proxy."""
        client = self.scope["client"]
        return "" if client is None else str(client[0])

    async def serve(self, answer: "Callable[[Call], Awaitable[None]]") -> None:
        """Answer the request and log it; every exception becomes an answer."""
        self.connection.begin()
        self.service.present += 1
        try:
            await answer(self)
        except Gone:
            self.status = CLIENT_LEFT
        except Exception as error:
            await self._fail(error)
        finally:
            self.service.present -= 1
            self.connection.end()
            if self._held:
                self.service.received.give(self.key.id, self._held)
            self._record()

    async def _fail(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            error = Problem(503, "not enough memory for this request.", retry_after=1)
        elif not isinstance(error, ServiceError) or error.status == 500:
            journal.logger.exception("error", extra={"details": {"request_id": self.id}})
            error = Problem(500, "internal error; see the log of the service for this request id.")
        if self.status:  # too late for another answer
            self.connection.abort()
            return
        if error.pause:
            await asyncio.sleep(error.pause)
        rows = {str(row): why for row, why in error.rows.items()} or None
        body = msgspec.json.encode(Error(str(error), error.status, self.id, rows))
        headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
        await self.respond(error.status, body, headers)

    # -- for endpoints ---------------------------------------------------------------------------

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run work in a thread of the endpoint's lane."""
        return await self.run_in(self.endpoint.lane, work, *arguments, **named)

    async def run_in(
        self,
        lane: LaneName,
        work: Callable[..., T],
        *arguments: Any,
        admitted: bool = False,
        **named: Any,
    ) -> T:
        """Run work in a thread of a lane; `admitted` work continues an admitted request."""
        return await self.service.lanes[lane].run(
            self.key.id,
            partial(work, *arguments, **named),
            admitted=admitted,
            is_wanted=lambda: not self.connection.closed,
        )

    async def learnt(self, tenant: "Tenant", seq: int | None = None) -> None:
        """Wait until a row of a log, by default the last, is known to rankings; no thread waits."""
        if seq is None:
            seq = await self.run_in("look", tenant.log.newest)
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(wake)

        tenant.learner.when_learnt(seq, done)
        await reached

    async def item_known(self, query: Query) -> None:
        """Wait for the item of a query, if it may have been put just now."""
        tenant = self.tenant
        if query.item is not None and not tenant.has(query.item, timeout=0):
            await self.learnt(tenant.home)

    def check_batch(self, what: str, rows: Sized) -> None:
        """Refuse batches that are too long."""
        most = self.service.settings.max_batch
        if len(rows) > most:
            raise Invalid(f"{what} in one request must be at most {most}, got {len(rows)}.")

    def check_vectors(self, name: str, vectors: Mapping[str, Sized]) -> None:
        """Refuse vectors that are too long."""
        most = self.service.settings.max_features
        found = max(map(len, vectors.values()), default=0)
        if found > most:
            raise Invalid(f"numbers in {name} must be at most {most}, got {found}.")

    # -- the request -----------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Read the body, within its limits; its bytes are charged to the caller."""
        most, seconds = self.service.settings.max_body, self.service.settings.body_timeout
        announced = self.headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:20]) > most:
            await self._refuse_body(most)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(seconds):
                while not self.is_read:
                    part = await self._part()
                    if self._held + len(part) > most:
                        await self._refuse_body(most)
                    self.service.received.take(self.key.id, len(part))
                    self._held += len(part)
                    parts.append(part)
        except TimeoutError:
            raise Problem(408, f"a body must arrive within {seconds:g} seconds.") from None
        return b"".join(parts)

    async def _part(self) -> bytes:
        """The next part of the body."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self.connection.unread = 0
        self.is_read = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def _refuse_body(self, most: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not self.is_read:
                    await self._part()
        raise Problem(413, f"a body must have at most {most} bytes; send less at a time.")

    # -- the answer ------------------------------------------------------------------------------

    async def respond(
        self, status: int, content: bytes, headers: Iterable[Header] = (), media: bytes = JSON
    ) -> None:
        """Answer; bytes that a slow reader leaves unread are charged to the caller."""
        large = len(content) > SMALL_ANSWER
        if large:
            self.service.unread.take(self.key.id, len(content))
        try:
            given = [(b"content-type", media), (b"content-length", b"%d" % len(content)), *headers]
            await self.send({"type": "http.response.start", "status": status, "headers": given})
            body = b"" if self.scope["method"] == "HEAD" else content
            await self.send({"type": "http.response.body", "body": body})
            if large:
                await self.connection.drain()
        finally:
            if large:
                self.service.unread.give(self.key.id, len(content))

    async def stream(self, status: int, parts: AsyncIterator[bytes]) -> None:
        """Answer in parts, each made when the reader has taken most of those before."""
        headers = [(b"content-type", JSON)]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        if self.scope["method"] != "HEAD":
            async for part in parts:
                if self.connection.closed:
                    raise Gone
                await self.send({"type": "http.response.body", "body": part, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

    async def delegate(self, application: ASGIApp) -> None:
        """Let another application answer."""
        await application(self.scope, self._receive, self.send)
        self.route = getattr(self.scope.get("route"), "path", "none")

    async def send(self, message: Message) -> None:
        """Send a message of ASGI, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {**HEADERS, **dict(message["headers"]), b"x-request-id": self.id.encode()}
            if not self.is_read:  # the rest of the body may never end
                headers.setdefault(b"connection", b"close")
            message["headers"] = list(headers.items())
        await self._send(message)

    def _record(self) -> None:
        """Count the request, and log it."""
        seconds = time.perf_counter() - self.started
        method = self.scope["method"] if self.scope["method"] in METHODS else "other"
        metrics = self.service.metrics
        metrics.requests(method, self.route, self.status).inc()
        metrics.seconds(self.route).observe(seconds)
        quiet = self.route in QUIET_ROUTES and self.status < 400
        level = logging.DEBUG if quiet else logging.INFO
        if journal.logger.isEnabledFor(level):
            self.details |= {
                "method": method,
                "route": self.route,
                "status": self.status,
                "ms": round(1000 * seconds, 2),
            }
            journal.line(level, self.details)


# -- from the caller to the answer -----------------------------------------------------------------


async def answer(call: Call) -> None:
    """Answer a call by its endpoint; nothing is done for a caller who is not admitted."""
    endpoint, service = call.endpoint, call.service
    if endpoint.scopes is not None:
        service.auth.admit(call)
        service.calls.take(call.key.id)
    else:
        await service.auth.pace(call)
    tenant: Tenant | None = None
    settings = service.settings
    seconds = settings.long_timeout if endpoint.lane == "long" else settings.timeout
    try:
        async with asyncio.timeout(seconds):
            if not (endpoint.always or service.ready):
                raise Problem(503, "the service is not ready; try again later.", retry_after=1)
            if service.processes is not None and service.processes.answers(call):
                await service.processes.forward(call)
                return
            if "tenant" in call.path:
                call.details["tenant"] = call.path["tenant"]
                if endpoint.place == "tenant":
                    name = call.path["tenant"]
                    while (tenant := service.tenants.take(name)) is None:
                        await call.run_in("open", service.tenants.get, name)
                    call.tenant = tenant
            if (endpoint.scopes is not None and call.scope["query_string"]) or endpoint.query:
                call.query = _parameters(endpoint, call.scope["query_string"])
            if endpoint.body is not None:
                content = await call.read()
                if len(content) <= MAX_PROMPT_BODY:
                    call.body = _decoded(call, content)
                else:
                    call.body = await call.run_in("check", _decoded, call, content)
            found = await endpoint.handle(call)
        if isinstance(found, AsyncGeneratorType):
            await call.stream(200, found)
        elif isinstance(found, bytes):
            await call.respond(200, found, media=endpoint.media.encode())
        else:
            await call.respond(200, _encoder.encode(found))
    except TimeoutError:
        sentence = f"no answer within {seconds:g} seconds; try again later."
        raise Problem(503, sentence, retry_after=1) from None
    finally:
        if tenant is not None:
            service.tenants.give(tenant)
        if endpoint.scopes is not None:
            service.calls.give(call.key.id)


def _decoded(call: Call, content: bytes) -> Any:
    """The body as a struct; 400, 415 or 422 if it does not fit."""
    endpoint, headers = call.endpoint, call.headers
    media = headers.get(b"content-type", b"")
    encoding = headers.get(b"content-encoding", b"identity").lower()
    if not content and endpoint.optional_body:
        content = b"{}"
    elif media.partition(b";")[0].strip().lower() != JSON or encoding != b"identity":
        got = media.decode("latin-1") or "no type"
        raise Problem(415, f"a body must be {JSON.decode()}, uncompressed, got {got!r:.80}.")
    try:
        # The name of the list may be spelled with escapes.
        if (
            endpoint.batch is not None
            and (b'"judgements"' in content or b"\\" in content)
            and _outline.decode(content).judgements
        ):
            return endpoint.batch_decoder.decode(content)
        return endpoint.decoder.decode(content)
    except msgspec.ValidationError as error:
        row = ROW.search(str(error))
        rows = {int(row[1]): _short(error)} if row else None
        raise Problem(422, f"the body does not fit: {_short(error)}.", rows=rows) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {_short(error)}.") from None


class _Outline(msgspec.Struct):
    """Tells a batch from a single judgement."""

    judgements: msgspec.Raw = msgspec.Raw(b"")


_encoder = msgspec.json.Encoder()
_outline = msgspec.json.Decoder(_Outline)


def _parameters(endpoint: "Endpoint", given: bytes) -> Any:
    """The URL's query as a struct; 422 if it does not fit."""
    if endpoint.query is None:
        raise Problem(422, f"{endpoint.path} takes no parameters in the URL's query.")
    try:
        text = given.decode("latin-1")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise Problem(422, f"a URL must have at most {MAX_PARAMETERS} parameters.") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Problem(422, "a parameter in the URL's query must be given once.")
    try:
        return msgspec.convert(found, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the URL's query does not fit: {_short(error)}.") from None


def _short(error: BaseException) -> str:
    return str(error).rstrip(".").encode("utf-8", "replace").decode()[:300]
