"""`mahala serve report`: what learned search brings, measured on the people who search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any

import typer
from rich.markup import escape

from mahala.extend.commands import Json, show, table
from mahala_search.sidecar.commands.keys import DATABASE, Database

_ARMS = {"learned": "learned search", "plain": "plain search", "mixed": "both mixed"}
_QUERIES = {"all": "all", "head": "frequent", "tail": "rare"}


def report(
    space: Annotated[str | None, typer.Argument(metavar="[SPACE]", help="Default: all spaces.")] = None,
    value: Annotated[str, typer.Option(help="clicks, purchases or revenue.")] = "clicks",
    database: Database = DATABASE,
    as_json: Json = False,
) -> None:
    """Print what learned search brings: what people did with the learned ranking and with the plain one.

    It needs a control share: the setting "control" of a space, such as {"share": 0.1}.
    """
    show(read_reports(database, space, value), as_json, _parts)


def read_reports(database: str, space: str | None, value: str = "clicks") -> dict[str, Any]:
    """Return the report of a space, or of all, by name."""
    from mahala_search.sidecar.experiment.report import make_report
    from mahala_search.sidecar.store.store import Store

    with closing(Store(database, create=False)) as store:
        spaces = store.spaces()
        if space is not None and space not in spaces:
            raise ValueError(f"SPACE must be one of {', '.join(sorted(spaces)) or 'none so far'}, got {space!r}")
        names = sorted(spaces) if space is None else [space]
        if not names:
            raise ValueError(f"{database} has no spaces: --database names that of the sidecar")
        with store.reading() as connection:
            return {name: make_report(connection, spaces[name], value) for name in names}


def _parts(reports: dict[str, Any]) -> Iterator[Any]:
    for name, one in reports.items():
        yield f"[bold]{escape(name)}[/]: {escape(one['sentence'])}"
        if not one["arms"]:
            continue
        arms = table(["", "searches", "people", "clicks", "purchases", "revenue"], text=[""])
        for arm, means in one["arms"].items():
            cells = [f"{means[name]:.3f}" for name in ("clicks", "purchases", "revenue")]
            arms.add_row(_ARMS.get(arm, arm), f"{means['searches']:,}", f"{means['people']:,}", *cells)
        yield arms
        gains = table(["", "queries", "per search", "95 %"], text=["", "queries"])
        for arm, by_queries in one["differences"].items():
            for queries, by_measure in by_queries.items():
                gains.add_row(_ARMS.get(arm, arm), _QUERIES[queries], *_cells(by_measure[one["value"]], "+.3f"))
        for queries, interval in one.get("preference", {}).items():
            gains.add_row("learned preferred", _QUERIES[queries], *_cells(interval, ".3f"))
        yield gains


def _cells(interval: dict[str, float | None], form: str) -> list[str]:
    if interval["low"] is None:
        return ["–", "too few people"]
    return [f"{interval['mean']:{form}}", f"{interval['low']:{form}} to {interval['high']:{form}}"]
