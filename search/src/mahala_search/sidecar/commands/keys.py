"""`mahala serve keys`: API keys; and the options that all commands of `mahala serve` share."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from mahala.extend.commands import Command, say

if TYPE_CHECKING:
    from mahala_search.sidecar.store.keys import Keys
    from mahala_search.sidecar.store.store import Store

Database = Annotated[str, typer.Option(help="The file of an SQLite database, or postgresql://...")]
DATABASE = "mahala-data/search.db"

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


@keys.command("create", cls=Command)
def create_key(
    role: Annotated[str, typer.Option(help="browser, read, write or admin; each permits what those before it do.")],
    space: Annotated[str | None, typer.Option(help="The space that it is for; default: all.")] = None,
    database: Database = DATABASE,
) -> None:
    """Make an API key and print it; it is not shown again.

    A key with the role browser may be public: with it, only what has a signed token of a search is taken.
    """
    with _opened(database, create=True) as (store, opened):
        if space is not None and space not in (spaces := store.spaces()):
            raise ValueError(f"--space must be one of {', '.join(sorted(spaces)) or 'none so far'}, got {space!r}")
        say(opened.create(role, "" if space is None else spaces[space].id)[1])


@keys.command("list", cls=Command)
def list_keys(database: Database = DATABASE) -> None:
    """List the ids of the keys, their roles and spaces, and when they were made."""
    with _opened(database) as (store, opened):
        names = {space.id: name for name, space in store.spaces().items()}
        for key in opened.all():
            at = datetime.datetime.fromtimestamp(key.created, datetime.UTC).strftime("%Y-%m-%d %H:%M")
            say(f"{key.id}  {key.role:8}  {at}  {names.get(key.space, '')}".rstrip())


@keys.command("revoke", cls=Command)
def revoke_key(id: Annotated[str, typer.Argument(metavar="ID")], database: Database = DATABASE) -> None:
    """Revoke a key; the sidecars refuse it within a second, or once they can read the database."""
    with _opened(database) as (_, opened):
        if not opened.revoke(id):
            raise ValueError(f"there is no key {id}")


@contextmanager
def _opened(database: str, create: bool = False) -> Iterator[tuple[Store, Keys]]:
    from mahala_search.sidecar.store.keys import Keys
    from mahala_search.sidecar.store.store import Store

    with closing(Store(database, create)) as store:
        yield store, Keys(store.database)
