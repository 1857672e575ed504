"""The control share: the route /v1/collections/{name}/control, and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from prometheus_client.core import GaugeMetricFamily

from mahala.serve.http.guard import Guard
from mahala.serve.http.responses import ControlReport
from mahala.serve.http.schemas import COLLECTION, Name
from mahala.serve.service import Service
from mahala.serve.store.database import Unavailable

_BOUNDS = {"mean": "mean", "low": "always_low", "high": "always_high"}


def add_control(app: FastAPI, service: Service, guard: Guard) -> None:
    """Add the route of the control share to an app."""

    @app.get(f"{COLLECTION}/control", **guard.route("models", "read"), response_model=ControlReport)
    def control(name: Name) -> dict[str, Any]:
        """Return what people did with the learned ranking and with the plain one, and the difference."""
        return service.reports.of(service.served(name).collection)


def control_gauges(service: Service) -> Iterator[GaugeMetricFamily]:
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
        for queries, by_measure in report["differences"].items():
            _add(gains, name, queries, by_measure)
        for queries, preference in report["preference"].items():
            _add(gains, name, queries, {"preference": preference})
    yield from (searches, means, gains)


def _add(gains: GaugeMetricFamily, name: str, queries: str, by_measure: dict[str, dict[str, float]]) -> None:
    for measure, interval in by_measure.items():
        for bound, key in _BOUNDS.items():
            gains.add_metric([name, measure, queries, bound], interval[key])
