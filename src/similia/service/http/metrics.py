"""What Prometheus reads."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MEDIA = "text/plain; version=0.0.4; charset=utf-8"

Standing = Callable[[], Iterable[tuple[str, dict[str, float]]]]


class Metrics:
    """Counts and times of requests and judgements, and where each tenant stands.

    Requests are counted in plain numbers, of which metrics are made when somebody reads them:
    counting by the client library costs as much as storing a judgement.
    """

    def __init__(self, tenants: Standing, present: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.ready = False
        self._tenants, self._present = tenants, present
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, _Times] = {}
        self._acknowledged: dict[tuple[str, bool], int] = {}
        self.registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = (method, route, status)
        with self._lock:
            self._requests[key] = self._requests.get(key, 0) + 1
            times = self._times.get(route)
            if times is None:
                times = self._times[route] = _Times()
            times.add(seconds)

    def acknowledge(self, tenant: str, new: int, known: int) -> None:
        """Count judgements that were stored, and those known before."""
        with self._lock:
            for n, duplicate in ((new, False), (known, True)):
                if n:
                    key = (tenant, duplicate)
                    self._acknowledged[key] = self._acknowledged.get(key, 0) + n

    def page(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)

    # -- as the client library asks for them ---------------------------------------------------

    def describe(self) -> list[Metric]:
        """Nothing to compare with others."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Everything, as of now."""
        requests = CounterMetricFamily(
            "similia_requests", "Requests.", labels=["method", "route", "status"]
        )
        seconds = HistogramMetricFamily(
            "similia_request_seconds", "Time of requests.", labels=["route"]
        )
        judged = CounterMetricFamily(
            "similia_acknowledged", "Judgements acknowledged.", labels=["tenant", "duplicate"]
        )
        with self._lock:
            for (method, route, status), n in self._requests.items():
                requests.add_metric([method, route, str(status)], n)
            for route, times in self._times.items():
                seconds.add_metric([route], times.buckets(), times.total)
            for (tenant, duplicate), n in self._acknowledged.items():
                judged.add_metric([tenant, str(duplicate).lower()], n)
        yield from (requests, seconds, judged)
        yield GaugeMetricFamily("similia_requests_active", "Requests worked on.", self._present())
        yield GaugeMetricFamily("similia_ready", "Whether requests are served.", float(self.ready))
        yield from self._standing()

    def _standing(self) -> Iterable[Metric]:
        """Numbers of each tenant, one family for each number."""
        families: dict[str, GaugeMetricFamily] = {}
        for tenant, numbers in self._tenants():
            for name, value in numbers.items():
                family = families.setdefault(
                    name,
                    GaugeMetricFamily(f"similia_{name}", f"Tenant: {name}.", labels=["tenant"]),
                )
                family.add_metric([tenant], value)
        return families.values()


class _Times:
    """A histogram."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Upper ends, and how many were at most so long."""
        found, n = [], 0
        for end, count in zip((*map(float, SECONDS), float("inf")), self.counts, strict=True):
            n += count
            found.append(("+Inf" if end == float("inf") else str(end), float(n)))
        return found
