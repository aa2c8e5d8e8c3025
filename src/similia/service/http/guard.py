"""What every request passes: its id, its time, strict headers, errors in one form, the log."""

import logging
import random
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from similia.service.http import journal
from similia.service.http.limits import Gone
from similia.service.http.problems import Error, Problem, as_problem

if TYPE_CHECKING:
    from similia.service.http.app import Service

#: where a request's scope has its exchange, and the shortcut of its connection
EXCHANGE, SHORTCUT = "similia.exchange", "similia.shortcut"
#: the key of a caller who was let in before, or the problem with them
VERDICT = "similia.verdict"
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
#: the same as lines of a response, up to the id of the request
LINES = b"".join([b"%s: %s\r\n" % header for header in HEADERS.items()])
LINES += b"content-type: %s\r\nx-request-id: " % JSON


class Guard:
    """The outermost application."""

    def __init__(self, service: "Service", inner: ASGIApp) -> None:
        self.service = service
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or live and end."""
        if scope["type"] == "lifespan":
            await self.service.lifespan(receive, send)
            return
        if scope["type"] != "http":  # web sockets: nothing here speaks them
            await send({"type": "websocket.close", "code": 1003})
            return
        await Exchange(self.service, scope).run(self.inner, receive, send)


class Exchange:
    """One request and its response."""

    def __init__(
        self, service: "Service", scope: Scope, headers: dict[bytes, bytes] | None = None
    ) -> None:
        self.service, self.scope = service, scope
        self.start = time.perf_counter()
        self.status, self.seconds = 0, 0.0
        if headers is None:
            headers = dict(reversed(scope["headers"]))
        #: the first of each name
        self.headers = headers
        given = headers.get(b"x-request-id")
        known = given is not None and REQUEST_ID.fullmatch(given)
        self.id = given.decode() if given and known else f"{random.getrandbits(64):016x}"
        scope["state"] = {"request_id": self.id}

    def header(self, name: bytes) -> str | None:
        """A header of the request, by its name in small letters."""
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")

    async def run(self, inner: ASGIApp, receive: Receive, send: Send) -> None:
        """Serve the request; whatever happens becomes an answer and a line of the log."""
        service = self.service
        self._send, self.scope[EXCHANGE] = send, self
        service.room.present += 1
        try:
            with service.telemetry.span(self.scope) as span:
                await self._answer(inner, receive)
                span.set_attribute("http.response.status_code", self.status)
        finally:
            service.room.present -= 1
            self.record()
            del self.scope[EXCHANGE]  # without a circle, memory is free at once

    async def _answer(self, inner: ASGIApp, receive: Receive) -> None:
        try:
            with self.service.room:
                await inner(self.scope, receive, self.send)
        except Gone:
            self.status = 499
        except Exception as error:
            problem = as_problem(error)
            if problem.status == 500:
                details = {"request_id": self.id}
                journal.logger.exception("error", extra={"details": details})
            if self.status:  # too late for another answer
                raise
            await self._refuse(problem)

    async def respond(self, status: int, content: bytes) -> None:
        """Answer with JSON; at once if the connection has a shortcut."""
        shortcut: Any = self.scope.get(SHORTCUT)
        if shortcut is not None and self.scope["method"] != "HEAD" and not self._has_unread_body():
            lines = b"%s%s\r\ncontent-length: %d\r\n" % (LINES, self.id.encode(), len(content))
            if shortcut.answer(status, lines, content):
                self.status = status
                return
        headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(content))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        content = b"" if self.scope["method"] == "HEAD" else content
        await self.send({"type": "http.response.body", "body": content})

    async def send(self, message: Message) -> None:
        """Add the headers that every response has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {**HEADERS, **dict(message["headers"]), b"x-request-id": self.id.encode()}
            if self._has_unread_body():
                headers.setdefault(b"connection", b"close")
            message["headers"] = list(headers.items())
        await self._send(message)

    def _has_unread_body(self) -> bool:
        """Whether a body was announced that nobody read, and that may never end."""
        if "body_read" in self.scope:
            return False
        found = self.headers
        return b"transfer-encoding" in found or found.get(b"content-length", b"0") != b"0"

    async def _refuse(self, problem: Problem) -> None:
        body = msgspec.json.encode(Error(problem.sentence, problem.status, self.id, problem.rows))
        headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body))]
        headers += [(k.encode(), v.encode()) for k, v in problem.headers.items()]
        await self.send(
            {"type": "http.response.start", "status": problem.status, "headers": headers}
        )
        empty = self.scope["method"] == "HEAD"
        await self.send({"type": "http.response.body", "body": b"" if empty else body})

    def end(self, status: int) -> None:
        """Note how it was answered, and when."""
        self.status, self.seconds = status, time.perf_counter() - self.start

    def record(self) -> None:
        """Count the request, and log it."""
        scope, metrics = self.scope, self.service.metrics
        seconds = self.seconds or time.perf_counter() - self.start
        found = scope.get("route")
        route = getattr(found, "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "other"
        metrics.count(method, route, self.status, seconds)
        quiet = route in QUIET and self.status < 400
        level = logging.DEBUG if quiet else logging.INFO
        if journal.logger.isEnabledFor(level):
            details = scope["state"]
            details["method"], details["route"] = method, route
            details["status"], details["ms"] = self.status, round(1000 * seconds, 2)
            journal.quick(level, "request", details)


METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}
#: asked for every few seconds by machines
QUIET = {"/livez", "/readyz", "/metrics"}
