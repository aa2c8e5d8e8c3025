"""Feedback on the shortest way: from a request to the log and back without a task of its own.

Only what is ordinary goes this way: a small `POST feedback` from somebody who is let in, about
items that are known. Whatever is not, or fails, is served by the application as if it had not been
tried: until the log has taken it nothing has changed, and afterwards the judgements' ids tell that
they are the same.

Clients send the same heads again and again. One that was parsed is remembered, byte by byte, and
not parsed again.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.types import Scope

from similia.service.errors import ServiceError
from similia.service.http.endpoints import Decoders, Endpoint, is_json
from similia.service.http.guard import LINES, VERDICT, Exchange
from similia.service.http.problems import Problem
from similia.service.http.routes import V1, given
from similia.service.http.telemetry import NoTelemetry
from similia.service.log.writer import Request
from similia.service.schemas import Receipts
from similia.service.tenants.checks import receipts

if TYPE_CHECKING:
    from similia.service.http.app import Service

PATH = f"{V1}/feedback"
ADDRESS = re.compile(rb"/v1/([a-z0-9][a-z0-9_-]{0,49})/feedback")
#: bytes of a body
LONGEST = 65_536
#: heads that are remembered, and bytes of each
MOST_HEADS, LONGEST_HEAD = 4096, 2048
#: a head that has but one reading, with nothing after it
CLEAR = re.compile(rb"POST [!-~]+ HTTP/1\.1\r\n(?:[!#-'*+.^-z|~0-9A-Z-]+:[\t -~]*\r\n)+\r\n")
END = b"\r\n\r\n"

_encoder = msgspec.json.Encoder()


class Head(NamedTuple):
    """What a head says: where its feedback goes, how long the body is, and the rest."""

    tenant: str
    length: int
    scope: Scope
    headers: dict[bytes, bytes]


class Direct:
    """The short way into one service."""

    def __init__(self, service: "Service") -> None:
        self.service = service
        self._endpoint: Endpoint = next(
            each for each in service.endpoints if (each.method, each.path) == ("POST", PATH)
        )
        self._decoders = Decoders(self._endpoint)
        self._route = SimpleNamespace(path=PATH)
        self._open = isinstance(service.telemetry, NoTelemetry)
        self._heads: dict[bytes, Head] = {}
        #: when to give up, on what, and how; the oldest first
        self._watched: deque[tuple[float, Sent, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        #: what was answered in this turn of the loop, with judgements that were new and known
        self._answered: list[tuple[Exchange, int, int]] = []
        #: whether keys were looked at in this turn of the loop
        self._looked = False
        self._own: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    def tenant_of(self, method: bytes, url: bytes) -> str | None:
        """The tenant that a request brings feedback to; None if it goes the long way."""
        if method != b"POST" or not (self._open and self.service.ready):
            return None
        found = ADDRESS.fullmatch(url)
        return None if found is None else found[1].decode()

    def known(self, data: bytes) -> tuple[Head | None, int]:
        """The head that data begins with, if it is remembered, and where it ends."""
        end = data.find(END) + 4
        head = self._heads.get(data[:end])
        return (head if self._open and self.service.ready else None), end

    def remember(self, data: bytes, tenant: str, scope: Scope) -> None:
        """Remember the head that data begins with, if it is sure to come again and mean the same.

        It was parsed as this scope, as a plain request that leaves the connection open.
        """
        content = data[: data.find(END) + 4]
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        if (
            len(content) <= LONGEST_HEAD
            and CLEAR.fullmatch(content)
            and len(headers) == len(scope["headers"])
            and is_json(headers)
            and length.isdigit()
            and 0 < int(length) <= LONGEST
            and not headers.keys() & {b"transfer-encoding", b"x-request-id", b"upgrade"}
        ):
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[content] = Head(tenant, int(length), dict(scope), headers)

    def _begin_turn(self) -> None:
        self._looked = False

    def record(self, exchange: Exchange, new: int = 0, known: int = 0) -> None:
        """Count and log a request, once the answers of this turn of the loop are on their way."""
        self._answered.append((exchange, new, known))
        if len(self._answered) == 1:
            asyncio.get_running_loop().call_soon(self._record)

    def _record(self) -> None:
        answered, self._answered = self._answered, []
        for exchange, new, known in answered:
            self.service.metrics.acknowledge(exchange.scope["state"]["tenant"], new, known)
            exchange.record()

    def own_lines(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Headers of the server as lines; a new list comes every second, with the date."""
        if headers is not self._own[0]:
            self._own = headers, b"".join([b"%s: %s\r\n" % header for header in headers])
        return self._own[1]

    def watch(self, sent: "Sent", seconds: float, out_of_time: Callable[[], None]) -> None:
        """Call if a request has no answer in so many seconds, which are the same for all."""
        loop, watched = asyncio.get_running_loop(), self._watched
        while watched and watched[0][1].over:
            watched.popleft()
        watched.append((loop.time() + seconds, sent, out_of_time))
        if self._timer is None:
            self._timer = loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Tell those who have waited too long; one timer serves all."""
        loop, watched, self._timer = asyncio.get_running_loop(), self._watched, None
        while watched and (watched[0][1].over or watched[0][0] <= loop.time()):
            _, sent, out_of_time = watched.popleft()
            if not sent.over:
                out_of_time()
        if watched:
            self._timer = loop.call_at(watched[0][0], self._look)

    def send(
        self, scope: Scope, body: bytes, tenant: str, done: "Done", head: Head | None = None
    ) -> "Sent | None":
        """Hand judgements to the log; None if the request must go the long way.

        The body of a request with a known head is JSON.
        """
        service = self.service
        exchange = Exchange(service, scope, None if head is None else head.headers)
        try:
            key = service.admit(exchange, self._endpoint, tenant, looked=self._looked)
        except Problem as problem:
            scope[VERDICT] = problem
            return None
        scope[VERDICT] = key
        if not self._looked:  # once in each turn of the loop is enough
            self._looked = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        room = service.room
        if room.active >= room.requests or room.held + len(body) > room.size:
            return None
        try:
            decoders = self._decoders
            found = decoders.decoded(exchange, body) if head is None else decoders.parsed(body)
            judgements = given(found)
            place = service.tenants.get(tenant)
            if service.elsewhere(place) is not None:
                return None
            service.bounds.batch("judgements", judgements)
            committer = service.committer(place)
            entries = committer.plain(judgements) if key.judge is None else None
            if entries is None:
                checked = service.bounds.judgements(judgements, key)
                if any(not (each.query.item or each.query.vectors) for each in checked):
                    return None
                uploaded = "admin" in key.scopes
                entries = committer.prepared(checked, uploaded=uploaded)
            if entries is None:
                return None
            state = scope["state"]
            state["key"], state["tenant"], scope["route"] = key.id, tenant, self._route
            sent = Sent(self, exchange, len(body), done)
            sent.request = Request(entries, committer.told, sent.arrived)
            committer.send(sent.request)
        except Exception:  # the long way tells what is wrong
            return None
        sent.begin()
        return sent


#: what is called with the headers and body of an answer; without them if the long way is to answer
Done = Callable[[bytes | None, bytes], None]


def _nobody(_: bytes | None, __: bytes) -> None:
    """Nobody is to be told any more."""


class Sent:
    """A request whose judgements are on their way to the disk."""

    __slots__ = ("_direct", "_done", "_exchange", "_size", "over", "request")

    def __init__(self, direct: Direct, exchange: Exchange, size: int, done: Done) -> None:
        self._direct, self._exchange, self._size, self._done = direct, exchange, size, done
        self.over = False
        self.request: Request

    def begin(self) -> None:
        """Take room."""
        room = self._direct.service.room
        room.active += 1
        room.present += 1
        room.held += self._size

    def end(self) -> bool:
        """Return the room; False if that was done before."""
        if self.over:
            return False
        self.over, room = True, self._direct.service.room
        room.active -= 1
        room.present -= 1
        room.held -= self._size
        return True

    def give_up(self) -> str | None:
        """No answer in time: the id of the request, or None if there was one."""
        if not self.end():
            return None
        self._exchange.end(503)
        self._direct.record(self._exchange)
        return self._exchange.id

    def arrived(self, request: Any) -> None:
        """The log has answered."""
        if not self.end():
            return
        answer = request.answer
        done, self._done = self._done, _nobody  # what it holds holds this
        if isinstance(answer, ServiceError):
            done(None, b"")
            return
        content = _encoder.encode(Receipts(receipts(request.batch, answer)))
        id = self._exchange.id.encode()
        done(b"%s%s\r\ncontent-length: %d\r\n" % (LINES, id, len(content)), content)
        self._exchange.end(200)
        known = sum([place.duplicate for place in answer])
        self._direct.record(self._exchange, len(answer) - known, known)
