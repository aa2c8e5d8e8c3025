"""Traces by OpenTelemetry, if asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from starlette.types import Scope

from similia.exceptions import MissingExtraError


class Span(Protocol):
    """What is needed of a span."""

    def set_attribute(self, key: str, value: Any) -> Any:
        """Note something."""


class NoSpan:
    """Nothing is traced."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Note nothing."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class NoTelemetry:
    """Nothing is traced."""

    def span(self, scope: Scope) -> NoSpan:
        """Trace nothing."""
        return NOTHING

    def close(self) -> None:
        """Nothing to send."""


NOTHING = NoSpan()


class Telemetry:
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
    def span(self, scope: Scope) -> Iterator[Span]:
        """A span around a request, named by its route."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            scope["method"], context=self._extract(carrier), kind=self._kind
        ) as span:
            span.set_attribute("http.request.method", scope["method"])
            yield span
            route = getattr(scope.get("route"), "path", "none")
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
            span.set_attribute("similia.request_id", scope["state"]["request_id"])

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()
