"""Checkpoints: versions of a model with their places in the log, and the lease of the one process that learns."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mahala_search.sidecar.records import Model
from mahala_search.sidecar.store.database import Database
from mahala_search.sidecar.store.tables import checkpoints, lease, models, spaces

# Versions that are kept of the newest, and of each age that is twice as large.
KEPT = 4
# Bytes of a model that are written in one transaction, and seconds between two of them: others wait for a few
# milliseconds, and not until megabytes are on the disk.
_PIECE, _PAUSE = 2**19, 0.004


class LeaseLost(RuntimeError):
    """Another process learns now, or the space is gone; nothing was written."""


@dataclass(frozen=True)
class Checkpoint:
    """A version of the state of a learner: the last entry that it has learned, and the ids of remembered items.

    `written` is the last entry that any version of its generation has learned: not each one has a state.
    """

    version: int
    place: int
    generation: int
    names: Sequence[str]
    status: Any
    state: bytes
    written: int


class Checkpoints:
    """Versions of the models in a database, and the lease: the right to learn.

    A holder of the lease gets a number, its fence, which is larger than that of every holder before.
    """

    def __init__(self, database: Database, seconds: float = 3.0, holder: str | None = None) -> None:
        self.database = database
        self.seconds = seconds  # for which a lease holds unless it is renewed
        self.holder = holder or secrets.token_hex(8)  # who takes it

    def take_lease(self) -> int | None:
        """Take or renew the lease; return its fence, or None while another process has it.

        The clock is the database's. A lease that expires too far in the future, because that clock was set back, has
        expired.
        """
        with self.database.writing() as connection:
            row = connection.execute(sa.select(lease, self.database.now.label("now")).with_for_update()).one_or_none()
            if row is None:
                now = float(connection.scalar(sa.select(self.database.now)))
                values = {"name": "learner", "holder": self.holder, "fence": 1, "expires": now + self.seconds}
                connection.execute(lease.insert().values(values))
                return 1
            now = float(row.now)
            if row.holder != self.holder and now < row.expires <= now + 2.0 * self.seconds:
                return None
            fence = row.fence + (row.holder != self.holder)
            connection.execute(lease.update().values(holder=self.holder, fence=fence, expires=now + self.seconds))
            return int(fence)

    def give_up_lease(self) -> None:
        """Let another process learn at once."""
        with self.database.writing() as connection:
            connection.execute(lease.update().where(lease.c.holder == self.holder).values(expires=0.0))

    def newest(self, space_id: str) -> Checkpoint | None:
        """Return the newest version with a state, from which learning continues, or None."""
        with_state = sa.select(models.c.version).where(models.c.space == space_id, models.c.kind == "state")
        mine = (checkpoints.c.space == space_id) & checkpoints.c.version.in_(with_state)
        query = sa.select(checkpoints).where(mine).order_by(checkpoints.c.version.desc()).limit(1)
        with self.database.reading() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            state = _data(connection, space_id, row.version, "state")
            of_generation = (checkpoints.c.space == space_id) & (checkpoints.c.generation == row.generation)
            written = connection.scalar(sa.select(sa.func.max(checkpoints.c.place)).where(of_generation))
        return Checkpoint(row.version, row.place, row.generation, row.names, row.status, state, written)

    def write(
        self, space_id: str, fence: int, *, place: int, generation: int, names: Sequence[str], status: Any,
        state: bytes, maps: bytes,
    ) -> int:  # fmt: skip
        """Write a model and its place; return the new version.

        The model is written first, in pieces, between which others can write. The version is there once its place is,
        which is written last. The first version of a generation removes those of former ones. LeaseLost is raised, and
        there is no new version, if another process has taken the lease.
        """
        version = 0
        for row in _pieces(space_id, {"state": state, "maps": maps}):
            with self._writing(fence, space_id) as (connection, space):
                if version == 0:
                    version = space.version + 1
                    # What was left by a process that did not live to write its place.
                    left = (models.c.space == space_id) & (models.c.version >= version)
                    connection.execute(models.delete().where(left))
                connection.execute(models.insert().values(version=version, **row))
            time.sleep(_PAUSE)
        with self._writing(fence, space_id) as (connection, space):
            if version not in (0, space.version + 1):
                raise LeaseLost("another version was written meanwhile")
            version = space.version + 1
            connection.execute(spaces.update().where(spaces.c.id == space_id).values(version=version))
            row = {"space": space_id, "version": version, "place": place, "generation": generation}
            row |= {"names": list(names), "status": status, "created": time.time()}
            connection.execute(checkpoints.insert().values(row))
            self._prune(connection, space, version, generation)
            return int(version)

    @contextmanager
    def _writing(self, fence: int, space_id: str) -> Iterator[tuple[Any, Any]]:
        """Yield a connection that writes while the lease is ours, and the space; raise LeaseLost if it is not."""
        with self.database.writing() as connection:
            space = connection.execute(sa.select(spaces).where(spaces.c.id == space_id).with_for_update()).one_or_none()
            if space is None or connection.scalar(sa.select(lease.c.fence)) != fence:
                raise LeaseLost("the space was deleted" if space is None else "another process has taken the lease")
            yield connection, space

    @staticmethod
    def _prune(connection: Any, space: Any, newest: int, generation: int) -> None:
        """Delete versions by age, but for what is pinned and the last with a state, and all of former generations."""
        mine = checkpoints.c.space == space.id
        rows = connection.execute(sa.select(checkpoints.c.version, checkpoints.c.generation).where(mine)).all()
        with_state = sa.select(sa.func.max(models.c.version)).where(
            models.c.space == space.id, models.c.kind == "state"
        )
        needed = {space.pinned, newest, connection.scalar(with_state)}
        old = [
            row.version
            for row in rows
            if row.generation != generation or (row.version not in needed and not is_kept(row.version, newest))
        ]
        for table in (checkpoints, models) if old else ():
            connection.execute(table.delete().where(table.c.space == space.id, table.c.version.in_(old)))


def served_model(connection: Any, space_id: str, known: int | None) -> Model | None:
    """Return the model to serve: the pinned version, or the newest one; None if it is the version `known`."""
    pinned = connection.scalar(sa.select(spaces.c.pinned).where(spaces.c.id == space_id))
    mine = checkpoints.c.space == space_id
    newest = sa.select(sa.func.max(checkpoints.c.version)).where(mine)
    version = connection.scalar(newest) if pinned is None else pinned
    if version and version == known:
        is_there = connection.scalar(sa.select(checkpoints.c.version).where(mine, checkpoints.c.version == version))
        if is_there is not None:
            return None
    row = connection.execute(sa.select(checkpoints).where(mine, checkpoints.c.version == version)).one_or_none()
    if row is None:
        problem = f"version {pinned} is pinned but is no longer there: the plain ranking is served" if pinned else None
        return Model(0, 0, b"", (), 0.0, {}, problem)
    maps = _data(connection, space_id, row.version, "maps")
    return Model(row.version, row.place, maps, row.names, row.created, row.status)


def _pieces(space_id: str, model: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a model without their version."""
    for kind, data in model.items():
        for piece, start in enumerate(range(0, len(data), _PIECE)):
            yield {"space": space_id, "kind": kind, "piece": piece, "data": data[start : start + _PIECE]}


def _data(connection: Any, space_id: str, version: int, kind: str) -> bytes:
    """Return the state or the maps of a version."""
    mine = (models.c.space == space_id) & (models.c.version == version) & (models.c.kind == kind)
    return b"".join(connection.scalars(sa.select(models.c.data).where(mine).order_by(models.c.piece)))


def is_kept(version: int, newest: int) -> bool:
    """Return whether a version is kept: the newest ones, and of older ones the fewer the older they are.

    >>> [version for version in range(1, 41) if is_kept(version, 40)]
    [16, 24, 28, 32, 34, 36, 37, 38, 39, 40]
    """
    step = 1 << ((newest - version) // KEPT).bit_length()
    return version % step == 0
