"""Metrics for Prometheus: requests with their times, and gauges of the collections."""

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mahala_search.serve.service import Service
from mahala_search.serve.store.database import Unavailable

# Upper bounds of the buckets of a time, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.06, 0.1, 0.25, 1.0, 5.0)
# Gauges of a collection, the keys of its status that they show, and what they are.
_GAUGES = (
    ("items", "items", "Items that are found."),
    ("graph_items", "graph", "Items in the graph by which a search finds candidates; 0: it reads all items."),
    ("log_entries", "logged", "Entries that were ever written to the log."),
    ("served_version", "version", "Version of the models that is served."),
    ("learned_entries", "learned", "Entries of the log up to which the served version has learned."),
)
# Bounds of a gain, and the keys of its interval that they show.
_BOUNDS = {"mean": "mean", "low": "always_low", "high": "always_high"}


class Metrics(Collector):
    """Requests by route and status with their times, and gauges of the collections."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Counter("mahala_requests", "Requests by route and status.", labels, registry=registry)
        self.seconds = Histogram(
            "mahala_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=registry
        )
        registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # what all processes have counted is in files
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        statuses = {name: self._service.served(name).status() for name in self._service.names()}
        for gauge, key, text in _GAUGES:
            family = GaugeMetricFamily(f"mahala_{gauge}", text, labels=["collection"])
            for name, status in statuses.items():
                family.add_metric([name], status[key])
            yield family
        yield GaugeMetricFamily("mahala_learns", "Whether this process learns.", value=self._service.learns)
        yield from _control_gauges(self._service)


def _control_gauges(service: Service) -> Iterator[GaugeMetricFamily]:
    """Yield the metrics of the collections that have a control share."""
    labels = ["collection", "arm"]
    searches = GaugeMetricFamily("mahala_control_searches", "Searches by arm.", labels=labels)
    means = GaugeMetricFamily("mahala_control_mean", "Click rate and MRR by arm.", labels=[*labels, "measure"])
    text = "Learned minus plain, or the share that preferred the learned results; bounds hold at every look."
    gains = GaugeMetricFamily("mahala_control_gain", text, labels=["collection", "measure", "queries", "bound"])
    for name in service.names():
        try:
            report = service.reports.of(service.served(name).collection)
        except Unavailable:  # other metrics do not need the database
            continue
        for arm, numbers in report["arms"].items():
            searches.add_metric([name, arm], numbers["searches"])
            for measure in ("click_rate", "mrr") if numbers["searches"] else ():
                means.add_metric([name, arm, measure], numbers[measure]["mean"])
        preferences = {queries: {"preference": interval} for queries, interval in report["preference"].items()}
        for queries, by_measure in (report["differences"] | preferences).items():  # one of them is empty
            for measure, interval in by_measure.items():
                for bound, key in _BOUNDS.items():
                    gains.add_metric([name, measure, queries, bound], interval[key])
    yield from (searches, means, gains)
