"""Operations for owners: models, questions, tenants, keys."""

import time

from similia.service import schemas as s
from similia.service.answers import Figures, Model, ModelAt, Verdict
from similia.service.errors import Invalid, NotFound
from similia.service.http.endpoints import ADMIN, JUDGE, READ, V1, Call, Endpoint
from similia.service.http.keys import EVERY, Key


async def next_questions(call: Call) -> s.Questions:
    """What to ask a person next."""
    judge = call.key.judge or call.query.judge
    return s.Questions(await call.run(call.tenant.next, call.query.n, judge=judge))


async def models(call: Call) -> s.Models:
    """List the generations that were promoted."""
    return s.Models(await call.run(call.tenant.models))


async def promote(call: Call) -> Verdict:
    """Promote what was learnt, if held-out queries show that it is better."""
    return await call.run(call.tenant.promote)


async def rollback(call: Call) -> Model:
    """Go back to an earlier generation."""
    return await call.run(call.tenant.rollback, call.body.to)


async def history(call: Call) -> ModelAt:
    """Which model ranked at a time."""
    return await call.run(call.tenant.history, call.query.at)


async def evaluate(call: Call) -> Figures:
    """How good the ranking is on queries that were held out from the start."""
    return await call.run(call.tenant.evaluate)


# -- keys and tenants ----------------------------------------------------------------------------


async def make_key(call: Call) -> s.MadeKey:
    """Make a key of this tenant; it is shown once.

    This is how an owner invites a judge: scopes `["feedback"]`, and the judge's name.
    """
    asked: s.NewKey = call.body
    if not call.service.keys.needed:
        raise Invalid(
            "the first key must be made with `similia keys add`, as this service has none."
        )
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


async def list_keys(call: Call) -> s.KeyList:
    """List the keys of this tenant, without their secrets."""
    found = await call.run(call.service.keys.list, call.path["tenant"])
    return s.KeyList([_about(key) for key in found])


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


async def tenants(call: Call) -> s.Tenancy:
    """List the tenants that the key can see."""
    names = await call.run(call.service.tenants.names)
    return s.Tenancy([name for name in names if call.key.tenant in (EVERY, name)])


async def create_tenant(call: Call) -> s.Created:
    """Make a tenant. Needs a key of all tenants.

    One that `shares` the items of another ranks them, and learns for itself.
    """
    name, shares = call.path["tenant"], call.body.shares
    return s.Created(name, await call.run(call.service.create, name, shares), shares)


OWNER_ENDPOINTS = [
    Endpoint("GET", f"{V1}/next", next_questions, JUDGE, s.Questions, query=s.NextPage, lane="ask"),
    Endpoint("GET", f"{V1}/models", models, READ, s.Models),
    Endpoint("POST", f"{V1}/promote", promote, ADMIN, Verdict, errors=(409, 507), lane="long"),
    Endpoint(
        "POST",
        f"{V1}/rollback",
        rollback,
        ADMIN,
        Model,
        body=s.Rollback,
        optional_body=True,
        errors=(409, 507),
        lane="long",
    ),
    Endpoint("GET", f"{V1}/history", history, READ, ModelAt, query=s.At, lane="long"),
    Endpoint("GET", f"{V1}/evaluate", evaluate, READ, Figures, lane="long"),
    Endpoint("GET", f"{V1}/keys", list_keys, ADMIN, s.KeyList),
    Endpoint("POST", f"{V1}/keys", make_key, ADMIN, s.MadeKey, body=s.NewKey),
    Endpoint("DELETE", f"{V1}/keys/{{id}}", revoke_key, ADMIN, s.KeyInfo),
    Endpoint("GET", "/v1", tenants, READ, s.Tenancy, place="any"),
    Endpoint(
        "PUT",
        V1,
        create_tenant,
        ADMIN,
        s.Created,
        body=s.NewTenant,
        optional_body=True,
        errors=(409, 507),
        place="service",
        lane="write",
    ),
]
