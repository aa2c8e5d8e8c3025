"""A connection with deadlines: for the head of a request, and for a reader that stops reading.

uvicorn has neither. It takes any asyncio protocol as its `http` option, so this one stands in
front of uvicorn's own and sees what passes; requests find it in their ASGI state.
"""

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from similia.service.settings import Settings

#: where a request's ASGI state has its connection
CONNECTION = "similia.connection"
#: bytes of a head
MAX_HEAD_BYTES = 64 * 1024
#: bytes of a request that are neither head nor body that anybody reads: trailers, a body that
#: waits. A read of the socket is up to 256 KiB, and uvicorn reads on until it holds 64 KiB
MAX_UNREAD_BYTES = 512 * 1024
#: heads that one read of a caller without a known key may hold
MAX_UNKNOWN_HEADS = 32
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Door:
    """Connections whose key is not known yet: when there are too many, the oldest goes."""

    def __init__(self, settings: Settings, places: int) -> None:
        self.header_timeout = settings.header_timeout
        self.write_timeout = settings.write_timeout
        self.places = places
        self.unknown: OrderedDict[Connection, None] = OrderedDict()

    def protocol(self, *, app_state: dict[str, Any], **given: Any) -> "Connection":
        """A connection, as uvicorn asks for one."""
        return Connection(self, app_state, given)

    def enter(self, connection: "Connection") -> None:
        """Let a new connection in."""
        self.unknown[connection] = None
        if len(self.unknown) > self.places:
            oldest, _ = self.unknown.popitem(last=False)
            oldest.abort()


class Connection(asyncio.Protocol):
    """A connection in front of uvicorn's."""

    transport: asyncio.Transport

    def __init__(self, door: Door, app_state: dict[str, Any], given: dict[str, Any]) -> None:
        self.door = door
        uvicorns: Any = AutoHTTPProtocol
        self._inner = uvicorns(app_state={**app_state, CONNECTION: self}, **given)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._requests = self._unread = 0
        self.closed = False

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        self.transport = transport
        self.door.enter(self)
        self._expect_head()
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless it comes to nothing."""
        if self.closed or self.transport.is_closing():
            return
        self._unread += len(data)
        if self._requests == 0 and self._timer is None:
            self._expect_head()
        most = MAX_UNREAD_BYTES if self._requests else MAX_HEAD_BYTES + len(data)
        heads = data.count(b"\r\n\r\n") if self in self.door.unknown else 0
        if self._unread > most or heads > MAX_UNKNOWN_HEADS:
            self.abort()
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the end on."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Wait for a slow reader, but not for ever."""
        self._inner.pause_writing()
        self._drained = self._drained or self._loop.create_future()
        if self._write_timer is None:
            self._write_timer = self._loop.call_later(self.door.write_timeout, self.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_waiting_for_reader()
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self.closed = True
        self.door.unknown.pop(self, None)
        self._cancel_head_timer()
        self._stop_waiting_for_reader()
        self._inner.connection_lost(error)

    # -- what requests call ----------------------------------------------------------------------

    def begin(self) -> None:
        """A head is complete."""
        self._requests += 1
        self._unread = 0
        self._cancel_head_timer()

    def read(self) -> None:
        """Some of the body was read."""
        self._unread = 0

    def known(self) -> None:
        """Whoever asks has a key."""
        self.door.unknown.pop(self, None)

    def end(self) -> None:
        """A request is answered."""
        self._requests -= 1
        self._unread = 0

    async def drain(self) -> None:
        """Wait until the reader has taken most of what was sent, or is cut off."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    # -- timers ----------------------------------------------------------------------------------

    def _expect_head(self) -> None:
        self._timer = self._loop.call_later(self.door.header_timeout, self._head_is_late)

    def _head_is_late(self) -> None:
        self._timer = None
        if self._unread:
            self.transport.write(TOO_LATE)
        self.transport.close()

    def _cancel_head_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_waiting_for_reader(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
