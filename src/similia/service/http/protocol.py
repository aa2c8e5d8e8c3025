"""HTTP with bounds that uvicorn leaves open: a head that ends, in time; readers that read.

Small feedback goes the short way (`direct.py`): what uvicorn would hand to a task of
the application is served where it arrives.
"""

import asyncio
import secrets
from functools import partial
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from similia.service.http.cycles import Brief, Late, Shortcut
from similia.service.http.direct import LONGEST, Direct, Head
from similia.service.http.guard import HEADERS, SHORTCUT, Exchange
from similia.service.http.problems import Error
from similia.service.settings import Settings

#: bytes of a head, of trailers, or of anything else that is not the body
LONGEST_HEAD = 64 * 1024


def bounded(settings: Settings, direct: Direct) -> type[HttpToolsProtocol]:
    """A protocol with these time limits and this short way."""
    names = ("header_timeout", "body_timeout", "write_timeout", "timeout")
    limits = {name: getattr(settings, name) for name in names}
    return type("Bounded", (BoundedProtocol,), {**limits, "direct": direct})


class BoundedProtocol(HttpToolsProtocol):
    """A connection that cannot take forever, nor grow without bound, before there is a request."""

    header_timeout: float
    body_timeout: float
    write_timeout: float
    timeout: float
    direct: Direct

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        #: bytes since the last that meant something
        self._idle_bytes = 0
        self._moved = False
        self._in_head = True
        #: whether all that was parsed are whole requests, after which others may follow
        self._between = True
        #: what is parsed, as long as no head has ended in it
        self._fresh: bytes | None = None
        self._waiting: Late | None = None
        #: when the last request on the short way was answered
        self._answered = 0.0

    # -- reading -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, but not for ever."""
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        """Serve what begins with a known head; parse anything else."""
        if self._waiting is not None:
            self._waiting.add(data)
            if self._waiting.missing > 0:
                return
            data, self._waiting = self._waiting.end(), None
        if self._between and (self.cycle is None or self.cycle.response_complete):
            head, end = self.direct.known(data)
            if head is not None and len(data) == end + head.length:
                self._serve_known(head, data[end:])
                return
            if head is not None and len(data) < end + head.length and self._wait(head, data, end):
                return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse what came; refuse what never comes to a point."""
        self._moved = False
        self._fresh = data if self._between else None
        super().data_received(data)
        brief: Any = self.cycle
        if isinstance(brief, Brief) and brief.more_body:  # the rest may never come
            self._go_the_long_way(brief)
        self._idle_bytes = 0 if self._moved else self._idle_bytes + len(data)
        if self.transport.is_closing():
            return
        if self._idle_bytes > LONGEST_HEAD:
            self.refuse(431, "the head of a request must be shorter.")
        elif self._in_head:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head, self._between = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head, self._moved = False, True
        fresh, self._fresh = self._fresh, None
        self._stop_head_timer()
        tenant = self.direct.tenant_of(self.parser.get_method(), self.url)
        if tenant is not None and self._is_plain():
            path = self.url.decode()
            self.scope |= {
                "method": "POST",
                "path": path,
                "raw_path": self.url,
                "query_string": b"",
            }
            scope: Any = self.scope
            if fresh is not None:
                self.direct.remember(fresh, tenant, scope)
            self.cycle = Brief(tenant, scope)  # type: ignore[assignment]
            return
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # its task has not run yet
            self.cycle.scope[SHORTCUT] = Shortcut(self.cycle)  # type: ignore[literal-required]

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body."""
        self._moved = True
        super().on_body(body)

    def _is_plain(self) -> bool:
        """Whether nothing is to be said, or waited for, before the answer."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.expect_100_continue
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        )

    # -- the short way ---------------------------------------------------------------------------

    def on_message_complete(self) -> None:
        """Serve a request on the short way, if it is one for it."""
        self._between = self.parser.should_keep_alive()
        super().on_message_complete()
        brief: Any = self.cycle
        if isinstance(brief, Brief) and not brief.response_complete and brief.sent is None:
            self._serve(brief)

    def _serve_known(self, head: Head, body: bytes) -> None:
        """Serve a request that needs no parsing."""
        self._in_head, self._idle_bytes = False, 0
        self._stop_head_timer()
        scope = dict(head.scope)
        scope["server"], scope["client"], scope["scheme"] = self.server, self.client, self.scheme
        brief = Brief(head.tenant, scope)
        brief.body, brief.more_body = body, False
        self.cycle = brief  # type: ignore[assignment]
        self._serve(brief, head)

    def _serve(self, brief: Brief, head: Head | None = None) -> None:
        if len(brief.body) <= LONGEST:
            done = partial(self._arrived, brief)
            brief.sent = self.direct.send(brief.scope, brief.body, brief.tenant, done, head)
        if brief.sent is None:
            self._unset_keepalive_if_required()
            self._go_the_long_way(brief)
        else:
            self.direct.watch(brief.sent, self.timeout, partial(self._out_of_time, brief))

    def _wait(self, head: Head, data: bytes, end: int) -> bool:
        """Wait for the rest of a body, if there is room for it."""
        room = self.direct.service.room
        if room.active >= room.requests or room.held + head.length > room.size:
            return False
        self._in_head, self._idle_bytes = False, 0
        self._stop_head_timer()
        timer = self.loop.call_later(self.body_timeout, self._too_late)
        self._waiting = Late(head, room, data, end, timer)
        return True

    def _too_late(self) -> None:
        """Refuse a request whose body did not come."""
        late, self._waiting = self._waiting, None
        if late is None:
            return
        late.end()
        exchange = Exchange(self.direct.service, {**late.head.scope, "client": self.client})
        exchange.status = 408
        exchange.record()
        sentence = f"a body must arrive within {self.body_timeout:g} seconds."
        self.refuse(408, sentence, exchange.id)

    def shutdown(self) -> None:
        """Close, once what is under way is answered."""
        late, self._waiting = self._waiting, None
        if late is not None:  # the application waits for the rest
            self._parse(late.end())
        super().shutdown()

    def _go_the_long_way(self, brief: Brief) -> None:
        """Let the application serve what has come of a request."""
        scope: Any = brief.scope
        last: Any = self.cycle
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=brief.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.body, cycle.more_body = bytearray(brief.body), brief.more_body
        cycle.message_event.set()
        scope[SHORTCUT] = Shortcut(cycle)
        if last is brief:  # else others wait behind it
            self.cycle = cycle
        task = self.loop.create_task(cycle.run_asgi(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _arrived(self, brief: Brief, head: bytes | None, body: bytes) -> None:
        """Answer what is on the disk."""
        if brief.disconnected or self.transport.is_closing():
            return
        if head is None:
            self._go_the_long_way(brief)
            return
        own = self.direct.own_lines(self.server_state.default_headers)
        end = b"" if brief.keep_alive else b"connection: close\r\n"
        brief.response_complete = True
        self.transport.write(b"%s%s%s%s\r\n%s" % (STATUS_LINE[200], own, head, end, body))
        self._answered = self.loop.time()
        if self.timeout_keep_alive_task is None or self.pipeline or self.flow.read_paused:
            self.on_response_complete()
        else:  # a timer is there, and nobody waits
            self.server_state.total_requests += 1
        if not brief.keep_alive:
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection on which nothing has happened for long."""
        if self.transport.is_closing():
            return
        busy = self._waiting is not None or not (self.cycle is None or self.cycle.response_complete)
        now = self.loop.time()
        ends = (now if busy else self._answered) + self.timeout_keep_alive
        if ends <= now:
            self.transport.close()
        else:
            again = self.loop.call_at(ends, self.timeout_keep_alive_handler)
            self.timeout_keep_alive_task = again

    def _out_of_time(self, brief: Brief) -> None:
        id = None if brief.sent is None else brief.sent.give_up()
        if id is None or self.transport.is_closing():
            return
        brief.response_complete = True
        sentence = f"no answer within {self.timeout:g} seconds; try again later."
        self.refuse(503, sentence, id, b"retry-after: 1\r\n")

    # -- time for heads --------------------------------------------------------------------------

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
        self._unset_keepalive_if_required()
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None
        super().connection_lost(exc)

    # -- answers without a request ---------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self.refuse(400, "this is not HTTP.")

    def refuse(
        self, status: int, sentence: str, request_id: str | None = None, more: bytes = b""
    ) -> None:
        """Answer and close."""
        request_id = request_id or secrets.token_hex(8)
        body = msgspec.json.encode(Error(sentence, status, request_id))
        headers = {
            b"content-type": b"application/json",
            b"content-length": b"%d" % len(body),
            b"connection": b"close",
            b"x-request-id": request_id.encode(),
            **HEADERS,
        }
        lines = [b"%s: %s\r\n" % header for header in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, more, b"\r\n", body]))
        self.transport.close()
