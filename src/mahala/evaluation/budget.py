"""The time of a comparison, and what of it a fit may take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from mahala.evaluation.baselines import CLASSIFIERS
from mahala.evaluation.cells import Cell, Key
from mahala.learner import Learner
from mahala.online.online_learner import OnlineLearner

# Shares of the budget: of the learners' fits, of the baselines', and of the final fit.
_SHARES = {"learners": 0.8, "baselines": 0.1, "final": 0.1}


class Budget:
    """Shares the time of a comparison among the fits that can be stopped.

    Each fit may take an equal share and, of what quick learners do not need, an equal share among the learners that
    are not known to be quick.

    Parameters
    ----------
    seconds : time for the whole comparison, or None for no limit
    keys : the cells that are to be measured
    learners : learners by name; those in closed form are not stopped
    n_jobs : number of processes
    """

    def __init__(
        self, seconds: float | None, keys: Iterable[Key], learners: Mapping[str, Learner], n_jobs: int
    ) -> None:
        able = {
            name for name, own in learners.items() if isinstance(own, OnlineLearner) or "max_iter" in own.get_params()
        }
        keys = list(keys)
        self._seconds = seconds
        self._n_jobs = n_jobs
        self._began = time.monotonic()
        self._fits_left = Counter(key.name for key in keys if key.name in able)
        self._share = n_jobs / max(self._fits_left.total(), 1)
        self._baseline_share = n_jobs / max(sum(key.name in CLASSIFIERS for key in keys), 1)
        self._taken: dict[str, float] = {}  # by the longest fit of learners that were not stopped

    def is_spent(self) -> bool:
        """Whether the whole time is over."""
        return self._seconds is not None and time.monotonic() - self._began > self._seconds

    def limit(self, name: str) -> float | None:
        """Return the seconds that a fit which begins now may take."""
        if self._seconds is None:
            return None
        if name in CLASSIFIERS and name not in self._fits_left:
            return _SHARES["baselines"] * self._seconds * self._baseline_share
        if name not in self._fits_left:
            return None
        self._fits_left[name] -= 1
        whole = _SHARES["learners"] * self._seconds
        left = (whole - (time.monotonic() - self._began)) * self._n_jobs
        left -= sum(seconds * self._fits_left[quick] for quick, seconds in self._taken.items())
        others = sum(n for other, n in self._fits_left.items() if other not in self._taken)
        return max(whole * self._share, left / (1 + others))

    def note(self, name: str, cell: Cell) -> None:
        """Note how long a fit took."""
        if cell.stopped:
            self._taken.pop(name, None)
        elif name in self._fits_left:
            self._taken[name] = max(cell.seconds, self._taken.get(name, 0.0))


def final_seconds(budget: float | None) -> float | None:
    """Return the time that the final fit of a comparison with this budget may take."""
    return None if budget is None else _SHARES["final"] * budget
