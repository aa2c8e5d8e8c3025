"""Limits that keep a service within bounds: rates, requests at a time, bytes held."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from typing import NoReturn

from starlette.types import Receive

from similia.service.http.problems import Problem

#: callers whose rates are remembered; the one not seen for longest is forgotten
REMEMBERED = 10_000
#: seconds to read on after a body turned out too long
LINGER = 2.0


class Rates:
    """Token buckets: a caller may make `burst` requests at once, and `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Count a request; seconds to wait if there are too many, else 0."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        tokens, seen = self._buckets.pop(caller, (self.burst, now))
        tokens = min(self.burst, tokens + (now - seen) * self.rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self.rate
        self._buckets[caller] = (tokens - 1 if wait == 0 else tokens, now)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return wait

    def check(self, caller: str) -> None:
        """Raise 429 if there are too many requests."""
        wait = self.wait(caller)
        if wait > 0:
            raise Problem(
                429,
                f"too many requests: at most {self.rate:g} a second; try again later.",
                retry_after=wait,
            )


class Room:
    """Requests at a time, and bytes of their bodies."""

    def __init__(self, requests: int, size: int) -> None:
        self.requests, self.size = requests, size
        self.active = self.held = 0
        #: requests that are here, also those for which there is no room
        self.present = 0

    def __enter__(self) -> None:
        """Room for one more request, or 503."""
        if self.active >= self.requests:
            raise Problem(503, "too many requests at a time; try again later.", retry_after=1)
        self.active += 1

    def __exit__(self, *_: object) -> None:
        self.active -= 1


class Body:
    """The body of a request, in a room that it gives back at the end."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.size = 0

    def __enter__(self) -> "Body":
        return self

    def __exit__(self, *_: object) -> None:
        self.room.held -= self.size

    def grow(self, size: int) -> None:
        """Take room for more bytes, or raise 503."""
        if self.room.held + size > self.room.size:
            raise Problem(503, "too many large requests at a time; try again later.", retry_after=1)
        self.size += size
        self.room.held += size

    async def read(self, receive: Receive, announced: str | None, longest: int) -> bytes:
        """Read a body of at most `longest` bytes."""
        if announced is not None and announced.isdigit() and int(announced[:20]) > longest:
            await self._refuse(receive, longest)
        parts: list[bytes] = []
        more = True
        while more:
            part, more = await _part(receive)
            if self.size + len(part) > longest:
                await self._refuse(receive, longest)
            self.grow(len(part))
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _refuse(self, receive: Receive, longest: int) -> NoReturn:
        """Read on for a moment, as a client that is still sending would not see the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await _part(receive))[1]:
                    pass
        raise Problem(413, f"a body must have at most {longest} bytes; send less at a time.")


async def _part(receive: Receive) -> tuple[bytes, bool]:
    """A part of a body, and whether there is more of it."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    return message.get("body", b""), message.get("more_body", False)


class Gone(Exception):
    """The client went away in the middle of its request."""
