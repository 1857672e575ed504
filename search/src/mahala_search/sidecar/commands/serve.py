"""`mahala serve`: the search sidecar."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mahala.extend.commands import Command, say
from mahala_search.sidecar.commands.keys import DATABASE, Database, keys
from mahala_search.sidecar.commands.report import read_reports, report

if TYPE_CHECKING:
    import socket

    from mahala_search.sidecar.http.guard import ServerSettings

PORT = 8417


class _Default(TyperGroup):
    """Runs `start` by default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["start", *args])


app = typer.Typer(cls=_Default, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(keys, name="keys")


@app.command("start", cls=Command)
def start(
    database: Database = DATABASE,
    demo: Annotated[bool, typer.Option("--demo", help="Have people search dishes, and show how search gains.")] = False,
    host: Annotated[str, typer.Option(help="Address to bind to; all but loopback need keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind to; 0 for any free one.", min=0, max=65535)] = PORT,
    need_keys: Annotated[bool, typer.Option("--keys", help="Require keys on loopback, too.")] = False,
    origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may call the API; repeatable.")] = None,
    workers: Annotated[int, typer.Option(help="Server processes that share the port.", min=1)] = 1,
    learn: Annotated[bool, typer.Option(help="Learn, unless another host does.")] = True,
) -> None:
    """Serve better query vectors to your search engine, learn from clicks, and measure the gain.

    The database has what was shown and done, and what was learned; your engine keeps the items. Any number of
    processes, also on several hosts with PostgreSQL, may serve the same database; one of them learns.

    More commands: `mahala serve keys create|list|revoke`, `mahala serve report [SPACE]`.

    Examples:

        mahala serve --demo

        mahala serve --database postgresql://localhost/search --workers 4

        mahala serve keys create --role write --space products
    """
    from mahala_search.sidecar.http.guard import ServerSettings
    from mahala_search.sidecar.http.server import bind, run_processes
    from mahala_search.sidecar.store.keys import Keys
    from mahala_search.sidecar.store.store import Store

    if demo and database == DATABASE:
        database = "mahala-demo/search.db"
    settings = ServerSettings(host=host, keys=need_keys, origins=tuple(origin or ()))
    if demo and settings.needs_keys:
        raise ValueError("--demo needs no keys: leave out --keys, and --host unless it is a loopback address")
    with closing(Store(database)) as store:
        if settings.needs_keys and not Keys(store.database).all():
            where = "" if database == DATABASE else f" --database {store.database.name}"
            raise ValueError(f"API keys are needed: make one by mahala serve keys create --role admin{where}")
    bound = bind(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
    say(address)
    with _learning(database) if learn else nullcontext(), _people(address, database) if demo else nullcontext():
        if workers == 1:
            _serve(database, settings, bound)
        else:
            run_processes(workers, functools.partial(_serve, database, settings), bound)


def _learning(database: str) -> AbstractContextManager[Any]:
    """Return the process that learns, which ends with the block."""
    from mahala_search.sidecar.learning.process import LearnerProcess

    return closing(LearnerProcess(database))


@contextmanager
def _people(address: str, database: str) -> Iterator[None]:
    """Let simulated people search until the end of the block or Ctrl-C, then say what learned search brings them."""
    from mahala_search.sidecar.demo import run

    begun, end, problems = threading.Event(), threading.Event(), list[Exception]()

    def search() -> None:
        try:
            with run.demo(address):
                begun.set()
                end.wait()
        except Exception as error:
            if not end.is_set():
                problems.append(error)
                os.kill(os.getpid(), signal.SIGINT)  # the server ends

    logging.getLogger("mahala_search.client").setLevel(logging.ERROR)  # the server ends before its client
    try:
        with suppress(KeyboardInterrupt):
            threading.Thread(target=search, name="mahala-people", daemon=True).start()  # it waits for the server
            yield
    finally:
        end.set()
        if problems:
            raise ValueError(f"--demo: nobody can search in {database}: {problems[0]}")
        report = read_reports(database, run.SPACE)[run.SPACE] if begun.is_set() else None
        say("The demo ended before anyone searched." if report is None else report["sentence"])


def _serve(database: str, settings: ServerSettings, bound: socket.socket) -> None:
    from mahala_search.sidecar.http.app import create_app
    from mahala_search.sidecar.http.server import run
    from mahala_search.sidecar.page.pages import pages
    from mahala_search.sidecar.service import Sidecar

    with Sidecar(database, _spool(database)) as sidecar:
        run(create_app(sidecar, settings, pages()), bound)


def _spool(database: str) -> Path:
    """Return the file for what cannot be written to this database at the moment: another one has its own.

    >>> _spool("data/films.db").as_posix(), _spool("postgresql://me:secret@db.example/films").name
    ('data/films.db-spool', 'd99943e7-spool')
    """
    if not database.startswith(("postgresql://", "postgres://")):
        return Path(f"{database}-spool")
    digest = hashlib.sha256(re.sub(":[^:@/]*@", "@", database).encode()).hexdigest()
    return Path(DATABASE).parent / f"{digest[:8]}-spool"


app.info.help = start.__doc__
app.command("report", cls=Command)(report)
