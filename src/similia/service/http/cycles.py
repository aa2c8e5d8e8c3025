"""Requests of one connection, from head to answer: uvicorn's own, and those on the short way.

An answer that is known as a whole can be written as a whole (`Shortcut`): one write instead of two
messages, each of which uvicorn checks and copies.
"""

import asyncio

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from similia.service.http.direct import Head, Sent
from similia.service.http.limits import Room


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


class Unheard:
    """An event that nobody waits for."""

    def set(self) -> None:
        """Nothing to do."""


UNHEARD = Unheard()


class Brief:
    """A request on the short way; to uvicorn it is a cycle like any other."""

    __slots__ = (
        "body",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "scope",
        "sent",
        "tenant",
    )
    message_event = UNHEARD

    def __init__(self, tenant: str, scope: Scope) -> None:
        self.tenant, self.scope = tenant, scope
        self.body = b""
        self.keep_alive = self.more_body = True
        self.disconnected = self.response_complete = False
        self.sent: Sent | None = None


class Late:
    """A request whose head is known and whose body is still to come; it takes room meanwhile."""

    __slots__ = ("_room", "_size", "head", "missing", "parts", "timer")

    def __init__(
        self, head: Head, room: Room, data: bytes, end: int, timer: asyncio.TimerHandle
    ) -> None:
        self.head, self.parts, self.timer = head, [data], timer
        self.missing = end + head.length - len(data)
        self._room, self._size = room, head.length
        room.active += 1
        room.present += 1
        room.held += self._size

    def add(self, data: bytes) -> None:
        """Take a part."""
        self.parts.append(data)
        self.missing -= len(data)

    def end(self) -> bytes:
        """Return the room; all that came."""
        self.timer.cancel()
        self._room.active -= 1
        self._room.present -= 1
        self._room.held -= self._size
        return b"".join(self.parts)
