"""The OpenAPI document, made from the endpoints and their structs."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from similia.service.http.calls import JSON
from similia.service.http.endpoints import Endpoint
from similia.service.schemas import Error

JSON_TYPE = JSON.decode()
#: statuses of any request
ALWAYS = (500, 503)
#: further statuses of requests with a key, and with a body
KEYED = (401, 403, 429)
WITH_BODY = (400, 408, 413, 415, 422)
MEANINGS = {
    400: "The body is not JSON.",
    401: "The key is missing or unknown.",
    403: "The key does not allow this.",
    404: "Not found.",
    408: "The body did not arrive in time.",
    409: "The id is taken by another body.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    422: "The request does not fit.",
    429: "Too many requests.",
    500: "An error of the service; its log has the request id.",
    503: "Not ready, or too busy; try again later.",
    507: "The disk is full.",
}


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the endpoints."""
    types = _types(endpoints)
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    components = _modern(components)
    found = dict(zip(map(repr, types), map(_modern, schemas), strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operations = paths.setdefault(endpoint.path, {})
        operations[endpoint.method.lower()] = _operation(endpoint, found, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "similia",
            "version": version,
            "description": "Teach a similarity from feedback, one judgement at a time.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _modern(schema: Any) -> Any:
    """The schema with tuples as OpenAPI 3.1 writes them."""
    if isinstance(schema, list):
        return [_modern(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _modern(value) for name, value in schema.items()}
    if isinstance(found.get("items"), list):
        found |= {"prefixItems": found["items"], "items": False}
    return found


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    used = [
        kind for e in endpoints for kind in (e.body, e.batch, e.query, e.returns) if _is_json(kind)
    ]
    return list({repr(kind): kind for kind in [Error, *used]}.values())


def _is_json(kind: Any) -> bool:
    return kind is not None and kind is not bytes


def _operation(
    endpoint: Endpoint, schemas: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    text = inspect.cleandoc(endpoint.handle.__doc__ or "")
    summary, _, more = text.partition("\n\n")
    statuses = {*ALWAYS, *endpoint.errors}
    if endpoint.scopes is not None:
        statuses |= {*KEYED, 422}
    if "{tenant}" in endpoint.path:
        statuses |= {404}
    if endpoint.body is not None:
        statuses |= set(WITH_BODY)
    good: dict[str, Any] = {"description": "As asked."}
    if _is_json(endpoint.returns):
        good["content"] = {endpoint.media: {"schema": schemas[repr(endpoint.returns)]}}
    else:
        good["content"] = {endpoint.media: {"schema": {"type": "string"}}}
    wrong = {JSON_TYPE: {"schema": schemas[repr(Error)]}}
    operation: dict[str, Any] = {
        "operationId": endpoint.handle.__name__,
        "summary": summary.rstrip("."),
        "description": " ".join(more.split()) or summary,
        "parameters": _parameters(endpoint, schemas, components),
        "responses": {
            "200": good,
            **{str(s): {"description": MEANINGS[s], "content": wrong} for s in sorted(statuses)},
        },
    }
    if endpoint.scopes is not None:
        operation["security"] = [{"key": []}]
        operation["description"] += f" Needs a key for {' or '.join(endpoint.scopes)}."
    if endpoint.body is not None:
        schema = schemas[repr(endpoint.body)]
        if endpoint.batch is not None:
            schema = {"anyOf": [schema, schemas[repr(endpoint.batch)]]}
        operation["requestBody"] = {
            "required": not endpoint.optional_body,
            "content": {JSON_TYPE: {"schema": schema}},
        }
    return operation


def _parameters(
    endpoint: Endpoint, schemas: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    found = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    if endpoint.query is None:
        return found
    struct = components[schemas[repr(endpoint.query)]["$ref"].rpartition("/")[2]]
    for name, schema in struct["properties"].items():
        description = schema.get("description", name)
        required = name in struct.get("required", ())
        found.append(
            {
                "name": name,
                "in": "query",
                "required": required,
                "description": description,
                "schema": schema,
            }
        )
    return found
