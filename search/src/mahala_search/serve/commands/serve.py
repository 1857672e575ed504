"""`mahala serve`: search that learns from the people who use it, over HTTP."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from mahala.extend.commands import Command, open_input, say
from mahala.stream import read_lines
from mahala_search.commands.files import MALFORMED, EventFormat, query_vectors, report_events
from mahala_search.serve.commands.keys import DATABASE, Database, check_extra, keys
from mahala_search.serve.commands.report import report, set_control

if TYPE_CHECKING:
    import socket

    from mahala_search.serve.http.guard import ServerSettings
    from mahala_search.serve.service import Encoder, Service

PORT = 8417
Collection = Annotated[str, typer.Argument(metavar="COLLECTION")]


class _Default(TyperGroup):
    """Runs `start` by default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["start", *args])


app = typer.Typer(cls=_Default, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(keys, name="key")


class Setup(NamedTuple):
    """Settings that are not in the database: encoders of words, and folders of images by collection."""

    demo: bool
    encoder: str | None
    collection: str | None
    images: dict[str, Path]

    def apply(self, service: Service) -> None:
        service.images |= self.images
        if self.demo:
            _add_demo(service)
        if self.encoder is not None:
            encode = _sentence_encoder(self.encoder)
            names = service.names() if self.collection is None else [self.collection]
            service.encoders |= dict.fromkeys(names, encode)


@app.command("start", cls=Command)
def start(
    items: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[ITEMS]...", help="A .parquet file, .npy and .jsonl, or a folder of images."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a demo of 953 dishes.")] = False,
    database: Database = DATABASE,
    vectors: Annotated[str | None, typer.Option(help="Column of the vectors; for images, their .npy file.")] = None,
    text: Annotated[str | None, typer.Option(help="Column or field that is shown as the title.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column or field of the ids; default: id.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the field image.", file_okay=False)] = None,
    collection: Annotated[str | None, typer.Option(help="Name of the collection; default: that of the file.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Read ITEMS again into an existing collection.")] = False,
    encoder: Annotated[str | None, typer.Option(help="A sentence-transformers model for queries of words.")] = None,
    host: Annotated[str, typer.Option(help="Address to bind to; all but loopback need keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind to; 0 for any free one.", min=0, max=65535)] = PORT,
    need_keys: Annotated[bool, typer.Option("--keys", help="Require keys on loopback, too.")] = False,
    origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may call the API; repeatable.")] = None,
    rate: Annotated[float, typer.Option(help="Requests per second of one key or address.", min=0.1)] = 500.0,
    workers: Annotated[int, typer.Option(help="Server processes that share the port.", min=1)] = 1,
    learn: Annotated[bool, typer.Option(help="Learn, unless another process does.")] = True,
    control: Annotated[
        float | None, typer.Option(help="Share of people with the plain ranking, to measure the gain.", min=0, max=0.5)
    ] = None,
    interleave: Annotated[bool, typer.Option("--interleave", help="Mix both rankings for that share instead.")] = False,
    graph_beyond: Annotated[int, typer.Option(help="Items above which searches use a graph.", min=0)] = 100_000,
) -> None:
    """Serve search that learns from clicks, with a page and an HTTP API.

    ITEMS are read once, into the database, which also has the log of what people did and the models. Without ITEMS,
    what the database has is served. Any number of processes may serve the same database; one of them learns.

    More commands: `mahala serve key create --role read|feedback|admin`, `mahala serve key list`, `mahala serve key
    revoke ID`, `mahala serve export COLLECTION FOLDER`, `mahala serve import COLLECTION FOLDER|EVENTS`,
    `mahala serve report [COLLECTION]`.

    Examples:

        mahala serve --demo

        mahala serve films.parquet --vectors embedding --text title

        mahala serve vectors.npy films.jsonl --database postgresql://localhost/films

        mahala serve photos/ --vectors vectors.npy

        mahala serve films.parquet --vectors embedding --control 0.1
    """
    check_extra()
    from mahala_search.serve.http.guard import ServerSettings
    from mahala_search.serve.service import Service
    from mahala_search.serve.store.keys import Keys

    if demo and items:
        raise ValueError("give either ITEMS or --demo")
    if interleave and control is None:
        raise ValueError("--interleave needs --control: the share of people with both rankings mixed")
    if demo and database == DATABASE:
        database = "mahala-demo/mahala.db"
    settings = ServerSettings(host=host, keys=need_keys, origins=tuple(origin or ()), rate=rate)
    options: dict[str, Any] = {"address": database, "graph_beyond": graph_beyond}
    setup = Setup(demo, encoder, collection, {})
    with Service(learn=False, **options) as service:
        if settings.needs_keys and not Keys(service.store.database).all():
            raise ValueError(f"--host {host} needs API keys: make one by mahala serve key create --role admin")
        if items:
            name = _add_items(service, items, collection, update, {"vectors": vectors, "text": text, "id": id_column})
            if images or items[0].is_dir():
                setup.images[name] = images or items[0]
        elif not demo and not service.names():
            raise ValueError(f"{database} has no collections: give ITEMS, or --demo")
        if demo or workers == 1:
            setup.apply(service)
        if control is not None:
            set_control(service, collection, control, interleave)
        _run(service, functools.partial(_serve_again, options, setup, settings), settings, port, learn, workers)


def _sentence_encoder(name: str) -> Encoder:
    """Return the encoder of a sentence-transformers model, by its name or folder."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ImportError(
            "--encoder needs sentence-transformers: pip install 'mahala-search[sentence-transformers]'"
        ) from None
    model = SentenceTransformer(name)
    return lambda text: model.encode_query(text) if hasattr(model, "encode_query") else model.encode(text)


def _add_demo(service: Service) -> None:
    from mahala_search.serve.page.demo import EXAMPLES, NAME, WIDTH, demo_items

    encoder, items = demo_items()
    if NAME in service.names() and not _holds(service, NAME, items):  # another version of mahala has written it
        service.drop(NAME)
    if NAME not in service.names():
        service.create(NAME, width=WIDTH)
        service.put_items(NAME, items)
    service.encoders[NAME], service.examples[NAME] = encoder, EXAMPLES


def _holds(service: Service, name: str, items: list[dict[str, Any]]) -> bool:
    """Return whether a collection has these items and no others."""
    import numpy as np

    index, X = service.served(name).index, np.array([item["vector"] for item in items])
    rows = [row for item in items if (row := index.row(item["id"])) is not None]
    if index.width != X.shape[1] or not len(rows) == len(items) == len(index):
        return False
    return np.allclose(index.vectors(rows), X, atol=1e-4)


def _add_items(service: Service, files: list[Path], name: str | None, update: bool, columns: Mapping[str, Any]) -> str:
    """Read items unless they are there; return the name of their collection."""
    from mahala_search.serve.store.files import collection_name, read_items

    name = name or collection_name(files[0])
    if name in service.names() and not update:
        say(f"{name} is served as the database has it; --update reads {files[0]} again", err=True)
        return name
    items = list(read_items(files, **columns))
    if not items:
        raise ValueError(f"{files[0]} has no items")
    if name not in service.names():
        service.create(name, width=len(items[0]["vector"]))
    service.put_items(name, items)
    return name


def _run(service: Service, again: Any, settings: ServerSettings, port: int, learn: bool, workers: int) -> None:
    """Serve in this process, or let as many processes as there are `workers` call `again` with who learns for them."""
    from mahala_search.serve.http.server import bind, run_processes

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    bound = bind(settings.host, port)
    say(f"http://{host}:{bound.getsockname()[1]}")
    if learn:
        service.start_learning(apart=True)
    if workers == 1:
        _serve(service, settings, bound)
    else:
        service.close(learning=False)
        run_processes(workers, functools.partial(again, service.checkpoints.holder), bound)


def _serve(service: Service, settings: ServerSettings, bound: socket.socket) -> None:
    from mahala_search.serve.http.app import create_app
    from mahala_search.serve.http.server import run
    from mahala_search.serve.page.pages import pages

    run(create_app(service, settings, pages()), bound)


def _serve_again(
    options: dict[str, Any], setup: Setup, settings: ServerSettings, holder: str, bound: socket.socket
) -> None:
    """Serve, in another process, what `start` has put into the database."""
    from mahala_search.serve.service import Service

    with Service(learn=False, holder=holder, **options) as service:
        setup.apply(service)
        _serve(service, settings, bound)


app.info.help = start.__doc__
app.command("report", cls=Command)(report)


@app.command("export", cls=Command)
def export(
    collection: Collection, folder: Annotated[Path, typer.Argument(metavar="FOLDER")], database: Database = DATABASE
) -> None:
    """Write a collection to a folder: log.jsonl, which `mahala stream` reads, with items.npy and items.jsonl."""
    check_extra()
    from mahala_search.serve.store.collection_store import Store
    from mahala_search.serve.store.files import export as write

    with closing(Store(database)) as store:
        say(f"Wrote {write(store, collection, folder):,} entries of the log to {folder}")


@app.command("import", cls=Command)
def restore(
    collection: Collection,
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder of `export`, or a file of events.")],
    event_format: EventFormat = None,
    queries: Annotated[Path | None, typer.Option(help="Of events: vectors of queries, with texts or ids.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Of events: a sentence-transformers model for texts.")] = None,
    database: Database = DATABASE,
) -> None:
    """Make a collection from a folder that `export` wrote, or add a history of events to one.

    A folder makes a new collection; a service learns its models again. Events are searches and what people did, in JSON
    Lines, also .gz, of this service, of OpenSearch UBI or of Metarank, in any order. They are joined and written to the
    log with their own times. The same events are counted once. Malformed lines are reported; the exit code is then 3.
    """
    check_extra()
    if not source.is_dir():
        from mahala_search.serve.searches import import_events
        from mahala_search.serve.service import Service

        encode = None if encoder is None else functools.lru_cache(10_000)(_sentence_encoder(encoder))
        vectors = query_vectors(queries)
        with Service(database, learn=False) as service, open_input(source) as file:
            if encode is not None:
                service.encoders[collection] = encode
            done = import_events(service, collection, read_lines(file), event_format, vectors)
        report_events(done.malformed, done.ignored)
        say(f"Wrote {done.written:,} impressions to the log of {collection}; {done.there:,} were there before")
        if not done.written + done.there:
            raise ValueError(f"{source} has no impressions: see above; queries of words need --encoder or --queries")
        if done.malformed:
            raise typer.Exit(MALFORMED)
        return
    for option, value in {"--format": event_format, "--queries": queries, "--encoder": encoder}.items():
        if value is not None:
            raise ValueError(f"{option} goes with a file of events, but {source} is a folder: leave it out")
    from mahala_search.serve.store.collection_store import Store
    from mahala_search.serve.store.files import restore as read

    with closing(Store(database)) as store:
        say(f"Read {read(store, collection, source):,} entries of the log from {source}")
