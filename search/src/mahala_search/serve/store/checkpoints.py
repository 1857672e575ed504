"""Checkpoints: versions of the models with their places in the log, and the lease of the one process that learns."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mahala_search.serve.store.appends import raised
from mahala_search.serve.store.database import Database, Unknown, checkpoints, collections, lease, models

# The state and the map of each learner.
Parts = dict[str, tuple[bytes, bytes]]
# Versions that are kept of the newest, and of each age that is twice as large.
KEPT = 4
# Bytes of a model that are written in one transaction, and seconds between two of them: others wait for a few
# milliseconds, and not until megabytes are on the disk.
_PIECE, _PAUSE = 2**19, 0.004


@dataclass(frozen=True)
class Version:
    """A version of the models, the entries of the log up to which it has learned (`place`), and their status."""

    version: int
    place: int
    generation: int
    ready: bool
    created: float
    status: dict[str, Any]


class LeaseLost(RuntimeError):
    """Another process learns now; nothing was written."""


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
            query = sa.select(lease, self.database.now.label("now")).with_for_update()
            row = connection.execute(query).one_or_none()
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

    def has_lease(self) -> bool:
        """Return whether the lease was taken here, and has not expired."""
        with self.database.reading() as connection:
            held = sa.select(lease.c.fence).where(lease.c.holder == self.holder, lease.c.expires > self.database.now)
            return connection.scalar(held) is not None

    def give_up_lease(self) -> None:
        """Let another process learn at once."""
        with self.database.writing() as connection:
            connection.execute(lease.update().where(lease.c.holder == self.holder).values(expires=0.0))

    def newest(self, name: str, generation: int) -> tuple[Version, dict[str, bytes]] | None:
        """Return the version to go on learning from, the newest with the learners' states, or None."""
        with self.database.reading() as connection:
            has_states = checkpoints.c.version.in_(sa.select(_with_states(name)))
            version = _newest(connection, name, (checkpoints.c.generation == generation) & has_states)
            return None if version is None else (version, _parts(connection, name, version.version, "state"))

    def places(self, name: str, generation: int) -> list[int]:
        """Return the places of the versions that are kept."""
        return [version.place for version in self.versions(name) if version.generation == generation]

    def write(
        self, name: str, fence: int, *, place: int, generation: int, ready: bool, status: Any, parts: Parts
    ) -> int:
        """Write the models and their place; return the new version.

        The models are written first, in pieces, between which others can write to the log. The version is there once
        its place is, which is written last. LeaseLost is raised, and there is no new version, if another process has
        taken the lease, or if the models are to be learned again.
        """
        version = 0
        for row in _pieces(name, parts):
            with self._writing(fence) as connection:
                if version == 0:
                    version = raised(connection, name, version=0)["version"] + 1
                    # What was left by a process that did not live to write their place.
                    left = (models.c.collection == name) & (models.c.version >= version)
                    connection.execute(models.delete().where(left))
                connection.execute(models.insert().values(version=version, **row))
            time.sleep(_PAUSE)
        with self._writing(fence) as connection:
            expected, version = version, raised(connection, name, version=1)["version"] + 1
            query = sa.select(collections.c.generation, collections.c.pinned).where(collections.c.name == name)
            collection = connection.execute(query).one()
            if collection.generation != generation or expected not in (0, version):
                raise LeaseLost("the models are to be learned again")
            row = {"collection": name, "version": version, "place": place, "generation": generation, "ready": ready}
            connection.execute(checkpoints.insert().values(row | {"created": time.time(), "told": status}))
            self._prune(connection, name, version, generation, ready, collection.pinned)
            return int(version)

    @contextmanager
    def _writing(self, fence: int) -> Iterator[Any]:
        """Yield a connection that writes while the lease is ours; raise LeaseLost if it is not."""
        with self.database.writing() as connection:
            if connection.execute(sa.select(lease.c.fence).with_for_update()).one().fence != fence:
                raise LeaseLost("another process has taken the lease")
            yield connection

    @staticmethod
    def _prune(connection: Any, name: str, newest: int, generation: int, ready: bool, pinned: int | None) -> None:
        """Delete versions by age, but for the last with states, and those from before all was learned again."""
        mine = checkpoints.c.collection == name
        rows = connection.execute(sa.select(checkpoints.c.version, checkpoints.c.generation).where(mine)).all()
        former = [row.version for row in rows if row.generation != generation and ready]
        with_states = connection.scalar(sa.select(sa.func.max(_with_states(name))))
        needed = {pinned, with_states}
        old = [row.version for row in rows if not is_kept(row.version, newest) and row.version not in needed]
        if former and pinned in former:
            connection.execute(collections.update().where(collections.c.name == name).values(pinned=None))
        for table in (checkpoints, models) if former or old else ():
            gone = (table.c.collection == name) & table.c.version.in_([*former, *old])
            connection.execute(table.delete().where(gone))

    def versions(self, name: str) -> list[Version]:
        """Return the versions that are kept, the newest first."""
        query = sa.select(checkpoints).where(checkpoints.c.collection == name).order_by(checkpoints.c.version.desc())
        with self.database.reading() as connection:
            return [Version(*row[1:]) for row in connection.execute(query)]

    def served(self, name: str, learner: str) -> tuple[Version, bytes | None] | None:
        """Return the version to serve, which is pinned or the newest that is ready, and the map of a learner."""
        with self.database.reading() as connection:
            pinned = connection.scalar(sa.select(collections.c.pinned).where(collections.c.name == name))
            condition = checkpoints.c.ready if pinned is None else checkpoints.c.version == pinned
            version = _newest(connection, name, condition)
            if version is None:
                return None
            return version, _parts(connection, name, version.version, "map", learner).get(learner)

    def pin(self, name: str, version: int | None) -> None:
        """Serve this version until another one is pinned; 0 is the plain ranking, None the newest."""
        with self.database.writing() as connection:
            mine = (checkpoints.c.collection == name) & (checkpoints.c.version == version)
            if version and connection.scalar(sa.select(checkpoints.c.version).where(mine)) is None:
                raise Unknown(f"there is no version {version} of {name!r}: it was not kept, or never was")
            connection.execute(collections.update().where(collections.c.name == name).values(pinned=version))


def _with_states(name: str) -> Any:
    """Return the versions of a collection that have states, as a column."""
    mine = (models.c.collection == name) & (models.c.kind == "state")
    return sa.select(models.c.version).where(mine).subquery().c.version


def _newest(connection: Any, name: str, condition: Any) -> Version | None:
    """Return the newest version of a collection that fulfils a condition."""
    query = sa.select(checkpoints).where(checkpoints.c.collection == name, condition)
    row = connection.execute(query.order_by(checkpoints.c.version.desc()).limit(1)).one_or_none()
    return None if row is None else Version(*row[1:])


def _pieces(name: str, parts: Parts) -> Iterator[dict[str, Any]]:
    """Yield the rows of models without their version."""
    for learner, both in parts.items():
        for kind, data in zip(("state", "map"), both, strict=True):
            for piece, start in enumerate(range(0, len(data), _PIECE)):
                row = {"collection": name, "learner": learner, "kind": kind, "piece": piece}
                yield row | {"data": data[start : start + _PIECE]}


def _parts(connection: Any, name: str, version: int, kind: str, learner: str | None = None) -> dict[str, bytes]:
    """Return the states or the maps of a version by learner: of all learners, or of one."""
    mine = (models.c.collection == name) & (models.c.version == version) & (models.c.kind == kind)
    if learner is not None:
        mine &= models.c.learner == learner
    query = sa.select(models.c.learner, models.c.data).where(mine).order_by(models.c.learner, models.c.piece)
    pieces: dict[str, list[bytes]] = {}
    for row in connection.execute(query):
        pieces.setdefault(row.learner, []).append(row.data)
    return {name: b"".join(parts) for name, parts in pieces.items()}


def is_kept(version: int, newest: int) -> bool:
    """Return whether a version is kept: the newest ones, and of older ones the fewer the older they are.

    >>> [version for version in range(1, 41) if is_kept(version, 40)]
    [16, 24, 28, 32, 34, 36, 37, 38, 39, 40]
    """
    step = 1 << ((newest - version) // KEPT).bit_length()
    return version % step == 0
