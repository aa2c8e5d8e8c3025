"""What an endpoint is: who may call it, what goes in and comes out, and how a request is served."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from similia.service.http.exchange import JSON, Exchange
from similia.service.http.keys import VISITOR, Key
from similia.service.http.lanes import LaneName
from similia.service.http.problems import Problem

if TYPE_CHECKING:
    from similia.service.http.app import Service
    from similia.service.tenants.tenant import Tenant

T = TypeVar("T")
#: beginning of the paths of a tenant
V1 = "/v1/{tenant}"
#: scopes of keys, one of which an endpoint asks for
READ, JUDGE, OWN = ("read",), ("feedback",), ("admin",)
SEE = ("read", "feedback")
#: where a row of a batch is named in an error
ROW = re.compile(r"`\$\.(?:judgements|items|queries)\[(\d+)\]")
#: parameters of one URL
MAX_PARAMETERS = 100


@dataclass(frozen=True)
class Endpoint:
    """One operation; the OpenAPI document is made from these."""

    method: str
    path: str
    #: its docstring describes the operation
    handle: "Callable[[Call], Awaitable[Any]]"
    #: one of these lets a key in; None lets everybody in
    scopes: tuple[str, ...] | None
    #: what is sent back: JSON of this type, or text
    returns: Any
    body: Any = None
    #: struct with one field, a list, that may be sent instead of a single body
    batch: type[msgspec.Struct] | None = None
    #: struct of the parameters in the URL's query
    query: type[msgspec.Struct] | None = None
    #: whether a missing body stands for an empty one
    optional_body: bool = False
    #: statuses of errors beside those that every endpoint may answer
    errors: tuple[int, ...] = ()
    #: which threads do its work
    lane: LaneName = "search"
    media: str = JSON.decode()
    #: whether it answers before the logs are replayed
    always: bool = False
    #: what a key must be for: the tenant in the path, the whole service, or any tenant
    place: Literal["tenant", "service", "any"] = "tenant"


@dataclass
class Call:
    """A request that passed all checks."""

    service: "Service"
    endpoint: Endpoint
    exchange: Exchange
    key: Key
    path: dict[str, str]
    body: Any = None
    query: Any = None
    _tenant: "Tenant | None" = field(default=None, repr=False)

    @property
    def tenant(self) -> "Tenant":
        """The tenant in the path."""
        assert self._tenant is not None
        return self._tenant

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run work in a thread of the endpoint's lane."""
        return await self.run_in(self.endpoint.lane, work, *arguments, **named)

    async def run_in(
        self, lane: LaneName, work: Callable[..., T], *arguments: Any, **named: Any
    ) -> T:
        """Run work in a thread of a lane."""
        job = partial(work, *arguments, **named)
        return await self.service.lanes[lane].run(self.key.id, job)

    async def go_on(self, lane: LaneName, work: Callable[..., T], *arguments: Any) -> T:
        """Run the next piece of work that was let into a lane before."""
        job = partial(work, *arguments)
        return await self.service.lanes[lane].run(self.key.id, job, admitted=True)


class Operation:
    """An endpoint of a service, ready to serve requests."""

    def __init__(self, service: "Service", endpoint: Endpoint) -> None:
        self.service, self.endpoint = service, endpoint
        settings = service.settings
        self.seconds = settings.long_timeout if endpoint.lane == "long" else settings.timeout
        self._single = msgspec.json.Decoder(endpoint.body)
        self._batch = None if endpoint.batch is None else msgspec.json.Decoder(endpoint.batch)

    async def serve(self, exchange: Exchange, path: dict[str, str]) -> None:
        """Serve a request: first its caller, then all else."""
        endpoint, service = self.endpoint, self.service
        if endpoint.scopes is None:
            await self._answer(Call(service, endpoint, exchange, VISITOR, path))
            return
        tenant = path.get("tenant")
        key = service.auth.admit(exchange, endpoint, tenant)
        if tenant is not None:
            exchange.details["tenant"] = tenant
        service.calls.take(key.id)
        call = Call(service, endpoint, exchange, key, path)
        try:
            if not (endpoint.always or service.ready):
                raise Problem(503, "the service is not ready; try again later.", retry_after=1)
            if tenant is not None and endpoint.place == "tenant":
                await self._take_tenant(call, tenant)
            call.query = _parameters(endpoint, exchange.scope["query_string"])
            await self._answer(call)
        finally:
            if call._tenant is not None:
                service.tenants.give(call._tenant)
            service.calls.give(key.id)

    async def _take_tenant(self, call: Call, name: str) -> None:
        """Hold the tenant open for this call; one that is closed is opened by a thread."""
        tenants = self.service.tenants
        try:
            async with asyncio.timeout(self.seconds):
                while (found := tenants.take(name)) is None:
                    await call.run_in("write", tenants.get, name)
        except TimeoutError:
            sentence = "the tenant is still being opened; try again later."
            raise Problem(503, sentence, retry_after=1) from None
        call._tenant = found

    async def _answer(self, call: Call) -> None:
        found = await self._found(call)
        if isinstance(found, AsyncIterator):
            await call.exchange.stream(200, found)
        elif isinstance(found, bytes):
            media = self.endpoint.media.encode()
            await call.exchange.respond(200, found, media=media)
        else:
            await call.exchange.respond(200, _encoder.encode(found))

    async def _found(self, call: Call) -> Any:
        """What is to be answered, in time."""
        settings, exchange = self.service.settings, call.exchange
        try:
            async with asyncio.timeout(self.seconds):
                if self.endpoint.body is not None:
                    content = await exchange.body(settings.max_body, settings.body_timeout)
                    call.body = self._decoded(exchange, content)
                return await self.endpoint.handle(call)
        except TimeoutError:
            sentence = f"no answer within {self.seconds:g} seconds; try again later."
            raise Problem(503, sentence, retry_after=1) from None

    # -- what goes in ------------------------------------------------------------------------------

    def _decoded(self, exchange: Exchange, content: bytes) -> Any:
        """The struct of a body; 400, 415 or 422 if it is none."""
        if not content and self.endpoint.optional_body:
            content = b"{}"
        elif not _is_json(exchange):
            media = exchange.header(b"content-type") or "no type"
            sentence = f"a body must be {JSON.decode()}, uncompressed, got {media!r:.80}."
            raise Problem(415, sentence)
        try:
            if self._batch is not None and _is_batch(content):
                return self._batch.decode(content)
            return self._single.decode(content)
        except msgspec.ValidationError as error:
            row = ROW.search(str(error))
            rows = {int(row[1]): _short(error)} if row else None
            raise Problem(422, f"the body does not fit: {_short(error)}.", rows=rows) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, f"the body is not JSON: {_short(error)}.") from None


class _Outline(msgspec.Struct):
    judgements: msgspec.Raw = msgspec.Raw(b"")


_encoder = msgspec.json.Encoder()
_outline = msgspec.json.Decoder(_Outline)


def _is_batch(content: bytes) -> bool:
    # Without the name of the list there is none; escapes may spell it otherwise.
    if b'"judgements"' not in content and b"\\" not in content:
        return False
    return bool(_outline.decode(content).judgements)


def _is_json(exchange: Exchange) -> bool:
    """Whether a body is what is taken: JSON, uncompressed."""
    media = exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    encoding = exchange.headers.get(b"content-encoding", b"identity").lower()
    return media == JSON and encoding == b"identity"


def _parameters(endpoint: Endpoint, given: bytes) -> Any:
    """The struct of the URL's query; 422 if it is none."""
    if endpoint.query is None:
        if given:
            raise Problem(422, f"{endpoint.path} takes no parameters in the URL's query.")
        return None
    try:
        text = given.decode("latin-1")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise Problem(422, f"a URL must have at most {MAX_PARAMETERS} parameters.") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Problem(422, "a parameter in the URL's query must be given once.")
    try:
        return msgspec.convert(found, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the URL's query does not fit: {_short(error)}.") from None


def _short(error: BaseException) -> str:
    return str(error).rstrip(".").encode("utf-8", "replace").decode()[:300]


# -- which endpoint --------------------------------------------------------------------------------


class Routes:
    """Finds the endpoint of a path. An id in a path may contain slashes."""

    def __init__(self, service: "Service", endpoints: Sequence[Endpoint]) -> None:
        self._plain: dict[str, Resource] = {}
        #: by what comes before and after the id of something; the longest end first
        self._of_ids: list[tuple[str, str, Resource]] = []
        paths: dict[str, list[Endpoint]] = {}
        for endpoint in endpoints:
            paths.setdefault(endpoint.path, []).append(endpoint)
        for path, group in paths.items():
            resource = Resource(service, path, group)
            before, id, after = path.removeprefix(V1).partition("{id}")
            if id:
                self._of_ids.append((before, after, resource))
            else:
                self._plain[path] = resource
        self._of_ids.sort(key=lambda each: -len(each[1]))

    def find(self, path: str) -> "tuple[Resource | None, dict[str, str]]":
        """What is at a path, and the names in it."""
        if path in self._plain:
            return self._plain[path], {}
        start, v1, tenant = (*path.split("/", 3), "", "")[:3]
        if start or v1 != "v1" or not tenant:
            return None, {}
        below = path[len(f"/v1/{tenant}") :]
        found = self._plain.get(V1 + below)
        if found is not None:
            return found, {"tenant": tenant}
        for before, after, resource in self._of_ids:
            id = below[len(before) : len(below) - len(after)]
            if id and below.startswith(before) and below.endswith(after):
                return resource, {"tenant": tenant, "id": id}
        return None, {}


class Resource:
    """All operations on one path."""

    def __init__(self, service: "Service", path: str, endpoints: Sequence[Endpoint]) -> None:
        self.path = path
        self._operations = {each.method: Operation(service, each) for each in endpoints}
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]
        self._allowed = ", ".join(sorted(self._operations))

    async def serve(self, exchange: Exchange, path: dict[str, str]) -> None:
        """Serve a request by the operation of its method."""
        exchange.route = self.path
        method = exchange.scope["method"]
        operation = self._operations.get(method)
        if operation is None:
            raise Problem(
                405,
                f"the method must be one of {self._allowed}, got {method:.20}.",
                headers={"allow": self._allowed},
            )
        await operation.serve(exchange, path)
