"""What an endpoint is: who may call it, what goes in and comes out, and how a request is served."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from similia.service.http.guard import EXCHANGE, SHORTCUT, VERDICT, Exchange
from similia.service.http.keys import Key
from similia.service.http.limits import Body
from similia.service.http.problems import Problem

if TYPE_CHECKING:
    from similia.service.http.app import Service
    from similia.service.tenants.tenant import Tenant

T = TypeVar("T")
JSON = "application/json"
#: where a row of a batch is named in an error
PLACE = re.compile(r"`\$\.(?:judgements|items|queries)\[(\d+)\]")


@dataclass(frozen=True)
class Endpoint:
    """One operation; the OpenAPI document is made from these."""

    method: str
    path: str
    #: its docstring describes the operation
    handle: "Callable[[Call], Awaitable[Any]]"
    #: one of these lets a key in; None lets everybody in
    scopes: tuple[str, ...] | None
    #: what is sent back; Response for anything but JSON
    returns: Any
    body: Any = None
    #: struct with one field, a list, that may be sent instead of a single body
    batch: type[msgspec.Struct] | None = None
    #: struct of the parameters in the URL's query
    query: type[msgspec.Struct] | None = None
    #: whether a missing body stands for an empty one
    optional_body: bool = False
    status: int = 200
    #: statuses of errors beside those that every endpoint may answer
    errors: tuple[int, ...] = ()
    #: whether it takes long: to evaluate, to promote
    long: bool = False
    media: str = JSON
    #: whether it answers before the logs are replayed
    always: bool = False
    #: what a key must be for: the tenant in the path, the whole service, or any tenant
    place: Literal["tenant", "service", "any"] = "tenant"


@dataclass
class Call:
    """A request that passed all checks."""

    service: "Service"
    endpoint: Endpoint
    request: Request
    key: Key
    path: dict[str, str]
    body: Any = None
    query: Any = None
    _tenant: "Tenant | None" = field(default=None, repr=False)

    @property
    def tenant(self) -> "Tenant":
        """Engine of the tenant in the path."""
        assert self._tenant is not None
        return self._tenant

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run work of the engine in a thread."""
        pool = self.service.long_work if self.endpoint.long else self.service.work
        return await pool.run(work, *arguments, **named)


class Resource:
    """All operations on one path, as an ASGI application."""

    def __init__(self, service: "Service", endpoints: Sequence[Endpoint]) -> None:
        self.service = service
        self.endpoints = {endpoint.method: endpoint for endpoint in endpoints}
        self._decoders = {endpoint.method: Decoders(endpoint) for endpoint in endpoints}
        methods = [*self.endpoints, *(["HEAD"] if "GET" in self.endpoints else [])]
        self.allowed = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self.endpoints.get(method)
        if endpoint is None:
            raise Problem(
                405,
                f"the method must be one of {self.allowed}, got {scope['method']:.20}.",
                headers={"allow": self.allowed},
            )
        exchange: Exchange = scope[EXCHANGE]
        call = self._admitted(endpoint, Request(scope, receive))
        limits = self.service.settings
        with Body(self.service.room) as body:
            if endpoint.body is not None:
                content = await self._read(body, exchange, receive)
                scope["body_read"] = True
                call.body = self._decoders[method].decoded(exchange, content)
            seconds = limits.long_timeout if endpoint.long else limits.timeout
            try:
                async with asyncio.timeout(seconds):
                    result = await endpoint.handle(call)
            except TimeoutError:
                sentence = f"no answer within {seconds:g} seconds; try again later."
                raise Problem(503, sentence, retry_after=1) from None
        if isinstance(result, Response):
            await result(scope, receive, send)
        else:
            await exchange.respond(endpoint.status, _encoder.encode(result))

    async def _read(self, body: Body, exchange: Exchange, receive: Receive) -> bytes:
        limits, announced = self.service.settings, exchange.header(b"content-length")
        shortcut = exchange.scope.get(SHORTCUT)
        if shortcut is not None and shortcut.has_body:  # nothing to wait for
            return await body.read(receive, announced, limits.max_body)
        seconds = limits.body_timeout
        try:
            async with asyncio.timeout(seconds):
                return await body.read(receive, announced, limits.max_body)
        except TimeoutError:
            raise Problem(408, f"a body must arrive within {seconds:g} seconds.") from None

    def _admitted(self, endpoint: Endpoint, request: Request) -> Call:
        """Check the caller, then where the request goes; tell strangers nothing."""
        service, scope = self.service, request.scope
        tenant = request.path_params.get("tenant")
        key = scope.get(VERDICT) or service.admit(scope[EXCHANGE], endpoint, tenant)
        if isinstance(key, Problem):
            raise key
        scope["state"]["key"] = key.id
        if tenant is not None:
            scope["state"]["tenant"] = tenant
        if not (endpoint.always or service.ready):
            raise Problem(503, "the service is not ready; try again later.", retry_after=1)
        call = Call(service, endpoint, request, key, request.path_params)
        if tenant is not None and endpoint.place == "tenant":
            call._tenant = service.tenants.get(tenant)
        if endpoint.query is not None:
            call.query = _of_query(endpoint, request)
        elif scope["query_string"] and endpoint.scopes is not None:
            raise Problem(422, f"{endpoint.path} takes no parameters in the URL's query.")
        return call


def routes(service: "Service", endpoints: Sequence[Endpoint]) -> list[Route]:
    """Routes for endpoints, one for each path; an id in a path may contain slashes."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return [
        Route(path.replace("{id}", "{id:path}"), Resource(service, group))
        for path, group in sorted(paths.items(), key=lambda each: each[0].endswith("{id}"))
    ]


# -- what goes in, what comes out --------------------------------------------------------------


class _Probe(msgspec.Struct):
    judgements: msgspec.Raw = msgspec.Raw(b"")


_encoder = msgspec.json.Encoder()


class Decoders:
    """From the bodies of an endpoint to its structs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._single = msgspec.json.Decoder(endpoint.body)
        self._batch = None if endpoint.batch is None else msgspec.json.Decoder(endpoint.batch)
        self._probe = msgspec.json.Decoder(_Probe)

    def decoded(self, exchange: Exchange, content: bytes) -> Any:
        """The struct of a body; 400, 415 or 422 if it is none."""
        if not content and self.endpoint.optional_body:
            content = b"{}"
        elif not is_json(exchange.headers):
            media = exchange.header(b"content-type") or "no type"
            raise Problem(415, f"a body must be {JSON}, uncompressed, got {media!r:.80}.")
        return self.parsed(content)

    def parsed(self, content: bytes) -> Any:
        """The same for a body whose type is known."""
        try:
            if self._batch is not None and self._is_batch(content):
                return self._batch.decode(content)
            return self._single.decode(content)
        except msgspec.ValidationError as error:
            place = PLACE.search(str(error))
            rows = {int(place[1]): _short(error)} if place else None
            raise Problem(422, f"the body does not fit: {_short(error)}.", rows=rows) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, f"the body is not JSON: {_short(error)}.") from None

    def _is_batch(self, content: bytes) -> bool:
        # Without the name of the list there is none; escapes may spell it otherwise.
        if b'"judgements"' not in content and b"\\" not in content:
            return False
        return bool(self._probe.decode(content).judgements)


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a body is what is taken: JSON, uncompressed."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    encoding = headers.get(b"content-encoding", b"identity").lower()
    return media == JSON.encode() and encoding == b"identity"


def _of_query(endpoint: Endpoint, request: Request) -> Any:
    pairs = request.query_params.multi_items()
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Problem(422, "a parameter in the URL's query must be given once.")
    try:
        return msgspec.convert(dict(pairs), endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the URL's query does not fit: {_short(error)}.") from None


def _short(error: BaseException) -> str:
    return str(error).rstrip(".").encode("utf-8", "replace").decode()[:300]
