"""What Prometheus reads: requests, judgements, and where each tenant stands."""

from collections.abc import Callable, Iterable
from functools import lru_cache

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

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PROMETHEUS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"

Standing = Callable[[], Iterable[tuple[str, dict[str, float]]]]


class Metrics:
    """Counts and times of requests and judgements."""

    def __init__(self, tenants: Standing, present: Callable[[], float]) -> None:
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
        judged = Counter(
            "similia_acknowledged",
            "Judgements acknowledged.",
            ["tenant", "duplicate"],
            registry=registry,
        )
        active = Gauge("similia_requests_active", "Requests worked on.", registry=registry)
        active.set_function(present)
        self.ready = Gauge("similia_ready", "Whether requests are served.", registry=registry)
        registry.register(_Tenants(tenants))
        # To look a counter up by its labels costs more than to count.
        self._requests = lru_cache(1024)(requests.labels)
        self._seconds = lru_cache(256)(seconds.labels)
        self._judged = lru_cache(1024)(judged.labels)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests(method, route, status).inc()
        self._seconds(route).observe(seconds)

    def acknowledge(self, tenant: str, new: int, known: int) -> None:
        """Count judgements that are on the disk."""
        if new:
            self._judged(tenant, "false").inc(new)
        if known:
            self._judged(tenant, "true").inc(known)

    def page(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._registry)


class _Tenants(Collector):
    """Numbers of each tenant, one family for each number."""

    def __init__(self, tenants: Standing) -> None:
        self._tenants = tenants

    def describe(self) -> list[Metric]:
        """Nothing to compare with others."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Everything, as of now."""
        families: dict[str, GaugeMetricFamily] = {}
        for tenant, numbers in self._tenants():
            for name, value in numbers.items():
                if name not in families:
                    families[name] = GaugeMetricFamily(
                        f"similia_{name}", f"Tenant: {name}.", labels=["tenant"]
                    )
                families[name].add_metric([tenant], value)
        return families.values()
