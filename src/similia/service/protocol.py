"""HTTP with bounds that uvicorn leaves open: a head that ends, in time; readers that read.

An answer that is known as a whole can be written as a whole (`Shortcut`): one write instead of two
messages, each of which uvicorn checks and copies.
"""

import asyncio
import secrets
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from similia.service.guard import HEADERS, SHORTCUT
from similia.service.problems import Error

#: bytes of a head, of trailers, or of anything else that is not the body
LONGEST_HEAD = 64 * 1024


def bounded(header_timeout: float, write_timeout: float) -> type[HttpToolsProtocol]:
    """A protocol with these time limits, in seconds."""
    limits = {"header_timeout": header_timeout, "write_timeout": write_timeout}
    return type("Bounded", (BoundedProtocol,), limits)


class Shortcut:
    """What the application may ask of its connection, beside ASGI."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def has_body(self) -> bool:
        """Whether the whole body is here."""
        return not self._cycle.more_body

    def answer(self, status: int, lines: bytes, body: bytes) -> bool:
        """Write a whole response; False if it must go the long way. `lines` are its headers."""
        cycle = self._cycle
        if (
            cycle.response_started
            or cycle.disconnected
            or cycle.flow.write_paused
            or cycle.waiting_for_100_continue
            or not cycle.keep_alive
        ):
            return False
        own = b"".join([b"%s: %s\r\n" % header for header in cycle.default_headers])
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"%s%s%s\r\n%s" % (STATUS_LINE[status], own, lines, body))
        cycle.message_event.set()
        cycle.on_response()
        return True


class BoundedProtocol(HttpToolsProtocol):
    """A connection that cannot take forever, nor grow without bound, before there is a request."""

    header_timeout = 10.0
    write_timeout = 20.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        #: bytes since the last that meant something
        self._idle_bytes = 0
        self._moved = False
        self._in_head = True

    # -- reading -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, but not for ever."""
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        """Parse what came; refuse what never comes to a point."""
        self._moved = False
        super().data_received(data)
        self._idle_bytes = 0 if self._moved else self._idle_bytes + len(data)
        if self.transport.is_closing():
            return
        if self._idle_bytes > LONGEST_HEAD:
            self.refuse(431, "the head of a request must be shorter.")
        elif self._in_head:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head, self._moved = False, True
        self._stop_head_timer()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # its task has not run yet
            self.cycle.scope[SHORTCUT] = Shortcut(self.cycle)  # type: ignore[literal-required]

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body."""
        self._moved = True
        super().on_body(body)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.header_timeout, self._late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        if self.transport.is_closing():
            return
        if self._idle_bytes:
            self.refuse(408, "the head of a request must arrive in time.")
        else:  # a connection that nothing was sent on is just closed
            self.transport.close()

    # -- writing -------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Wait for a slow reader, but not for ever."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    # -- answers without a request ---------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self.refuse(400, "this is not HTTP.")

    def refuse(self, status: int, sentence: str) -> None:
        """Answer and close."""
        request_id = secrets.token_hex(8)
        body = msgspec.json.encode(Error(sentence, status, request_id))
        headers = {
            b"content-type": b"application/json",
            b"content-length": b"%d" % len(body),
            b"connection": b"close",
            b"x-request-id": request_id.encode(),
            **HEADERS,
        }
        lines = [b"%s: %s\r\n" % header for header in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self.transport.close()
