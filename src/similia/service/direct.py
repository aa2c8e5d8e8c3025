"""Feedback on the shortest way: from a request to the log and back without a task of its own.

Only what is ordinary goes this way: a small `POST feedback` whose body came with its head, from
somebody who is let in, about items that are known. Whatever is not, or fails, is served by the
application as if it had not been tried: until the log has taken it nothing has changed, and
afterwards the judgements' ids tell that they are the same.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.types import Scope

from similia.service.endpoints import Decoders, Endpoint
from similia.service.entries import receipts
from similia.service.errors import ServiceError
from similia.service.guard import LINES, VERDICT, Exchange
from similia.service.problems import Problem
from similia.service.routes import V1, given
from similia.service.schemas import Receipts
from similia.service.telemetry import NoTelemetry
from similia.service.writer import Request

if TYPE_CHECKING:
    from similia.service.app import Service

PATH = f"{V1}/feedback"
ADDRESS = re.compile(rb"/v1/([a-z0-9][a-z0-9_-]{0,49})/feedback")
#: bytes of a body
LONGEST = 65_536

_encoder = msgspec.json.Encoder()


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

    def tenant_of(self, method: bytes, url: bytes) -> str | None:
        """The tenant that a request brings feedback to; None if it goes the long way."""
        if method != b"POST" or not (self._open and self.service.ready):
            return None
        found = ADDRESS.fullmatch(url)
        return None if found is None else found[1].decode()

    def send(self, scope: Scope, body: bytes, tenant: str, done: "Done") -> "Sent | None":
        """Hand judgements to the log; None if the request must go the long way."""
        service = self.service
        exchange = Exchange(service, scope)
        try:
            key = service.admit(exchange, self._endpoint, tenant)
        except Problem as problem:
            scope[VERDICT] = problem
            return None
        scope[VERDICT] = key
        room = service.room
        if room.active >= room.requests or room.held + len(body) > room.size:
            return None
        try:
            judgements = given(self._decoders.decoded(exchange, body))
            found = service.tenants.get(tenant)
            if service.elsewhere(found) is not None:
                return None
            checked = service.bounds.judgements(judgements, key)
            if any(not (each.query.item or each.query.vectors) for each in checked):
                return None
            committer = service.committer(found)
            entries = committer.prepared(checked)
            if entries is None:
                return None
            scope["state"].update(key=key.id, tenant=tenant)
            scope["route"] = self._route
            sent = Sent(self, exchange, len(body), done)
            sent.request = Request(entries, committer.told, sent.arrived)
            committer.send(sent.request)
        except Exception:  # the long way tells what is wrong
            return None
        sent.begin()
        return sent


#: what is called with the headers and body of an answer; without them if the long way is to answer
Done = Callable[[bytes | None, bytes], None]


class Sent:
    """A request whose judgements are on their way to the disk."""

    __slots__ = ("_direct", "_done", "_exchange", "_over", "_size", "request")

    def __init__(self, direct: Direct, exchange: Exchange, size: int, done: Done) -> None:
        self._direct, self._exchange, self._size, self._done = direct, exchange, size, done
        self._over = False
        self.request: Request

    def begin(self) -> None:
        """Take room."""
        room = self._direct.service.room
        room.active += 1
        room.present += 1
        room.held += self._size

    def end(self) -> bool:
        """Return the room; False if that was done before."""
        if self._over:
            return False
        self._over, room = True, self._direct.service.room
        room.active -= 1
        room.present -= 1
        room.held -= self._size
        return True

    def give_up(self) -> str | None:
        """No answer in time: the id of the request, or None if there was one."""
        if not self.end():
            return None
        self._record(503)
        return self._exchange.id

    def arrived(self, request: Any) -> None:
        """The log has answered."""
        if not self.end():
            return
        answer, metrics = request.answer, self._direct.service.metrics
        if isinstance(answer, ServiceError):
            self._done(None, b"")
            return
        new = sum(not place.duplicate for place in answer)
        metrics.acknowledge(self._exchange.scope["state"]["tenant"], new, len(answer) - new)
        content = _encoder.encode(Receipts(receipts(request.batch, answer)))
        id = self._exchange.id.encode()
        self._done(b"%s%s\r\ncontent-length: %d\r\n" % (LINES, id, len(content)), content)
        self._record(200)

    def _record(self, status: int) -> None:
        self._exchange.status = status
        self._exchange.record()
