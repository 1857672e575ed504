"""What all online learners share: feeding comparisons as they come, the record of it, and its state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs
from mahala.learner import Arrays, Learner
from mahala.metric import Metric
from mahala.online.history import History, Recorder
from mahala.pair_learner import PairLearner
from mahala.support.model_files import ModelFileError, array_value, header_value, number_value
from mahala.support.progress import tell_stream
from mahala.support.validation import check_row, check_sign

Signs = NDArray[np.int8]

_RECORD_NAMES = ("y", "predicted", "p", "tau")
_RANK_NAMES = ("rank_steps", "ranks")
_HISTORY = {
    "y": np.int8,
    "predicted": np.int8,
    "p": np.float64,
    "tau": np.float64,
    "rank_steps": np.int64,
    "ranks": np.int64,
}


class OnlineLearner(Learner):
    """A learner that takes comparisons one at a time, in chunks or all at once, with the same result."""

    record: bool

    _recorder: Recorder
    _metrics: dict[int, Metric]  # the last one asked for, by the number of steps it had seen
    _fixed: dict[str, Any]  # parameters that cannot change while a stream runs
    _last_step: tuple[int, float, int]  # its label, signed loss p, and the label predicted before

    @abstractmethod
    def _check_params(self) -> None:
        """Refuses parameters that make no sense."""

    @abstractmethod
    def _comparisons(self, X: Any, y: Any, *, reset: bool, at_most: bool = False) -> Any:
        """The comparisons that X and y hold or that are drawn from them, and the rows' class codes if any."""

    @abstractmethod
    def _start(self) -> None:
        """The model before the first step."""

    def _start_from(self, header: dict[str, Any]) -> None:
        """The model whose state will be read from a file with this header."""
        self._start()

    @abstractmethod
    def _feed(self, comparisons: Any) -> None:
        """Learn from each comparison once, in their order."""

    @abstractmethod
    def _current_metric(self) -> Metric: ...

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more comparisons, once each and in their order; X and y as for `fit`."""
        self._check_params()
        self._check_open("partial_fit")
        if hasattr(self, "n_steps_"):
            comparisons, _ = self._comparisons(X, y, reset=False, at_most=True)
            self._feed(comparisons)
            return self
        with self._all_or_nothing():
            comparisons, _ = self._comparisons(X, y, reset=True, at_most=True)
            self._start()
            self._feed(comparisons)
        return self

    def _check_open(self, method: str) -> None:
        if hasattr(self, "n_steps_"):
            for name, value in self._fixed.items():
                if getattr(self, name) != value:
                    raise ValueError(
                        f"{name} cannot change while a stream runs: it was {value!r}, it is {getattr(self, name)!r}; "
                        "set it back, or start again with fit"
                    )

    def _forget(self, *fixed: str) -> None:
        """An empty record, for a stream during which the parameters `fixed` cannot change."""
        self._fixed = {name: getattr(self, name) for name in fixed if hasattr(self, name)}
        self._recorder = Recorder()
        self._metrics = {}
        self.n_steps_ = 0
        self.n_updates_ = 0
        self.n_mistakes_ = 0
        self.loss_ = 0.0
        self.squared_loss_ = 0.0

    def _note(self, y: Signs, steps: tuple[Any, Any, Signs]) -> None:
        """Record what each step saw and did: its signed loss p, step length τ and prediction."""
        p, tau, predicted = steps
        self.n_steps_ += len(y)
        self.n_updates_ += int(np.count_nonzero(tau))
        self.n_mistakes_ += int(np.count_nonzero(predicted != y))
        hinge = np.maximum(p, 0.0)
        self.loss_ += float(hinge.sum())
        self.squared_loss_ += float(hinge @ hinge)
        if len(y):
            self._last_step = int(y[-1]), float(p[-1]), int(predicted[-1])
        if self.record:
            self._recorder.add(y, predicted, p, tau)
        tell_stream(self, self.n_steps_, self.n_mistakes_)

    @property
    def metric_(self) -> Metric:
        """What has been learned so far."""
        check_is_fitted(self, "n_steps_")
        if self.n_steps_ not in self._metrics:
            self._metrics.clear()
            self._metrics[self.n_steps_] = self._current_metric()
        return self._metrics[self.n_steps_]

    @property
    def history_(self) -> History:
        """What happened at each step so far."""
        check_is_fitted(self, "n_steps_")
        if not self.record:
            raise AttributeError("history_ is not kept with record=False; set record=True before fitting")
        return self._recorder.history()

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        history = self._recorder.history()
        header: dict[str, object] = {
            "n_steps": self.n_steps_,
            "n_updates": self.n_updates_,
            "n_mistakes": self.n_mistakes_,
            "loss": self.loss_,
            "squared_loss": self.squared_loss_,
            "seed": self._seed,
            "random_state": self._rng.bit_generator.state,
        }
        return header, {f"history.{name}": getattr(history, name) for name in _HISTORY}

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        self._check_params()
        self._seed = int(number_value(header, "seed", least=0.0))
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = header_value(header, "random_state", dict)
        self._start_from(header)
        self.n_steps_, self.n_updates_, self.n_mistakes_ = (
            int(number_value(header, name, least=0.0)) for name in ("n_steps", "n_updates", "n_mistakes")
        )
        self.loss_, self.squared_loss_ = (number_value(header, name, least=0.0) for name in ("loss", "squared_loss"))
        columns = {name: array_value(arrays, f"history.{name}", dtype, (None,)) for name, dtype in _HISTORY.items()}
        for group in (_RECORD_NAMES, _RANK_NAMES):
            if len({len(columns[name]) for name in group}) != 1:
                raise ModelFileError(f"the arrays of history {group} should have the same length")
        self._recorder = Recorder.of(History(**columns))


class OnlinePairLearner(PairLearner, OnlineLearner):
    """An online learner from pairs."""

    def learn_one(self, x: Any, x_other: Any, similar: bool | int) -> bool:
        """Learn from one pair; returns whether it was predicted to be similar before the update."""
        rows = [check_row(x, "x"), check_row(x_other, "x_other")]
        if rows[0].shape != rows[1].shape:
            raise ValueError(
                f"x has {rows[0].size} features and x_other {rows[1].size}; they must have the same number"
            )
        pair = Pairs._build(np.stack(rows), np.array([0]), np.array([1]), np.array([check_sign(similar)]))
        before = self.n_mistakes_ if hasattr(self, "n_steps_") else 0
        self.partial_fit(pair)
        rightly = self.n_mistakes_ == before
        return check_sign(similar) == rightly


def signs(pairs: Pairs) -> Signs:
    y = pairs.y
    assert y is not None, "comparisons are labelled before they are fed"
    return y
