"""One request and its response: its id, its body, strict headers, errors in one form, the log."""

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from similia.service.http import journal
from similia.service.http.budgets import UNKNOWN
from similia.service.http.connection import CONNECTION, Connection
from similia.service.http.problems import Error, Problem, as_problem

if TYPE_CHECKING:
    from similia.service.http.app import Service

Header = tuple[bytes, bytes]

JSON = b"application/json"
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: for everything but pages, which bring their own policy
POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
    b"content-security-policy": POLICY,
}
#: methods that are counted by name
METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
#: routes that machines ask for every few seconds
QUIET_ROUTES = {"/livez", "/readyz", "/metrics"}
#: status in the log for a client that left
CLIENT_LEFT = 499
#: seconds to read on after a body turned out too long, so that its sender sees the answer
LINGER = 2.0
#: bytes that a connection holds for its reader anyway
SMALL_ANSWER = 64 * 1024


class Gone(Exception):
    """The client left in the middle of its request."""


class Exchange:
    """One request and its response."""

    def __init__(self, service: "Service", scope: Scope, receive: Receive, send: Send) -> None:
        self.service, self.scope = service, scope
        self._receive, self._send = receive, send
        self.connection: Connection = scope["state"][CONNECTION]
        self.started = time.perf_counter()
        self.status = 0
        #: path of the endpoint, once it is known
        self.route = "none"
        #: id of the key, once it is known
        self.caller = UNKNOWN
        #: what the line of the log says beside
        self.details: dict[str, Any] = {}
        #: the first header of each name
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        given = self.headers.get(b"x-request-id", b"")
        self.id = (
            given.decode() if REQUEST_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        )
        self.details["request_id"] = self.id
        self._held = 0
        #: whether all of the body is here
        self.is_read = not (
            b"transfer-encoding" in self.headers
            or self.headers.get(b"content-length", b"0") != b"0"
        )

    async def run(self, serve: "Callable[[Exchange], Awaitable[None]]") -> None:
        """Serve the request; whatever happens becomes an answer and a line of the log."""
        self.connection.begin()
        self.service.present += 1
        try:
            await serve(self)
        except Gone:
            self.status = CLIENT_LEFT
        except Exception as error:
            await self._fail(error)
        finally:
            self.service.present -= 1
            self.connection.end()
            if self._held:
                self.service.received.give(self.caller, self._held)
            self._record()

    async def _fail(self, error: Exception) -> None:
        problem = as_problem(error)
        if problem.status == 500:
            details = {"request_id": self.id}
            journal.logger.exception("error", extra={"details": details})
        if self.status:  # too late for another answer
            self.connection.abort()
            return
        body = msgspec.json.encode(Error(problem.sentence, problem.status, self.id, problem.rows))
        headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        await self.respond(problem.status, body, headers)

    # -- the request -----------------------------------------------------------------------------

    def header(self, name: bytes) -> str | None:
        """A header of the request, by its name in small letters."""
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")

    async def body(self, most: int, seconds: float) -> bytes:
        """The body, of at most so many bytes; they count against the caller's budget."""
        announced = self.headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:20]) > most:
            await self._refuse_body(most)
        if self.is_read:
            return b""
        first, more = await self._counted(most)
        if not more:
            return first
        parts = [first]
        try:
            async with asyncio.timeout(seconds):
                while more:
                    part, more = await self._counted(most)
                    parts.append(part)
        except TimeoutError:
            raise Problem(408, f"a body must arrive within {seconds:g} seconds.") from None
        return b"".join(parts)

    async def _counted(self, most: int) -> tuple[bytes, bool]:
        """A part of the body, for which there is room, and whether there is more."""
        part = await self._part()
        if self._held + len(part) > most:
            await self._refuse_body(most)
        self.service.received.take(self.caller, len(part))
        self._held += len(part)
        return part, not self.is_read

    async def _part(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Gone
        self.connection.read()
        self.is_read = not message.get("more_body", False)
        found: bytes = message.get("body", b"")
        return found

    async def _refuse_body(self, most: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not self.is_read:
                    await self._part()
        raise Problem(413, f"a body must have at most {most} bytes; send less at a time.")

    # -- the response ----------------------------------------------------------------------------

    async def respond(
        self, status: int, content: bytes, headers: Iterable[Header] = (), media: bytes = JSON
    ) -> None:
        """Answer; what a slow reader leaves lying counts against the caller's budget."""
        large = len(content) > SMALL_ANSWER
        if large:
            self.service.unread.take(self.caller, len(content))
        try:
            given = [(b"content-type", media), (b"content-length", b"%d" % len(content)), *headers]
            await self.send({"type": "http.response.start", "status": status, "headers": given})
            body = b"" if self.scope["method"] == "HEAD" else content
            await self.send({"type": "http.response.body", "body": body})
            if large:
                await self.connection.drain()
        finally:
            if large:
                self.service.unread.give(self.caller, len(content))

    async def stream(self, status: int, parts: AsyncIterator[bytes]) -> None:
        """Answer in parts, each once the reader has taken most of those before."""
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
        """Send a message of ASGI, with the headers that every response has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {**HEADERS, **dict(message["headers"]), b"x-request-id": self.id.encode()}
            if not self.is_read:  # the rest of the body may never end
                headers.setdefault(b"connection", b"close")
            message["headers"] = list(headers.items())
        await self._send(message)

    # -- afterwards ------------------------------------------------------------------------------

    def _record(self) -> None:
        """Count the request, and log it."""
        seconds = time.perf_counter() - self.started
        given = self.scope["method"]
        method = given if given in METHODS else "other"
        self.service.metrics.count(method, self.route, self.status, seconds)
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
