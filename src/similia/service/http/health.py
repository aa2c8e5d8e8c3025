"""Whether the service lives, what it counts, and what it can do."""

from typing import Any

from similia.service import schemas as s
from similia.service.http.endpoints import READ, Call, Endpoint
from similia.service.http.metrics import PROMETHEUS_MEDIA
from similia.service.http.problems import Problem


async def livez(call: Call) -> s.Health:
    """Whether the process answers."""
    return s.Health("alive")


async def readyz(call: Call) -> s.Health:
    """Whether the logs are replayed and requests are served."""
    service = call.service
    if service.draining:
        raise Problem(503, "not ready: shutting down.", retry_after=1)
    if not service.ready:
        why = "the logs could not be opened; see the log." if service.failure else "replaying."
        raise Problem(503, f"not ready: {why}", retry_after=1)
    return s.Health("ready")


async def metrics(call: Call) -> bytes:
    """Counts and times, for Prometheus. Needs a key of all tenants."""
    return await call.run(call.service.metrics.page)


async def openapi(call: Call) -> dict[str, Any]:
    """Describe the API: OpenAPI."""
    call.service.auth.visitor(call.exchange)
    return call.service.document


HEALTH_ENDPOINTS = [
    Endpoint("GET", "/livez", livez, None, s.Health, always=True),
    Endpoint("GET", "/readyz", readyz, None, s.Health, always=True),
    Endpoint(
        "GET",
        "/metrics",
        metrics,
        READ,
        bytes,
        media=PROMETHEUS_MEDIA,
        always=True,
        place="service",
        lane="bulk",
    ),
    Endpoint("GET", "/openapi.json", openapi, None, dict[str, Any], always=True),
]
