"""Checkpoints: versions of the models with their places in the log, and the lease of the one process that learns."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from mahala.serve.database import Database, checkpoints, collections, lease, models
from mahala.serve.store import raised

# Versions that are kept of the newest, and of each age that is twice as large.
KEPT = 4


class Version(NamedTuple):
    """What is told about a version of the models: its place in the log, and what each learner says of itself."""

    version: int
    place: int
    generation: int
    ready: bool
    created: float
    told: dict[str, Any]


@dataclass(frozen=True)
class Lease:
    """The right to learn: a number that is larger than that of every holder before."""

    holder: str
    fence: int


class LeaseLost(RuntimeError):
    """Another process learns now; nothing was written."""


class Checkpoints:
    """Versions of the models in a database, and the lease."""

    def __init__(self, database: Database, seconds: float = 3.0, holder: str | None = None) -> None:
        self.database = database
        self.seconds = seconds  # for which a lease holds unless it is renewed
        self.holder = holder or secrets.token_hex(8)  # who takes it

    def take_lease(self) -> Lease | None:
        """Return the lease, taken or renewed, or None while another process has it.

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
                return Lease(self.holder, 1)
            now = float(row.now)
            if row.holder != self.holder and now < row.expires <= now + 2.0 * self.seconds:
                return None
            fence = row.fence + (row.holder != self.holder)
            connection.execute(lease.update().values(holder=self.holder, fence=fence, expires=now + self.seconds))
            return Lease(self.holder, fence)

    def has_lease(self) -> bool:
        """Return whether the lease was taken here, and has not expired."""
        with self.database.reading() as connection:
            own = sa.select(lease.c.fence).where(lease.c.holder == self.holder, lease.c.expires > self.database.now)
            return connection.scalar(own) is not None

    def give_up_lease(self) -> None:
        """Let another process learn at once."""
        with self.database.writing() as connection:
            connection.execute(lease.update().where(lease.c.holder == self.holder).values(expires=0.0))

    def newest(self, name: str, generation: int) -> tuple[Version, dict[str, bytes]] | None:
        """Return the version to go on learning from, with the learners' states, or None."""
        own = (checkpoints.c.collection == name) & (checkpoints.c.generation == generation)
        with self.database.reading() as connection:
            query = sa.select(checkpoints).where(own).order_by(checkpoints.c.version.desc()).limit(1)
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            mine = (models.c.collection == name) & (models.c.version == row.version)
            states = connection.execute(sa.select(models.c.learner, models.c.state).where(mine)).all()
        return Version(*row[1:]), {one.learner: bytes(one.state) for one in states}

    def write(
        self,
        name: str,
        own: Lease,
        *,
        place: int,
        generation: int,
        ready: bool,
        told: dict[str, Any],
        parts: dict[str, tuple[bytes, bytes]],
    ) -> int:
        """Write the models and their place in one transaction; return the new version.

        LeaseLost is raised, and nothing is written, if another process has taken the lease, or if the models are to be
        learned again.
        """
        with self.database.writing() as connection:
            holder = connection.execute(sa.select(lease.c.fence).with_for_update()).one()
            if holder.fence != own.fence:
                raise LeaseLost("another process has taken the lease")
            version = raised(connection, name, version=1)["version"] + 1
            query = sa.select(collections.c.generation, collections.c.pinned).where(collections.c.name == name)
            known = connection.execute(query).one()
            if known.generation != generation:
                raise LeaseLost("the models are to be learned again")
            connection.execute(
                checkpoints.insert().values(
                    collection=name, version=version, place=place, generation=generation, ready=ready,
                    created=time.time(), told=told,
                )
            )  # fmt: skip
            rows = [
                {"collection": name, "version": version, "learner": learner, "state": state, "map": served}
                for learner, (state, served) in parts.items()
            ]
            if rows:
                connection.execute(models.insert(), rows)
            self._prune(connection, name, version, generation, ready, known.pinned)
            return int(version)

    @staticmethod
    def _prune(connection: Any, name: str, newest: int, generation: int, ready: bool, pinned: int | None) -> None:
        """Delete versions by age and, once the models have been learned again, those from before."""
        mine = checkpoints.c.collection == name
        rows = connection.execute(sa.select(checkpoints.c.version, checkpoints.c.generation).where(mine)).all()
        former = [row.version for row in rows if row.generation != generation and ready]
        old = [row.version for row in rows if not is_kept(row.version, newest) and row.version != pinned]
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
            mine = (checkpoints.c.collection == name) & checkpoints.c.ready
            if pinned is not None:
                mine = (checkpoints.c.collection == name) & (checkpoints.c.version == pinned)
            query = sa.select(checkpoints).where(mine).order_by(checkpoints.c.version.desc()).limit(1)
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            version = Version(*row[1:])
            mine = (models.c.collection == name) & (models.c.version == row.version) & (models.c.learner == learner)
            data = connection.scalar(sa.select(models.c.map).where(mine))
        return version, None if data is None else bytes(data)

    def pin(self, name: str, version: int | None) -> None:
        """Serve this version until another one is pinned; 0 is the plain ranking, None the newest."""
        with self.database.writing() as connection:
            mine = (checkpoints.c.collection == name) & (checkpoints.c.version == version)
            if version and connection.scalar(sa.select(checkpoints.c.version).where(mine)) is None:
                raise KeyError(f"there is no version {version} of {name!r}: it was not kept, or never was")
            connection.execute(collections.update().where(collections.c.name == name).values(pinned=version))


def is_kept(version: int, newest: int) -> bool:
    """Return whether a version is kept: the newest ones, and of older ones the fewer the older they are.

    >>> [version for version in range(1, 41) if is_kept(version, 40)]
    [16, 24, 28, 32, 34, 36, 37, 38, 39, 40]
    """
    step = 1 << ((newest - version) // KEPT).bit_length()
    return version % step == 0
