"""What an endpoint is: who may call it, what goes in, and what comes out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Literal, get_type_hints

import msgspec

from similia.service.http.budgets import LaneName
from similia.service.http.calls import JSON, Call

#: prefix of a tenant's paths
V1 = "/v1/{tenant}"
#: alternative scopes, one of which a key must have
READ, JUDGE, ADMIN = ("read",), ("feedback",), ("admin",)
SEE = ("read", "feedback")


@dataclass(frozen=True)
class Endpoint:
    """One operation; the OpenAPI document is made from these."""

    method: str
    path: str
    #: its docstring describes the operation
    handle: Callable[[Call], Awaitable[Any]]
    #: a key must have one of these; None admits everybody
    scopes: tuple[str, ...] | None
    #: what is sent back: JSON of this type, or text
    returns: Any
    body: Any = None
    #: struct with a list as its only field, accepted in place of a single body
    batch: type[msgspec.Struct] | None = None
    #: struct of the parameters in the URL's query
    query: type[msgspec.Struct] | None = None
    #: whether a missing body stands for an empty one
    optional_body: bool = False
    #: statuses of errors beside those that every endpoint may answer
    errors: tuple[int, ...] = ()
    #: which threads do its work
    lane: LaneName = "look"
    media: str = JSON.decode()
    #: whether it answers before the logs are replayed
    always: bool = False
    #: what a key must be for: the tenant in the path, the whole service, or any tenant
    place: Literal["tenant", "service", "any"] = "tenant"

    @cached_property
    def decoder(self) -> "msgspec.json.Decoder[Any]":
        """Decodes and checks a body."""
        return msgspec.json.Decoder(self.body)

    @cached_property
    def batch_decoder(self) -> "msgspec.json.Decoder[Any]":
        """Decodes and checks a body that is a batch."""
        return msgspec.json.Decoder(self.batch)


def endpoint(
    method: str, path: str, scopes: tuple[str, ...] | None, *, returns: Any = None, **more: Any
) -> Callable[[Callable[[Call], Awaitable[Any]]], Endpoint]:
    """Turn a function into an endpoint; `returns` overrides its return annotation."""

    def made(handle: Callable[[Call], Awaitable[Any]]) -> Endpoint:
        found = get_type_hints(handle)["return"] if returns is None else returns
        return Endpoint(method, path, handle, scopes, found, **more)

    return made


def endpoints_of(module: ModuleType) -> list[Endpoint]:
    """The endpoints that a module makes, in its order."""
    return [each for each in vars(module).values() if isinstance(each, Endpoint)]
