"""Operations for owners and operators: models, questions, tenants, keys, health."""

import time
from typing import Any

from similia.service import schemas as s
from similia.service.answers import Figures, Model, ModelAt, Verdict
from similia.service.errors import Invalid, NotFound, Problem
from similia.service.http.calls import Call
from similia.service.http.endpoints import ADMIN, JUDGE, READ, V1, endpoint
from similia.service.http.keys import EVERY, Key
from similia.service.http.telemetry import PROMETHEUS_MEDIA
from similia.service.tenants.checks import check_text


@endpoint("GET", f"{V1}/next", JUDGE, query=s.NextPage, lane="ask")
async def next_questions(call: Call) -> s.Questions:
    """What to ask a person next.

    Keys for admin and keys of a judge vouch for the judge. Answers that another key asked for count
    as those of one judge in exams, whatever their names.
    """
    key = call.key
    vouches = key.judge is not None or "admin" in key.scopes
    asked = call.run(
        call.tenant.next,
        call.query.n,
        judge=key.judge or call.query.judge,
        key="" if vouches else key.id,
    )
    return s.Questions(await asked)


@endpoint("GET", f"{V1}/models", READ)
async def models(call: Call) -> s.Models:
    """List the generations that were promoted."""
    return s.Models(await call.run(call.tenant.champions.models))


@endpoint("POST", f"{V1}/promote", ADMIN, errors=(409, 507), lane="long")
async def promote(call: Call) -> Verdict:
    """Promote what was learnt, if held-out queries show that it is better."""
    return await call.run(call.tenant.champions.promote)


@endpoint(
    "POST",
    f"{V1}/rollback",
    ADMIN,
    body=s.Rollback,
    optional_body=True,
    errors=(409, 507),
    lane="long",
)
async def rollback(call: Call) -> Model:
    """Go back to an earlier generation."""
    return await call.run(call.tenant.champions.rollback, call.body.to)


@endpoint("GET", f"{V1}/history", READ, query=s.At, lane="long")
async def history(call: Call) -> ModelAt:
    """Which model ranked at a time."""
    return await call.run(call.tenant.champions.history, call.query.at)


@endpoint("GET", f"{V1}/evaluate", READ, lane="long")
async def evaluate(call: Call) -> Figures:
    """How good the ranking is on queries that were held out from the start."""
    return await call.run(call.tenant.champions.evaluate)


# -- keys and tenants ----------------------------------------------------------------------------


@endpoint("POST", f"{V1}/keys", ADMIN, body=s.NewKey)
async def make_key(call: Call) -> s.MadeKey:
    """Make a key of this tenant; it is shown once.

    This is how an owner invites a judge: scopes `["feedback"]`, and the judge's name.
    """
    asked: s.NewKey = call.body
    if not call.service.keys.needed:
        raise Invalid(
            "the first key must be made with `similia keys add`, as this service has none."
        )
    check_text("key: name", asked.name, least=0)
    check_text("key: judge", asked.judge or "", least=0)
    expires = None if asked.hours is None else time.time() + 3600 * asked.hours
    key, token = await call.run(
        call.service.keys.add,
        call.path["tenant"],
        tuple(dict.fromkeys(asked.scopes)),
        name=asked.name,
        judge=asked.judge,
        expires=expires,
    )
    return s.MadeKey(key.id, token)


@endpoint("GET", f"{V1}/keys", ADMIN)
async def list_keys(call: Call) -> s.KeyList:
    """List the keys of this tenant, without their secrets."""
    found = await call.run(call.service.keys.list, call.path["tenant"])
    return s.KeyList([_about(key) for key in found])


@endpoint("DELETE", f"{V1}/keys/{{id}}", ADMIN)
async def revoke_key(call: Call) -> s.KeyInfo:
    """Revoke a key of this tenant, at once."""
    try:
        found = await call.run(call.service.keys.revoke, call.path["id"], call.path["tenant"])
    except KeyError:
        raise NotFound("there is no such key.") from None
    return _about(found)


def _about(key: Key) -> s.KeyInfo:
    return s.KeyInfo(
        key.id, key.tenant, list(key.scopes), key.name, key.judge, key.created, key.expires
    )


@endpoint("GET", "/v1", READ, place="any")
async def tenants(call: Call) -> s.Tenancy:
    """List the tenants that the key can see."""
    names = await call.run(call.service.tenants.names)
    return s.Tenancy([name for name in names if call.key.tenant in (EVERY, name)])


@endpoint(
    "PUT",
    V1,
    ADMIN,
    body=s.NewTenant,
    optional_body=True,
    errors=(409, 507),
    place="service",
    lane="open",
)
async def create_tenant(call: Call) -> s.Created:
    """Make a tenant. Needs a key of all tenants.

    One that `shares` the items of another ranks them, and learns for itself.
    """
    name, shares = call.path["tenant"], call.body.shares
    return s.Created(name, await call.run(call.service.create, name, shares), shares)


# -- health --------------------------------------------------------------------------------------


@endpoint("GET", "/livez", None, always=True)
async def livez(call: Call) -> s.Health:
    """Whether the process answers."""
    return s.Health("alive")


@endpoint("GET", "/readyz", None, always=True)
async def readyz(call: Call) -> s.Health:
    """Whether the logs are replayed and requests are served."""
    service = call.service
    if service.draining:
        raise Problem(503, "not ready: shutting down.", retry_after=1)
    if not service.ready:
        why = "the logs could not be opened; see the log." if service.failure else "replaying."
        raise Problem(503, f"not ready: {why}", retry_after=1)
    return s.Health("ready") if service.processes is None else service.processes.health()


@endpoint(
    "GET", "/metrics", READ, media=PROMETHEUS_MEDIA, always=True, place="service", lane="bulk"
)
async def metrics(call: Call) -> bytes:
    """Counts and times, for Prometheus. Needs a key of all tenants."""
    return await call.run(call.service.metrics.page)


@endpoint("GET", "/openapi.json", None, always=True)
async def openapi(call: Call) -> dict[str, Any]:
    """Describe the API: OpenAPI."""
    call.service.auth.visitor(call)
    return call.service.document
