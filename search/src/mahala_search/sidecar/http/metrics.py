"""Metrics for Prometheus: requests with their times, and gauges of the spaces."""

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mahala_search.sidecar.records import Unavailable
from mahala_search.sidecar.service import Sidecar

# Upper bounds of the buckets of a time, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics(Collector):
    """Requests by route and status with their times, and gauges of the spaces."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("mahala_requests", "Requests by route and status.", labels, registry=registry)
        self._seconds = Histogram(
            "mahala_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=registry
        )
        registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # what all processes have counted is in files
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        sidecar = self._sidecar
        version = GaugeMetricFamily("mahala_served_version", "Version that is served.", labels=["space"])
        alert = GaugeMetricFamily("mahala_alert", "1 if what is pinned cannot be served.", labels=["space"])
        progress = GaugeMetricFamily("mahala_progress", "How far learning is.", labels=["space", "number"])
        counts = GaugeMetricFamily("mahala_not_learned", "Works by why they are not.", labels=["space", "reason"])
        for one in sidecar.spaces():
            name, id = one.space.name, one.space.id
            version.add_metric([name], one.served.version)
            alert.add_metric([name], float(one.problem is not None))
            try:
                numbers, reasons = sidecar.store.progress(id), sidecar.store.counts(id)
            except Unavailable:  # other metrics do not need the database
                continue
            for number, value in numbers.items():
                progress.add_metric([name, number], value)
            for reason, value in reasons.items():
                counts.add_metric([name, reason], value)
        yield from (version, alert, progress, counts)
        yield GaugeMetricFamily("mahala_unavailable", "1 if the database fails.", value=float(bool(sidecar.problem)))
        for name, value in sidecar.writer.status().items():
            yield GaugeMetricFamily(f"mahala_writer_{name}", "Works that wait to be written.", value=value)
