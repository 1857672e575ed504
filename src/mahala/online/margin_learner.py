"""What PA and POLA share: a metric and a threshold (M, b), moved by passive-aggressive steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mahala.comparisons import Pairs
from mahala.compiled.psd import SIGMA
from mahala.learner import CHUNK_ELEMENTS, Arrays
from mahala.metric import MahalanobisMetric
from mahala.metric.kernel_map import KernelMap
from mahala.online.online_learner import OnlinePairLearner, Signs, signs
from mahala.online.storage.pair_model import (
    PairModel,
    Rule,
    check_memory,
    dual_is_cheaper,
    padded,
    sparse_is_cheaper,
)
from mahala.support.model_files import ModelFileError, finite_array, header_value, number_value
from mahala.support.params import is_count
from mahala.support.signals import uninterrupted


class MarginLearner(OnlinePairLearner):
    """A learner of (M, b) from pairs."""

    kernel: Any
    kernel_params: dict[str, Any] | None
    rank_every: int | None

    _model: PairModel
    _map: KernelMap | None

    @abstractmethod
    def _rule(self) -> Rule:
        """(slack, lower, upper) of the step length τ = clip(p / (‖v‖⁴ + 1 + slack), lower, upper)."""

    @abstractmethod
    def _first_model(self, d: int) -> PairModel: ...

    @property
    @abstractmethod
    def _psd_steps(self) -> int:
        """M ⪰ 0 and b ≥ 1 after every update (1), never (0) or after every k-th step (k)."""

    def _check_params(self) -> None:
        if self.kernel_params is not None and self.kernel is None:
            raise ValueError(f"kernel_params={self.kernel_params!r} need a kernel, but kernel is None")
        if self.rank_every is not None and not is_count(self.rank_every):
            raise ValueError(f"rank_every must be None or a number from 1 up, got {self.rank_every!r}")

    @property
    def _tolerance(self) -> float:
        return 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    def _check_open(self, method: str) -> None:
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                f"kernel='precomputed' holds the points that were there from the start: {method} cannot bring new "
                "ones; use fit, or a kernel that can be evaluated"
            )
        super()._check_open(method)

    def _start(self) -> None:
        """Forget everything."""
        self._map = None if self.kernel is None else KernelMap(self.kernel, self.kernel_params)
        self._restart()

    def _restart(self) -> None:
        """The model before the first step, in the span that is known by now."""
        d = self.n_features_in_ if self._map is None else self._map.dimension
        check_memory(d, self._psd_steps)
        self._model = self._first_model(d)
        self._forget("kernel", "kernel_params", "psd")

    def _in_span(self, pairs: Pairs) -> Pairs:
        """The pairs in the coordinates in which the model works: those of the kernel's span, if there is one."""
        if self._map is None:
            return pairs
        rows, places = _in_order(np.stack([pairs.left, pairs.right], axis=1).ravel())
        self._map.grow(pairs.X, rows)
        if self._map.dimension > len(self._model.M):
            self._model.grow(self._map.dimension)
        coordinates = self._map.coordinates(pairs.X[rows])
        return Pairs._build(coordinates, places[::2], places[1::2], pairs.similar)

    def _feed(self, pairs: Pairs) -> None:
        """Feed the pairs once, in their order."""
        self._feed_in_span(self._in_span(pairs), len(pairs))

    def _feed_in_span(self, pairs: Pairs, n_steps: int) -> None:
        """Feed pairs that are in the model's coordinates, in cycles for n_steps."""
        n, d = len(pairs), pairs.n_features
        model, rule = self._model, self._rule()
        sparse = model.psd != 1 and sparse_is_cheaper(pairs.X)
        share = 1.0 if rule[1] < 0.0 else 0.5
        can_be_dual = model.psd == 0 and n_steps > n and not sparse and not self.rank_every
        if can_be_dual and dual_is_cheaper(n, d, n_steps, share):
            V, y = pairs.differences(), signs(pairs)
            with uninterrupted():
                self._note(np.resize(y, n_steps), model.feed_dual(V, y, n_steps, rule, self._tolerance))
            return
        fed = 0
        while fed < n_steps:
            for part in self._chunks(pairs[: n_steps - fed]):
                V, y = part.differences(sparse=sparse), signs(part)
                with uninterrupted():
                    self._note(y, model.feed(V, y, rule, self._tolerance))
                fed += len(y)

    def _chunks(self, pairs: Pairs) -> Iterator[Pairs]:
        """As many pairs at a time as bounded memory holds the differences of, up to where a rank is recorded.

        Under psd="every" fewer, since Ctrl-C waits for the end of a chunk.
        """
        size = max(64, CHUNK_ELEMENTS // max(1, pairs.n_features) // (8 if self._psd_steps == 1 else 1))
        start = 0
        while start < len(pairs):
            stop = start + size
            if self.rank_every:
                stop = min(stop, start + self.rank_every - self.n_steps_ % self.rank_every)
            yield pairs[start:stop]
            start = stop

    def _note(self, y: Signs, steps: tuple[Any, Any, Signs]) -> None:
        super()._note(y, steps)
        if self.rank_every and self.n_steps_ % self.rank_every == 0:
            self._recorder.add_rank(self.n_steps_, self._model.effective_dimension())

    def _current_metric(self) -> MahalanobisMetric:
        """Under psd="end" the projection of the state at this moment."""
        M, b = self._model.constrained()
        names = getattr(self, "feature_names_in_", None)
        kernel_map = None if self._map is None else self._map.freeze()
        return MahalanobisMetric(M, b, feature_names=names, kernel_map=kernel_map, origin=self._origin())

    @property
    def threshold_(self) -> float:
        """Pairs at most this far apart (squared) are predicted to be similar."""
        check_is_fitted(self, "n_steps_")
        return max(self._model.b, 1.0)

    @property
    def radius_(self) -> float:
        """The largest ‖v‖⁴ + 1 of the pairs seen."""
        check_is_fitted(self, "n_steps_")
        return self._model.radius

    @property
    def raw_metric_(self) -> MahalanobisMetric:
        """The stream's own model as it stands: under psd="end" it may be indefinite, and b below 1."""
        check_is_fitted(self, "n_steps_")
        # Symmetric up to rounding of what it was made of, which a projection may leave next to nothing of.
        M = 0.5 * (self._model.M + self._model.M.T)
        return MahalanobisMetric(M, self._model.b, kernel_map=None if self._map is None else self._map.freeze())

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header, arrays = super()._get_state()
        model = self._model
        arrays |= {"M": model.M, "tuning": model.tuning}
        if model.R is not None:
            arrays["R"] = model.R
        header |= {"threshold": model.b, "mass": model.mass, "radius": model.radius, "kernel": None}
        if self._map is not None:
            header["kernel"], kernel_arrays = self._map.to_arrays()
            arrays |= {f"kernel.{name}": array for name, array in kernel_arrays.items()}
        return header, arrays

    def _set_state(self, header: dict[str, Any], arrays: Arrays) -> None:
        # Whatever the file says, compiled code sees arrays of the right shape and finite numbers only.
        super()._set_state(header, arrays)
        if self._map is not None:
            own = {k.removeprefix("kernel."): a for k, a in arrays.items() if k.startswith("kernel.")}
            self._map = KernelMap.from_arrays(header_value(header, "kernel", dict), own)
            if (self._map.kernel, self._map.n_features_in) != (self.kernel, self.n_features_in_):
                raise ModelFileError("its kernel is not the one that its parameters name")
        d = self.n_features_in_ if self._map is None else self._map.dimension
        model = PairModel(finite_array(arrays, "M", (d, d)), number_value(header, "threshold"), self._psd_steps)
        model.mass = number_value(header, "mass", least=0.0)
        model.radius = number_value(header, "radius", least=1.0)
        model.tuning = finite_array(arrays, "tuning", model.tuning.shape).copy()
        if model.psd == 1 and "R" in arrays:
            model.R = finite_array(arrays, "R", padded(d).shape).copy()
            if not model.tuning[SIGMA] > 0.0:
                raise ModelFileError("the shift of R should be positive")
        model.n_steps = self.n_steps_
        self._model = model


def _in_order(rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The distinct rows in order of appearance, and for each entry its place among them."""
    distinct, first, places = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[places]
