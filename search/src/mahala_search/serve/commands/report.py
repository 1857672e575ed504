"""`mahala serve report`: the gain of learning, measured on the people who search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from mahala.extend.commands import Json, show, table
from mahala_search.serve.commands.keys import DATABASE, Database, check_extra

if TYPE_CHECKING:
    from mahala_search.serve.service import Service

_MEASURES = {"click_rate": "click rate", "mrr": "MRR"}


def set_control(service: Service, collection: str | None, share: float, interleave: bool) -> None:
    """Set the control share of a collection, or of all collections."""
    for name in service.names() if collection is None else [collection]:
        settings = service.served(name).collection.settings
        mode = "interleave" if interleave else "plain"
        service.configure(name, settings | {"control": {"share": share, "mode": mode}})


def report(
    collection: Annotated[str | None, typer.Argument(metavar="[COLLECTION]")] = None,
    database: Database = DATABASE,
    as_json: Json = False,
) -> None:
    """Print the gain of learning: what people did with the learned ranking and with the plain one.

    It needs a control share: `mahala serve --control 0.1`.
    """
    check_extra()
    from mahala_search.serve.experiment.report import control_report
    from mahala_search.serve.store.collection_store import Store

    with closing(Store(database)) as store:
        names = sorted(store.collections()) if collection is None else [collection]
        if not names:
            raise ValueError(f"{database} has no collections: --database names that of the service")
        reports = {name: control_report(store.database, store.collection(name)) for name in names}
    show(reports, as_json, _parts)


def _parts(reports: dict[str, Any]) -> Iterator[Any]:
    for name, report in reports.items():
        yield f"[bold]{escape(name)}[/]: {escape(report['sentence'])}"
        if not report["arms"]:
            continue
        arms = table(["", "searches", "click rate", "95 %", "MRR", "95 %"], text=[""])
        for arm, numbers in report["arms"].items():
            cells = [_cells(numbers[measure], ".3f") if numbers["searches"] else ["–", "–"] for measure in _MEASURES]
            arms.add_row(arm, f"{numbers['searches']:,}", *cells[0][:2], *cells[1][:2])
        yield arms
        gains = table(["", "queries", "gain", "95 % of one look", "95 % of all looks"], text=["", "queries"])
        for queries, by_measure in report["differences"].items():
            for measure, interval in by_measure.items():
                gains.add_row(_MEASURES[measure], queries, *_cells(interval, "+.3f"))
        for queries, interval in report["preference"].items():
            gains.add_row("chose learned", queries, *_cells(interval, ".3f"))
        yield gains


def _cells(interval: dict[str, float], form: str) -> list[str]:
    mean, low, high, always_low, always_high = (
        f"{interval[key]:{form}}" for key in ("mean", "low", "high", "always_low", "always_high")
    )
    return [mean, f"{low} to {high}", f"{always_low} to {always_high}"]
