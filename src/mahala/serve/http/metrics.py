"""Metrics of a process for Prometheus: its requests, and the state of its collections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mahala.serve.service import Service

# Upper bounds of the buckets of a time, in seconds.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.06, 0.1, 0.25, 1.0, 5.0)


class Metrics(Collector):
    """Requests by route and status with their times, and gauges of the collections."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("mahala_requests", "Requests by route and status.", labels, registry=self._registry)
        self._seconds = Histogram(
            "mahala_request_seconds", "Time to answer.", ["route"], buckets=_BOUNDS, registry=self._registry
        )
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the collections."""
        gauges = {
            "items": "Items that are found.",
            "graph_items": "Items in the graph by which a search finds candidates; 0: it reads all items.",
            "log_entries": "Entries that were ever written to the log.",
            "served_version": "Version of the models that is served.",
            "learned_entries": "Entries of the log up to which the served version has learned.",
        }
        statuses = {name: self._service.served(name).status() for name in self._service.names()}
        for (gauge, text), key in zip(gauges.items(), ("items", "graph", "logged", "version", "learned"), strict=True):
            family = GaugeMetricFamily(f"mahala_{gauge}", text, labels=["collection"])
            for name, status in statuses.items():
                family.add_metric([name], status[key])
            yield family
        yield GaugeMetricFamily("mahala_learns", "Whether this process learns.", value=self._service.learns)
