"""What Prometheus reads."""

from collections.abc import Callable, Iterable
from typing import Any

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

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts and times of requests and judgements, and where each tenant stands."""

    def __init__(
        self,
        tenants: "Callable[[], Iterable[tuple[str, dict[str, float]]]]",
        present: Callable[[], float],
    ) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        where: Any = {"registry": self.registry, "namespace": "similia"}
        self.requests = Counter("requests", "Requests.", ["method", "route", "status"], **where)
        self.seconds = Histogram(
            "request_seconds", "Time of requests.", ["route"], buckets=SECONDS, **where
        )
        self.judgements = Counter(
            "acknowledged", "Judgements acknowledged.", ["tenant", "duplicate"], **where
        )
        self._acknowledged: dict[tuple[str, bool], Counter] = {}
        active = Gauge("requests_active", "Requests worked on.", **where)
        active.set_function(present)
        self.ready = Gauge("ready", "Whether requests are served.", **where)
        self.registry.register(_Standing(tenants))
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = self._known.get((method, route, status))
        if known is None:  # looking a metric up by its labels costs more than counting
            counter = self.requests.labels(method, route, str(status))
            known = self._known[method, route, status] = (counter, self.seconds.labels(route))
        known[0].inc()
        known[1].observe(seconds)

    def acknowledge(self, tenant: str, duplicate: bool, n: int) -> None:
        """Count judgements that were stored, or known before."""
        known = self._acknowledged.get((tenant, duplicate))
        if known is None:
            known = self.judgements.labels(tenant, str(duplicate).lower())
            self._acknowledged[tenant, duplicate] = known
        known.inc(n)

    def acknowledge_all(self, tenant: str, new: int, known: int) -> None:
        """The same for a batch of both."""
        if new:
            self.acknowledge(tenant, False, new)
        if known:
            self.acknowledge(tenant, True, known)

    def page(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)


class _Standing:
    """Numbers of each tenant, asked for when the page is read."""

    def __init__(self, tenants: "Callable[[], Iterable[tuple[str, dict[str, float]]]]") -> None:
        self.tenants = tenants

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        """One family for each number."""
        families: dict[str, GaugeMetricFamily] = {}
        for tenant, numbers in self.tenants():
            for name, value in numbers.items():
                family = families.setdefault(
                    name,
                    GaugeMetricFamily(f"similia_{name}", f"Tenant: {name}.", labels=["tenant"]),
                )
                family.add_metric([tenant], value)
        return families.values()
