"""The base of the online learners: one `fit`, `partial_fit`, record and state, whatever they learn from."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from operator import is_
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mahala.comparisons import Comparisons
from mahala.compiled.jit import Steps
from mahala.engine.inputs import computed, labelled_parts
from mahala.learner import LabelledRows, Learner, checked_options
from mahala.metric import Metric
from mahala.online.history import RECORD, History
from mahala.support.arrays import Arrays, FloatArray, RowsLike, SignArray, StoredRows
from mahala.support.display import SHOWN, tell_stream
from mahala.support.limits import one_blas_thread, out_of_time
from mahala.support.locking import all_or_nothing, one_at_a_time
from mahala.support.model_files import check_matrix_shape, header_value
from mahala.support.parameters import Seed, WholeNumber, check_params
from mahala.support.signals import no_interrupt_lost, uninterrupted
from mahala.support.states import Fields, Integer, Number, Part, restore, to_parts
from mahala.support.tags import Labels
from mahala.support.validation import is_chunked

_COUNTED = ("n_steps_", "n_updates_", "n_mistakes_", "n_skipped_", "loss_", "squared_loss_")


class State(Protocol):
    """A matrix that moves step by step, which is what the online learners ask of the states in `state/`.

    Comparisons pass through `prepare` and `chunks` once, then each chunk through `feed`. A chunk has an attribute `y`
    with the label of each of its steps. A rule holds the parameters of a step that may change between two steps.
    """

    n_steps: int  # which a learner writes to model files, and sets before `set_state`

    def prepare(self, comparisons: Any, n_steps: int, complete: bool) -> Any:
        """Return the comparisons in the coordinates of the state; `complete` if they are all that `fit` takes."""

    def chunks(self, comparisons: Any, n_steps: int, rule: Any, stop_every: int | None) -> Iterator[Any]:
        """Yield the input of n_steps steps, through the comparisons in cycles, in chunks of bounded size.

        With `stop_every`, chunks end where the number of steps is a multiple of it.
        """

    def feed(self, chunk: Any, rule: Any, steps: Steps) -> None:
        """Take the steps of a chunk and write what they did to `steps`."""

    def finish(self) -> None:
        """Leave the coordinates that `prepare` chose for all comparisons of a fit."""

    def metric(self, **about: Any) -> Metric:
        """Return the state as a metric, with the feature names and the origin given in `about`."""


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineLearner(Learner):
    """Learns from comparisons one at a time, in chunks or all at once, with the same result.

    It has a state, which `_first_state` returns as it is before the first step, and `_rule`, the parameters of a step.
    """

    record: bool | WholeNumber = 100_000
    random_state: Seed = None

    _fixed: ClassVar[tuple[str, ...]] = ()  # parameters that cannot change while a stream runs
    _holds_matrix: ClassVar[bool] = True  # whether the state has M in full, of the size that the features need
    _from_first_chunk: ClassVar[tuple[str, ...]] = ()  # parameters that "auto" takes from the first comparisons
    FIELDS: ClassVar[Fields] = (
        *(Integer(name) for name in _COUNTED[:4]),
        *(Number(name, least=0.0) for name in _COUNTED[4:]),
        Integer("_seed"),
    )

    @abstractmethod
    def _first_state(self, comparisons: Any, complete: bool) -> State:
        """Return the state before the first step; `comparisons` are the first ones, or all of a fit if `complete`."""

    def _stored_state(self, header: dict[str, object]) -> State:
        """Return a state that can take what is in a model file with this header."""
        return self._first_state(None, complete=False)

    @abstractmethod
    def _rule(self) -> Any:
        """Return the parameters of a step."""

    def _check_open(self, method: str) -> None:
        """Raise ValueError for parameters with which a stream cannot continue after `fit`."""

    def _n_steps(self, comparisons: Comparisons, labels: Labels | None) -> int:
        """Return the number of steps that `fit` takes."""
        n_steps = getattr(self, "n_steps", "auto")
        return len(comparisons) if isinstance(n_steps, str) else int(n_steps)

    @checked_options
    @one_at_a_time
    def fit(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None) -> Self:
        """Learn from rows X with class labels y, or from comparisons.

        Parameters
        ----------
        X : Pairs or Triplets, an array of shape (n, 2 or 3, n_features) of comparisons, or rows
        y : class labels or tags of rows, see :meth:`mahala.Pairs.from_labels`; +1 / -1 for an array of pairs, else None

        From rows or a bag of Dask, this is `partial_fit` from the start.
        """
        if is_chunked(X):
            with all_or_nothing(self):
                vars(self).pop("_model", None)
                return self.partial_fit(X, y)
        check_params(self)
        self._check_params()
        with all_or_nothing(self), no_interrupt_lost(), one_blas_thread():
            comparisons, labels = self._comparisons(X, y, reset=True, at_most=False)
            self._begin(comparisons, complete=True)
            self._learn(comparisons, labels)
        return self

    @one_at_a_time
    def partial_fit(self, X: "RowsLike | Comparisons", y: "ArrayLike | None" = None) -> Self:
        """Learn from more comparisons, once each and in their order; X and y as for `fit`.

        Chunks of rows, or of an array of comparisons, of Dask are learned from one after another, and so are the
        partitions of a bag of pairs (x, x2, similar) or triplets (query, positive, negative) of vectors.
        """
        if is_chunked(X):
            for part, labels in (computed(*chunk) for chunk in labelled_parts(X, y)):
                if len(part):
                    self.partial_fit(part, labels)
            return self
        self._check_stream("partial_fit")
        is_new = "_model" not in vars(self)
        with all_or_nothing(self) if is_new else nullcontext(), no_interrupt_lost():
            comparisons, _ = self._comparisons(X, y, reset=is_new, at_most=True)
            if is_new:
                self._begin(comparisons, complete=False)
                self._accept_params()
            with one_blas_thread():
                prepared = self._model.prepare(comparisons, len(comparisons), complete=False)
                self._feed(prepared, len(comparisons), self._rule_in_force)
        return self

    def _comparisons(
        self, X: "RowsLike | Comparisons", y: "ArrayLike | None", *, reset: bool, at_most: bool
    ) -> tuple[Comparisons, Labels | None]:
        """Return the comparisons given, or drawn (with `at_most` as many as there are), and the classes or tags."""
        if reset:
            self._reset_seed()
        data = self._validated(X, y, reset=reset)
        if not isinstance(data, LabelledRows):
            return data, None
        return self._drawn(data.X, data.labels, at_most), data.labels

    @abstractmethod
    def _drawn(self, X: StoredRows, labels: Labels, at_most: bool) -> Comparisons:
        """Return comparisons drawn from rows by their classes or tags."""

    def _begin(self, comparisons: Comparisons, complete: bool) -> None:
        """Start over: the state before the first step and an empty record."""
        self._model = self._first_state(comparisons, complete)
        self._clear()

    def _clear(self) -> None:
        self._records = np.empty(64, dtype=RECORD)  # grows by doubling, so that a step costs O(1)
        self._n_recorded = 0
        self._ranks: list[tuple[int, int]] = []  # of the positive part of M, with the steps
        # The number of steps and the metric after them, in a list because a reader must not change an attribute.
        self._formed: list[Any] = []
        self._fixed_values = {name: getattr(self, name) for name in self._fixed if hasattr(self, name)}
        self._checked: dict[str, object] | None = None  # the parameters when they were last checked
        self.n_steps_ = self.n_updates_ = self.n_mistakes_ = self.n_skipped_ = 0
        self.loss_ = self.squared_loss_ = 0.0

    def _check_stream(self, method: str) -> None:
        """Check the parameters, unless none has changed since they were last checked."""
        values = vars(self)
        checked = values.get("_checked")
        if checked is not None and all(map(is_, map(values.__getitem__, checked), checked.values())):
            return
        check_params(self)
        self._check_params()
        self._check_open(method)
        if "_model" in values:
            self._check_fixed()
        self._accept_params()

    def _accept_params(self) -> None:
        """Take the rule of the parameters, which were checked, until one of them changes."""
        self._rule_in_force = self._rule()
        self._checked = self.get_params(deep=False)

    def _learn(self, comparisons: Any, labels: Labels | None) -> None:
        """Learn from all the comparisons of a fit."""
        n_steps = self._n_steps(comparisons, labels)
        self._feed(self._model.prepare(comparisons, n_steps, complete=True), n_steps, self._rule())
        self._model.finish()

    def _feed(self, prepared: Any, n_steps: int, rule: Any) -> None:
        """Take n_steps steps through comparisons in the coordinates of the state, in cycles."""
        model = self._model
        for chunk in model.chunks(prepared, n_steps, rule, getattr(self, "rank_every", None)):
            n = len(chunk.y)
            steps = np.empty(n), np.empty(n), np.empty(n, dtype=np.int8)
            with uninterrupted():
                before = model.n_steps
                try:
                    model.feed(chunk, rule, steps)
                finally:  # the steps before memory ran out have been taken, too
                    done = model.n_steps - before
                    self._note(chunk.y[:done], steps[0][:done], steps[1][:done], steps[2][:done])
            if out_of_time():
                break

    def _note(self, y: SignArray, p: FloatArray, tau: FloatArray, predicted: SignArray) -> None:
        """Record what each step saw and did."""
        self.n_steps_ += len(y)
        self.n_updates_ += int(np.count_nonzero(tau))
        self.n_mistakes_ += int(np.count_nonzero(predicted != y))
        self.n_skipped_ += int(np.count_nonzero(np.signbit(tau) & (tau == 0.0)))  # see compiled.jit.SKIPPED
        hinge = np.maximum(p, 0.0)
        self.loss_ += float(hinge.sum())
        self.squared_loss_ += float(hinge @ hinge)
        if len(y):
            self._last_step = int(y[-1]), float(p[-1]), int(predicted[-1])
        if self.record:
            rows = self._room_for(len(y))
            rows["y"], rows["predicted"], rows["p"], rows["tau"] = y, predicted, p, tau
        self._note_progress()

    def _note_one(self, y: int, p: float, tau: float, predicted: int) -> None:
        """Record one step, as `_note` does at a greater cost."""
        self.n_steps_ += 1
        self.n_updates_ += tau != 0.0
        self.n_mistakes_ += predicted != y
        if tau == 0.0:
            self.n_skipped_ += math.copysign(1.0, tau) < 0.0
        if p > 0.0:
            self.loss_ += p
            self.squared_loss_ += p * p
        self._last_step = y, p, predicted
        if self.record:
            self._room_for(1)[0] = y, predicted, p, tau
        self._note_progress()

    def _room_for(self, n: int) -> NDArray[np.void]:
        """Return the next n records, to be written; if there is no room, the oldest beyond the limit are dropped."""
        start = self._n_recorded
        if start + n > len(self._records) or not self._records.flags.writeable:
            n_old = min(start, self._most_recorded)
            grown = np.empty(max(n_old + n, 2 * n_old), dtype=RECORD)
            grown[:n_old] = self._records[start - n_old : start]
            self._records, start = grown, n_old
        self._n_recorded = start + n
        return self._records[start : start + n]

    @property
    def _most_recorded(self) -> int:
        return self.n_steps_ if isinstance(self.record, bool | np.bool_) else int(self.record)

    def _note_progress(self) -> None:
        rank_every = vars(self).get("rank_every")
        if rank_every and self.n_steps_ % rank_every == 0:
            self._ranks.append((self.n_steps_, self._model.effective_dimension()))
        if SHOWN.get() is not None:
            tell_stream(self, self.n_steps_, self.n_mistakes_)

    @property
    @one_at_a_time
    def metric_(self) -> Any:
        """What has been learned so far."""
        self._check_fitted()
        if self._formed[:1] != [self.n_steps_]:
            self._formed[:] = self.n_steps_, self._form_metric()
        return self._formed[1]

    @abstractmethod
    def _form_metric(self) -> Metric:
        """Return the metric of the model as it is now."""

    @property
    @one_at_a_time
    def history_(self) -> History:
        """What happened at each step so far, or at the last `record` steps."""
        self._check_fitted()
        if not self.record:
            raise AttributeError("history_ is not kept with record=False; set record=True before fitting")
        return self._history()

    def _history(self) -> History:
        stop = self._n_recorded
        return History.of(self._records[max(0, stop - self._most_recorded) : stop], self._ranks, self.n_steps_)

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        self._check_fixed()  # what is written must fit the parameters that are written with it
        header, arrays = to_parts(self)
        header["random_state"] = self._rng.bit_generator.state
        Part("_model").write(self._model, header, arrays)
        return header, arrays | self._history().to_arrays()

    def _set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        check_params(self)
        self._check_params()
        self._clear()
        restore(self, header, arrays)
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = header_value(header, "random_state", dict)
        model = header_value(header, "model", dict)
        if self._holds_matrix and model.get("storage") != "sparse" and getattr(self, "kernel", None) is None:
            n_columns = header_value(model, "n_item_features", int) if "storage" in model else self.n_features_in_
            check_matrix_shape(arrays, (self.n_features_in_, n_columns))
        self._model = self._stored_state(header)
        self._model.n_steps = self.n_steps_
        Part("_model").read(self, header, arrays)
        self._records, self._ranks = History.read(arrays)
        self._n_recorded = len(self._records)
