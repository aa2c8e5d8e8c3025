"""Traces by OpenTelemetry, if asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from similia.exceptions import MissingExtraError
from similia.service.http.exchange import Exchange
from similia.service.http.problems import as_problem


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
    def span(self, exchange: Exchange) -> Iterator[None]:
        """A span around a request, named by its route."""
        scope = exchange.scope
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
                span.set_attribute("http.response.status_code", as_problem(error).status)
                raise
            else:
                span.set_attribute("http.response.status_code", exchange.status)
            finally:
                span.update_name(f"{scope['method']} {exchange.route}")
                span.set_attribute("http.route", exchange.route)
                span.set_attribute("similia.request_id", exchange.id)

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()
