"""`mahala adapt`: learn a map of queries from judgments or clicks."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mahala.cli.group import with_options
from mahala.cli.models import configured
from mahala.cli.options import Force, Settings, check_output
from mahala.cli.output import Json, print_json, say, terminal
from mahala.cli.stream import MALFORMED, open_input, read_items
from mahala.cli.tables import read_named_collection
from mahala.support.files import whole_file

if TYPE_CHECKING:
    from mahala.feedback.query_adapter import QueryAdapter

# Number of queries that are named because they lose or gain the most.
_NAMED = 5


def adapt(
    output: Annotated[Path, typer.Option(help="The model file to write: the adapter with its whole state.")],
    qrels: Annotated[
        Path | None, typer.Option(help="Relevance judgments, BEIR's .tsv or TREC's; without ids, row numbers from 0.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="With --qrels: vectors, .npy, .npz or .parquet.")] = None,
    items: Annotated[
        Path | None, typer.Option(help="Vectors as for --queries; with --clicks, rows that points refer to.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="A file of impressions in JSON Lines, also .gz.")] = None,
    features: Annotated[
        int | None, typer.Option(help="With --clicks: number of features, if points are objects.", min=1)
    ] = None,
    max_errors: Annotated[int | None, typer.Option(help="With --clicks: malformed lines to tolerate.", min=0)] = None,
    metric: Annotated[Path | None, typer.Option(help="Write the map alone to this model file.")] = None,
    report: Annotated[Path | None, typer.Option(help="With --qrels: write a report to this .html file.")] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="The random_state of the adapter.", min=0)] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a map of queries, for an index over frozen vectors that ranks by inner product.

    From judgments (--qrels), cross-validation over the queries decides how much of the learned map is used, if any, and
    measures what it gains. From clicks (--clicks), trust in the map grows with the impressions it ranks better than the
    inner product; a line is an impression as for `mahala stream --learner adapter`,
    `{"query": [1, 2], "shown": [[1, 3], [5, 0]], "clicked": [false, true], "query_id": 7}`.

    The adapter continues to learn with `mahala stream --model FILE`, which after --clicks reads only the lines that the
    log has gained. `search` and `evaluate` take it as a model, as they take the map alone (--metric), which is
    smaller and does not learn. Files are written whole or not at all.

    Malformed lines are reported on stderr, counted and skipped; the exit code is then 3.

    Examples:

        mahala adapt --qrels qrels.tsv --queries queries.npy --items items.npy --output adapter.safetensors

        mahala adapt --clicks impressions.jsonl --items items.npy --output adapter.safetensors
    """
    from mahala.feedback.query_adapter import QueryAdapter

    judged, logged = {"queries": queries, "report": report}, {"features": features, "max-errors": max_errors}
    _check_options(qrels, clicks, items, judged, logged)
    paths = {"--output": output, "--metric": metric, "--report": report}
    written = {option: path for option, path in paths.items() if path is not None}
    for option, path in written.items():
        suffixes = [".html"] if option == "--report" else []
        check_output(path, *suffixes, option=option, inputs=[queries, items, qrels, clicks], force=force)
    if len({os.path.realpath(path) for path in written.values()}) < len(written):
        raise ValueError(f"{' and '.join(written)} must name different files")
    adapter = configured(QueryAdapter(), settings or [], seed)
    started = time.perf_counter()
    with ExitStack() as stack:
        places = {option: stack.enter_context(whole_file(path)) for option, path in written.items()}
        if clicks is not None:
            told = _from_clicks(adapter, clicks, items, features, max_errors, places["--output"])
        else:
            assert qrels is not None, "either is given"
            assert queries is not None, "it goes with --qrels"
            assert items is not None, "it goes with --qrels"
            told, names = _from_judgments(adapter, queries, items, qrels)
            adapter.save(places["--output"])
            if report is not None:
                page = _page(adapter, names, queries, items, output)
                places["--report"].write_text(page, encoding="utf-8")
        if metric is not None:
            adapter.metric_.save(places["--metric"])
    told |= {"seconds": time.perf_counter() - started}
    told |= {option.removeprefix("--"): None if path is None else str(path) for option, path in paths.items()}
    if as_json:
        print_json(told)
    else:
        _show(told)
    if told.get("malformed"):
        raise typer.Exit(MALFORMED)


def _check_options(
    qrels: Path | None, clicks: Path | None, items: Path | None, judged: dict[str, Any], logged: dict[str, Any]
) -> None:
    """Raise ValueError for options that are missing, or that do not go with --qrels or --clicks."""
    if (qrels is None) == (clicks is None):
        raise ValueError("give either --qrels (judgments, with --queries and --items) or --clicks (impressions)")
    source, other, strangers = ("--clicks", "--qrels", judged) if qrels is None else ("--qrels", "--clicks", logged)
    for name, value in strangers.items():
        if value is not None:
            raise ValueError(f"--{name} goes with {other}, but {source} is given: leave it out")
    for name, value in {"queries": judged["queries"], "items": items}.items():
        if qrels is not None and value is None:
            raise ValueError(f"--qrels needs --{name} too: the vectors of the {name} that it judges")


def _from_judgments(
    adapter: QueryAdapter, queries: Path, items: Path, qrels: Path
) -> tuple[dict[str, Any], Sequence[str]]:
    from mahala.support.display import show_progress

    asked, found, judgments, names = read_named_collection(queries, items, qrels)
    with show_progress() if sys.stderr.isatty() else nullcontext():
        adapter.fit(asked, found, judgments)
    values = adapter.cross_validation_
    gains = values.gains

    def named(places: Any) -> list[dict[str, Any]]:
        return [
            {"query": names[values.query[at]], "raw": values.raw[at], "learned": values.learned[at]} for at in places
        ]

    told = {
        "queries": len(values.query),
        "left_out": asked.shape[0] - len(values.query),
        "items": found.shape[0],
        "measure": f"nDCG@{adapter.k}",
        "means": {"raw": values.raw.mean(), "learned": values.learned.mean()},
        **_judgement(adapter),
        "changes": {"gain": (gains > 0.0).sum(), "lose": (gains < 0.0).sum(), "stay": (gains == 0.0).sum()},
        "losers": named(values.losers(_NAMED)),
        "winners": named(values.winners(_NAMED)),
    }
    return told, names


def _from_clicks(
    adapter: QueryAdapter, clicks: Path, items: Path | None, features: int | None, max_errors: int | None, place: Path
) -> dict[str, Any]:
    from mahala.stream.input import read_lines
    from mahala.stream.stream import Malformed, Stream
    from mahala.support.display import task_bar

    rows = None if items is None else read_items(items)
    # The file of a stream also has the position in the log, so that `mahala stream` resumes there.
    place.unlink(missing_ok=True)
    own = Stream(place, adapter, items=rows, n_features=features or (None if rows is None else rows.shape[1]))
    malformed = 0
    with open_input(clicks) as file, task_bar("Learning", sys.stderr.isatty() and clicks.is_file()) as update:
        size = os.stat(clicks).st_size
        for number, result in enumerate(own.learn(read_lines(file))):
            if isinstance(result, Malformed):
                malformed += 1
                say(f"line {result.line}: {with_options(result.problem)}", err=True)
                if max_errors is not None and malformed > max_errors:
                    raise ValueError(f"{malformed} malformed lines, but --max-errors is {max_errors}: nothing written")
            if number % 100 == 0 and clicks.is_file():
                # The position in the file itself, also of a compressed one.
                update(os.lseek(file.fileno(), 0, os.SEEK_CUR) // 1024, f"KiB, {number:,} impressions", size // 1024)
    if not own.save():
        raise ValueError(f"--clicks {clicks} has no impressions to learn from")
    return {
        "impressions": adapter.n_impressions_,
        "learned": adapter.n_learned_,
        "ignored": adapter.n_ignored_,
        "malformed": malformed,
        **_judgement(adapter),
    }


def _judgement(adapter: QueryAdapter) -> dict[str, Any]:
    gain = None if adapter.gain_ is None else adapter.gain_._asdict()
    return {"gain": gain, "trust": adapter.trust_, "verdict": adapter.verdict_}


def _page(adapter: QueryAdapter, names: Sequence[str], queries: Path, items: Path, output: Path) -> str:
    from mahala.report.adaptation import adaptation
    from mahala.report.page import versions

    table, model = shlex.quote(str(items)), shlex.quote(str(output))
    commands = [
        f"mahala search {table} --queries new.npy --model {model}",
        f"mahala evaluate --queries new.npy --items {table} --qrels new.tsv --model {model}",
        f"mahala stream --model {model} --input impressions.jsonl",
        f"import mahala\nadapter = mahala.load({str(output)!r})\n"
        "vector = adapter.embed(query)  # to be sent to the index instead of the query",
    ]
    measured = {
        "Command": shlex.join(["mahala", *sys.argv[1:]]) if sys.argv[1:2] == ["adapt"] else "mahala adapt",
        "Versions": ", ".join(f"{library} {number}" for library, number in versions().items()),
    }
    return adaptation(adapter, names, title=queries.stem, commands=commands, measured=measured)


def _show(told: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = terminal()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    if "queries" in told:
        left_out = f" ({told['left_out']:,} without a relevant item left out)" if told["left_out"] else ""
        grid.add_row("learned from", f"{told['queries']:,} queries{left_out}, {told['items']:,} items")
        means = f"{told['means']['raw']:.3f} raw → [bold]{told['means']['learned']:.3f}[/bold] learned"
        grid.add_row(told["measure"], f"{means}, in cross-validation over queries")
        grid.add_row("queries", ", ".join(f"{count:,} {change}" for change, count in told["changes"].items()))
    else:
        ignored = f"{told['ignored']:,} ignored (all reactions equal)"
        grid.add_row("learned from", f"{told['learned']:,} of {told['impressions']:,} impressions, {ignored}")
        if told["malformed"]:
            grid.add_row("malformed", f"{told['malformed']:,} lines")
    if told["gain"] is not None:  # otherwise the map is the identity
        trust = ", ".join(f"{share:.2f} for {kind} queries" for kind, share in told["trust"].items())
        grid.add_row("trust", trust)
    grid.add_row("verdict", f"[bold]{escape(told['verdict'])}[/bold]")
    if "impressions" in told:
        sign = "a sign, from the first impression of each query; the test is mahala evaluate with judged queries"
        grid.add_row("", f"[dim]{sign}[/dim]")
    grid.add_row("took", f"{told['seconds']:.1f} s")
    for name, title in (("output", "adapter"), ("metric", "metric"), ("report", "report")):
        if told[name] is not None:
            grid.add_row(title, escape(told[name]))
    console.print(grid)
    for name, title in (("losers", "Queries that lose the most"), ("winners", "Queries that gain the most")):
        if told.get(name):
            console.print(f"\n[bold]{title}[/bold]")
            console.print(_queries(told[name]))


def _queries(lines: list[dict[str, Any]]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("query", overflow="fold")
    for title in ("raw", "learned", "gain"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in lines:
        numbers = (f"{line['raw']:.3f}", f"{line['learned']:.3f}", f"{line['learned'] - line['raw']:+.3f}")
        table.add_row(escape(line["query"]), *numbers)
    return table
