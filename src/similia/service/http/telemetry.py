"""What operators see beside the log: metrics for Prometheus, traces by OpenTelemetry."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from similia.exceptions import MissingExtraError
from similia.service.http.calls import Call

if TYPE_CHECKING:
    from similia.service.http.app import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PROMETHEUS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
#: numbers of a status that are exported for each open tenant
TENANT_NUMBERS = ("seq", "learnt_seq", "items", "judgements", "queries")


class Metrics:
    """Counts and times of requests and judgements.

    Attributes
    ----------
    requests, seconds, acknowledged : callables
        The counters of a method, route and status; of a route; of a tenant and whether judgements
        were duplicates.
    """

    def __init__(self, service: "Service") -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        requests = Counter(
            "similia_requests", "Requests.", ["method", "route", "status"], registry=registry
        )
        seconds = Histogram(
            "similia_request_seconds",
            "Time of requests.",
            ["route"],
            registry=registry,
            buckets=BUCKETS,
        )
        acknowledged = Counter(
            "similia_acknowledged",
            "Judgements acknowledged.",
            ["tenant", "duplicate"],
            registry=registry,
        )
        active = Gauge("similia_requests_active", "Requests worked on.", registry=registry)
        active.set_function(lambda: service.present)
        ready = Gauge("similia_ready", "Whether requests are served.", registry=registry)
        ready.set_function(lambda: service.ready)
        registry.register(_Tenants(service))
        # Looking a counter up by its labels takes longer than counting.
        self.requests = lru_cache(1024)(requests.labels)
        self.seconds = lru_cache(256)(seconds.labels)
        self.acknowledged = lru_cache(1024)(acknowledged.labels)

    def page(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._registry)


class _Tenants(Collector):
    """Numbers of each tenant, one family for each number."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def describe(self) -> list[Metric]:
        """Nothing: names are known only once there are tenants."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Present numbers of all tenants."""
        families: dict[str, GaugeMetricFamily] = {}
        for tenant, numbers in self._numbers():
            for name, value in numbers.items():
                if name not in families:
                    families[name] = GaugeMetricFamily(
                        f"similia_{name}", f"Tenant: {name}.", labels=["tenant"]
                    )
                families[name].add_metric([tenant], value)
        return families.values()

    def _numbers(self) -> Iterator[tuple[str, dict[str, float]]]:
        if not self._service.ready:
            return
        for name in list(self._service.tenants.unusable):
            yield name, {"usable": 0.0}
        for tenant in self._service.tenants.opened():
            status = tenant.status()
            found = {number: float(getattr(status, number)) for number in TENANT_NUMBERS}
            heard = tenant.log.writer.heard
            if heard is not None:  # another process writes
                found["heard_seconds"] = time.monotonic() - heard
            yield tenant.name, {"usable": 1.0, **found}


class Traces:
    """A span for each request, continuing the caller's trace; OTEL_* variables set it up."""

    def __init__(self, exporter: Any = None) -> None:
        try:
            from opentelemetry import propagate
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanKind

            if exporter is None:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

                exporter = OTLPSpanExporter()
        except ImportError as error:
            needs = "opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http"
            raise MissingExtraError("similia.service.http.telemetry", needs, "telemetry") from error
        provider = TracerProvider(resource=Resource.create({"service.name": "similia"}))
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self._provider, self._extract, self._kind = provider, propagate.extract, SpanKind.SERVER
        self._tracer = provider.get_tracer("similia.service")

    @contextmanager
    def span(self, call: Call) -> Iterator[None]:
        """A span around a request, named by its route."""
        scope = call.scope
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            scope["method"], context=self._extract(carrier), kind=self._kind
        ) as span:
            span.set_attribute("http.request.method", scope["method"])
            try:
                yield
            except Exception as error:
                span.set_attribute("http.response.status_code", getattr(error, "status", 500))
                raise
            else:
                span.set_attribute("http.response.status_code", call.status)
            finally:
                span.update_name(f"{scope['method']} {call.route}")
                span.set_attribute("http.route", call.route)
                span.set_attribute("similia.request_id", call.id)

    def close(self) -> None:
        """Send pending spans."""
        self._provider.shutdown()
