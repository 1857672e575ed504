"""The control share: searches by arm, the route /v1/collections/{name}/control, and metrics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fastapi import FastAPI
from prometheus_client.core import GaugeMetricFamily

from mahala.serve.experiment.arms import MIXED, PLAIN, Control, interleaved
from mahala.serve.http.guard import Guard
from mahala.serve.http.responses import ControlReport
from mahala.serve.http.schemas import COLLECTION, Name
from mahala.serve.index.served_collection import Query
from mahala.serve.service import RECORDED, Service
from mahala.serve.store.database import Unavailable
from mahala.serve.store.rows import SignalLists

_BOUNDS = {"mean": "mean", "low": "always_low", "high": "always_high"}


class Ranked(Protocol):
    """An item of a ranking."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Ranked)


class ArmSearch(NamedTuple, Generic[T]):
    """The items that were found for a search, its id, its arm, and the version that ranked."""

    id: str
    version: int
    arm: str | None
    found: list[T]


def search_in_arm(
    service: Service,
    name: str,
    user: str | None,
    query: Query,
    k: int,
    ranking: Callable[[bool], tuple[int, list[T]]],
    *,
    compared: bool = True,
    signals_of: Callable[[list[T]], SignalLists] | None = None,
) -> ArmSearch[T]:
    """Search by the ranking of a user's arm, and record the search; if not `compared`, it has no arm.

    `ranking` returns the version that ranked and at least k items, by the plain ranking if it is given True;
    `signals_of` returns the signals of items.
    """
    served, id = service.served(name), uuid.uuid4().hex
    control, arm, teams = Control.of(served.collection.settings), None, None
    if control.share and compared and served.model.version:  # version 0 is the plain ranking itself
        arm = control.arm(name, user or id)
    version, found = ranking(arm == PLAIN)
    if arm == MIXED:
        found, teams = interleaved(found, ranking(True)[1], k, id, key=lambda one: one.id)
    shown = [one.id for one in found]
    more = {"signals": signals_of(found)} if signals_of else {}
    service.record(
        name, id, query, shown, version=version, user=user, arm=arm, teams=teams and teams[:RECORDED], **more
    )
    return ArmSearch(id, version, arm, found)


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
