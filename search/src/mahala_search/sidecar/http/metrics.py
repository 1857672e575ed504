"""Metrics for Prometheus: gauges of the spaces, and of what waits to be written."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mahala_search.sidecar.records import Unavailable
from mahala_search.sidecar.service import Sidecar


def metrics_text(sidecar: Sidecar) -> bytes:
    """Return the gauges of a sidecar in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(Gauges(sidecar))
    return generate_latest(registry)


class Gauges(Collector):
    """The state of a sidecar and of its spaces."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges."""
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
