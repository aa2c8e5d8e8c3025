"""Run a service: listen, serve, and on SIGTERM finish what is under way."""

import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from similia.service.http import journal
from similia.service.http.app import Application, Service
from similia.service.http.connection import Door

#: part of the connections that the system allows, for callers without a known key
UNKNOWN_SHARE = 1 / 2
#: connections where the system does not say how many it allows
CONNECTIONS = 1024


class Server(uvicorn.Server):
    """A server that tells its service to drain, and ends with exit code 0."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        self.service, self.listener = service, listener
        settings = service.settings
        self.door = Door(settings, int(_raise_file_limit() * UNKNOWN_SHARE))
        super().__init__(
            uvicorn.Config(
                Application(service),
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
        """Whether to stop: when told to, or if there is nothing to serve."""
        return await super().on_tick(counter) or self.service.unreadable is not None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the socket that was bound before."""
        super().run([self.listener])


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

    Raises what is wrong with a file to start with.
    """
    settings = service.settings
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    journal.note(logging.INFO, "listening", url=url, settings=settings.shown())
    # Items are many and stay, so looking through all of them seldom is enough.
    gc.set_threshold(10_000, 20, 20)
    server = Server(service, listener)
    started(url)
    server.run()
    if service.unreadable is not None:
        raise service.unreadable


def _raise_file_limit() -> int:
    """Allow as many connections as the system lets this process have; how many that is."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard if hard > 0 else CONNECTIONS
    return CONNECTIONS
