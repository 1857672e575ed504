"""Learning in all spaces, exactly once: models and their places in the log are written together."""

from __future__ import annotations

import logging
import time

from mahala import ModelFileError
from mahala_search.sidecar.learning.learner import SpaceLearner
from mahala_search.sidecar.records import Space, Unavailable
from mahala_search.sidecar.store.checkpoints import Checkpoints, LeaseLost
from mahala_search.sidecar.store.store import Store

log = logging.getLogger("mahala_search")

# Entries that are learned between two looks at the lease and the clock.
_BLOCK = 128
# Blocks that a learner which is made again learns beside one of the learner that is served.
_REBUILT = 4
# Seconds between two looks for new entries, and if there were some: more of them are learned together then.
IDLE, _GATHERING = 0.1, 0.25
# A version is written after this many seconds, and not before three times as long as the last one took.
_SECONDS, _TIMES = 0.8, 3.0
# Seconds after which a version also has the state of the learner, which is most of its bytes. What was learned since
# the last state is learned again after a restart.
_STATES = 10.0
# Pages that are copied to a successor at a time, seconds after which there is nothing more to do with a page, and
# between two looks for such pages.
_COPIED, _SETTLED, _COPYING = 200, 600.0, 10.0


class _Learned:
    """What is learned in a space: `current`, which is served, and beside it what is to take its place."""

    def __init__(self, store: Store, checkpoints: Checkpoints, space: Space) -> None:
        self._store, self._checkpoints = store, checkpoints
        self.space = space
        self.current: SpaceLearner | None = None
        self.rebuilt: SpaceLearner | None = None
        self._target = 0  # the place at which `rebuilt` is served
        self._written = self._saved = 0  # the places of the last version and of the last one with a state
        self._due = self._state_due = 0.0  # when the next ones are written
        checkpoint = checkpoints.newest(space.id)
        try:
            if checkpoint is not None:
                self.current = SpaceLearner(space.settings.learner, checkpoint.generation, checkpoint)
                self._saved = checkpoint.place
                # What is served does not go back while entries after the last state are learned again.
                self._written = checkpoint.written
            elif space.generation == 0:
                self.current = SpaceLearner(space.settings.learner, 0)
        except ModelFileError:  # of an earlier mahala: the log has what is needed
            pass
        if self.current is None:
            self._rebuild()

    def follow(self, space: Space) -> None:
        """Take in what has changed in the space."""
        self.space = space
        learner = self.rebuilt or self.current
        if learner is not None and learner.generation != space.generation:
            self._rebuild()

    def _rebuild(self) -> None:
        self.rebuilt = SpaceLearner(self.space.settings.learner, self.space.generation)
        self._target = self.space.n_logged

    def step(self, fence: int) -> float:
        """Learn for a moment; return for how many seconds there is nothing to do: 0 if there is more to learn."""
        n = 0 if self.current is None else self._learn(self.current)
        if self.rebuilt is not None:
            n_rebuilt = 0
            for _ in range(_REBUILT):  # more than the other learns, so that it catches up
                n_rebuilt = self._learn(self.rebuilt)
            reached = self._target if self.current is None else max(self._target, self.current.place)
            if n_rebuilt < _BLOCK or self.rebuilt.place >= reached:
                self.current, self.rebuilt = self.rebuilt, None
                self._write(fence, self.current, with_state=True)
            return 0.0
        assert self.current is not None
        wait = self._due - time.monotonic()
        # Once there is nothing to learn, the state is written too, so that nothing is learned again after a restart.
        is_unwritten = self.current.place > (self._written if n else self._saved)
        if is_unwritten and wait <= 0.0:
            self._write(fence, self.current, with_state=n == 0)
            is_unwritten = False
        pause = _GATHERING if n else IDLE
        return 0.0 if n == _BLOCK else max(0.0, min(pause, wait)) if is_unwritten else pause

    def _learn(self, learner: SpaceLearner) -> int:
        """Learn from the next entries; return how many."""
        entries = self._store.read_log(self.space.id, learner.place, _BLOCK)
        if entries:
            learner.learn(entries, self._store.item_vectors(self.space.id, [id for one in entries for id in one.ids]))
        return len(entries)

    def _write(self, fence: int, learner: SpaceLearner, *, with_state: bool) -> None:
        started = time.monotonic()
        with_state = with_state or started >= self._state_due
        maps, names = learner.maps()
        self._checkpoints.write(
            self.space.id, fence, place=learner.place, generation=learner.generation, names=names,
            status=learner.status(), state=learner.state() if with_state else b"", maps=maps,
        )  # fmt: skip
        self._written = learner.place
        now = time.monotonic()
        self._due = now + max(_SECONDS, _TIMES * (now - started))
        if with_state:
            self._saved, self._state_due = learner.place, now + _STATES

    def close(self, fence: int) -> None:
        """Write the state that was not written yet."""
        if self.current is not None and self.current.place > self._saved:
            self._write(fence, self.current, with_state=True)


class Learning:
    """Learns in all spaces while this process has the lease. `problems` has by space why one cannot be learned."""

    def __init__(self, store: Store, checkpoints: Checkpoints) -> None:
        self._store, self._checkpoints = store, checkpoints
        self.fence: int | None = None  # of the lease, while this process has it
        self.problems: dict[str, str] = {}
        self._renewal = self._copying = 0.0  # when the lease is renewed, and pages are copied
        self._learned: dict[str, _Learned] = {}  # by the id of the space

    def step(self) -> float:
        """Learn for a moment; return for how many seconds there is nothing to do. Without the lease, do nothing."""
        if time.monotonic() >= self._renewal:
            before, self.fence = self.fence, self._checkpoints.take_lease()
            self._renewal = time.monotonic() + self._checkpoints.seconds / 3.0
            if self.fence is None or self.fence != before:
                self._learned.clear()  # another process may have learned since
        if self.fence is None:
            return IDLE
        spaces = self._store.spaces()
        ids = {space.id for space in spaces.values()}
        self._learned = {id: learned for id, learned in self._learned.items() if id in ids}
        pause = min((self._step(space, self.fence) for space in spaces.values()), default=IDLE)
        return 0.0 if self._copy(spaces) else pause

    def _step(self, space: Space, fence: int) -> float:
        try:
            if space.id not in self._learned:
                self._learned[space.id] = _Learned(self._store, self._checkpoints, space)
            learned = self._learned[space.id]
            learned.follow(space)
            pause = learned.step(fence)
        except LeaseLost:
            self._learned.pop(space.id, None)
            self._renewal = 0.0
            return IDLE
        except Unavailable:
            raise
        except Exception as error:  # others are learned
            if not isinstance(error, ValueError):  # such as of parameters
                log.exception("%r cannot be learned", space.name)
            self._learned.pop(space.id, None)
            self.problems[space.name] = str(error) or repr(error)
            return 1.0
        self.problems.pop(space.name, None)
        return pause

    def _copy(self, spaces: dict[str, Space]) -> bool:
        """Copy pages to the successors of spaces; return whether there are more."""
        if time.monotonic() < self._copying:
            return False
        copied = [
            self._store.copy_pages(space.id, time.time() - _SETTLED, _COPIED)
            for space in spaces.values()
            if space.successor in spaces
        ]
        if any(copied):
            return True
        self._copying = time.monotonic() + _COPYING
        return False

    def close(self) -> None:
        """Write what was not written yet, so that nothing is learned again after a restart."""
        for learned in self._learned.values() if self.fence is not None else ():
            try:
                learned.close(self.fence or 0)
            except LeaseLost:
                log.warning("the last state of %r was not written", learned.space.name)
