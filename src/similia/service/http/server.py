"""Run a service on uvicorn, with deadlines for heads and slow readers, which uvicorn lacks.

uvicorn takes any asyncio protocol as its `http` option, so `Connection` stands in front of
uvicorn's own and sees what passes; requests find it in their ASGI state.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from similia.service.http import journal
from similia.service.http.app import Service
from similia.service.http.calls import CONNECTION
from similia.service.settings import Settings

#: bytes of a head
MAX_HEAD_BYTES = 64 * 1024
#: bytes of one read: heads and chunks in it are parsed before anybody else has a turn
READ_BYTES = 16 * 1024
#: bytes of a request that are neither head nor body that anybody reads: trailers, a body that
#: waits; uvicorn reads on until it holds 64 KiB
MAX_UNREAD_BYTES = 128 * 1024
#: heads in one read from a caller without a known key
MAX_UNKNOWN_HEADS = 32
END_OF_HEAD = b"\r\n\r\n"
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
#: handles kept for files and databases, or half of what the system allows
RESERVED_HANDLES = 512
#: handles where the system does not say how many it allows
MAX_HANDLES = 1024


class Door:
    """Open connections: so many without a known key, and as many with one.

    Beyond that the oldest without a key is closed, or the oldest of the key that has most.
    """

    def __init__(self, settings: Settings, handles: int) -> None:
        self.header_timeout = settings.header_timeout
        self.write_timeout = settings.write_timeout
        self.places = max(handles // 2, handles - RESERVED_HANDLES) // 2
        #: what each read is put into; whoever reads passes it on at once
        self.buffer = bytearray(READ_BYTES)
        self.unknown: OrderedDict[Connection, None] = OrderedDict()
        #: by key, the oldest first
        self.known: defaultdict[str, OrderedDict[Connection, None]] = defaultdict(OrderedDict)

    def protocol(self, *, app_state: dict[str, Any], **given: Any) -> "Connection":
        """A connection, as uvicorn asks for one."""
        return Connection(self, app_state, given)

    def enter(self, connection: "Connection") -> None:
        """Let a new connection in."""
        self.unknown[connection] = None
        if len(self.unknown) > self.places:
            oldest, _ = self.unknown.popitem(last=False)
            oldest.abort()

    def admit(self, connection: "Connection", key: str) -> None:
        """The caller on a connection has a known key."""
        if connection not in self.unknown:
            return
        del self.unknown[connection]
        connection.key = key
        self.known[key][connection] = None
        if sum(map(len, self.known.values())) > self.places:
            most = max(self.known.values(), key=len)
            next(iter(most)).abort()

    def leave(self, connection: "Connection") -> None:
        """A connection is closed."""
        self.unknown.pop(connection, None)
        own = self.known.get(connection.key, OrderedDict())
        own.pop(connection, None)
        if not own:
            self.known.pop(connection.key, None)


class _Transport:
    """A transport as uvicorn sees it: it is read if uvicorn and the connection want that."""

    def __init__(self, connection: "Connection", transport: asyncio.Transport) -> None:
        self._connection, self._transport = connection, transport

    def pause_reading(self) -> None:
        self._connection.is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._connection.is_paused = False
        self._connection.read_soon()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(asyncio.BufferedProtocol):
    """A connection in front of uvicorn's.

    What is sent goes on in small pieces, and other connections have their turn in between. uvicorn
    makes a request of each head that it is given, so heads go on one by one, until it pauses.
    """

    transport: asyncio.Transport

    def __init__(self, door: Door, app_state: dict[str, Any], given: dict[str, Any]) -> None:
        self.door = door
        uvicorns: Any = AutoHTTPProtocol
        self._inner = uvicorns(app_state={**app_state, CONNECTION: self}, **given)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._requests = 0
        #: what waits to go on
        self._held = b""
        #: whether a caller without a known key waits for an answer: no body is taken meanwhile
        self._is_asking = False
        #: whether uvicorn wants no more for now: it has a next request, or a piece of a body
        self.is_paused = False
        #: heads received so far
        self.n_requests = 0
        #: whose known key was sent first
        self.key = ""
        #: bytes received since a request last read any
        self.unread = 0
        self.closed = False

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        self.transport = transport
        self.door.enter(self)
        self._timer = self._loop.call_later(self.door.header_timeout, self._head_is_late)
        self._inner.connection_made(_Transport(self, transport))

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where to read to."""
        return self.door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass data on, unless it never amounts to a request."""
        data = bytes(memoryview(self.door.buffer)[:nbytes])
        if self.transport.is_closing():
            return
        self.unread += len(data)
        if self._requests == 0 and self._timer is None:
            self._timer = self._loop.call_later(self.door.header_timeout, self._head_is_late)
        most = MAX_UNREAD_BYTES if self._requests else MAX_HEAD_BYTES + len(data)
        heads = data.count(END_OF_HEAD) if self in self.door.unknown else 0
        if self.unread > most or heads > MAX_UNKNOWN_HEADS:
            self.abort()
            return
        self._held += data
        self._pass_on()
        if self._held:
            self.transport.pause_reading()
        elif nbytes == READ_BYTES:  # there may be more
            self.transport.pause_reading()
            self.read_soon()

    def read_soon(self) -> None:
        """Read on when others have had their turn."""
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Pass on what is held; then read."""
        self._pass_on()
        if not (self._held or self.is_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def _pass_on(self) -> None:
        """Give uvicorn what is held, as far as it wants that."""
        while self._held and not (self._is_asking or self.is_paused or self.transport.is_closing()):
            head, end, self._held = self._held.partition(END_OF_HEAD)
            self._is_asking = bool(end) and self in self.door.unknown
            self._inner.data_received(head + end)

    def _listen(self) -> None:
        """Take what comes after a head."""
        self._is_asking = False
        if self._held:
            self.read_soon()

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
        self.door.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        self._stop_waiting_for_reader()
        self._inner.connection_lost(error)

    # -- what requests call ----------------------------------------------------------------------

    def begin(self) -> None:
        """A head is complete."""
        self._requests += 1
        self.n_requests += 1
        self.unread = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def known(self, key: str) -> None:
        """The caller has a known key; what it sends next may be taken."""
        if not self.key:
            self.door.admit(self, key)
            self._listen()

    def end(self) -> None:
        """A request is answered."""
        self._requests -= 1
        self.unread = 0
        self._listen()

    async def drain(self) -> None:
        """Wait until the reader has taken most of what was sent, or is cut off."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    # -- timers ----------------------------------------------------------------------------------

    def _head_is_late(self) -> None:
        self._timer = None
        if self.unread:
            self.transport.write(TOO_LATE)
        self.transport.close()

    def _stop_waiting_for_reader(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None


class Server(uvicorn.Server):
    """A server that drains its service and exits with code 0."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        self.service, self.listener = service, listener
        settings = service.settings
        service.listens_at(_reached_at(listener))
        self.door = Door(settings, _raise_file_limit())
        super().__init__(
            uvicorn.Config(
                service,
                http=self.door.protocol,  # type: ignore[arg-type]  # called like a class
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=2048,
                timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # a delay
                timeout_graceful_shutdown=settings.drain,  # type: ignore[arg-type]
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second Ctrl-C ends at once."""
        self.service.draining = True
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop: on a signal, or if the service cannot start."""
        return await super().on_tick(counter) or self.service.unreadable is not None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the socket that is bound already."""
        super().run([self.listener])


def _reached_at(listener: socket.socket) -> str:
    """URL of a listener; other machines know this one by its name."""
    host, port = listener.getsockname()[:2]
    return _url(socket.gethostname() if host in ("0.0.0.0", "::") else host, port)


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A bound socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise OSError(f"{host}:{port} cannot be listened on: {reason}; try another port.") from None
    listener.setblocking(False)
    return listener


def serve(service: Service, started: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGTERM or Ctrl-C; `started` is told the address.

    Raises the error of a file that could not be read at the start.
    """
    settings = service.settings
    listener = listen(settings.host, settings.port)
    url = _url(*listener.getsockname()[:2])
    journal.note(logging.INFO, "listening", url=url, settings=settings.shown())
    # A collection stops all threads, and what is loaded stays: collect rarely.
    gc.set_threshold(10_000, 20, 20)
    service.on_ready = _freeze
    server = Server(service, listener)
    started(url)
    server.run()
    if service.unreadable is not None:
        raise service.unreadable


def _freeze() -> None:
    """Exempt everything loaded so far from garbage collection."""
    gc.collect()
    gc.freeze()


def _raise_file_limit() -> int:
    """Raise the limit of open files to the system's maximum, and return it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard if hard > 0 else MAX_HANDLES
    return MAX_HANDLES
