"""`mahala serve key`: API keys; and what all commands of `mahala serve` share."""

from importlib.util import find_spec
from typing import Annotated, Any

import typer

from mahala.extend.commands import Command, say

Database = Annotated[str, typer.Option(help="The file of an SQLite database, or postgresql://...")]
DATABASE = "mahala-data/mahala.db"

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


def check_extra() -> None:
    """Raise ImportError if a package of the extra `serve` is missing."""
    for name in ("fastapi", "prometheus_client", "sqlalchemy", "uvicorn"):
        if find_spec(name) is None:
            raise ImportError(f"mahala serve needs {name}: pip install 'mahala-search'")


@keys.command("create", cls=Command)
def create_key(
    role: Annotated[str, typer.Option(help="read, feedback or admin; each permits what those before it do.")],
    one_user: Annotated[bool, typer.Option("--one-user", help="Count everything that it sends as one user.")] = False,
    database: Database = DATABASE,
) -> None:
    """Make an API key and print it; it is not shown again."""
    say(_keys(database).create(role, one_user=one_user))


@keys.command("list", cls=Command)
def list_keys(database: Database = DATABASE) -> None:
    """List the ids of the keys, their roles, and when they were made."""
    import datetime

    for key, created in _keys(database).all():
        at = datetime.datetime.fromtimestamp(created, datetime.UTC).strftime("%Y-%m-%d %H:%M")
        say(f"{key.id}  {key.role:8}  {at}{'  one user' if key.one_user else ''}")


@keys.command("revoke", cls=Command)
def revoke_key(id: Annotated[str, typer.Argument(metavar="ID")], database: Database = DATABASE) -> None:
    """Revoke a key; the services refuse it after two seconds."""
    if not _keys(database).revoke(id):
        raise ValueError(f"there is no key {id}")


def _keys(database: str) -> Any:
    check_extra()
    from mahala_search.serve.store.database import Database as Opened
    from mahala_search.serve.store.keys import Keys

    return Keys(Opened(database))
