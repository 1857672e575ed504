"""What the online learners ask of a state, whatever matrix it holds and however it holds it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from mahala.compiled.jit import Steps as Steps
from mahala.metric import Metric
from mahala.support.states import Stateful


class State(Stateful, ABC):
    """A matrix that moves step by step.

    Comparisons pass through `prepare` and `chunks` once, then each chunk through `feed`. A chunk has an attribute `y`
    with the label of each of its steps. A rule holds the parameters of a step that may change between two steps.

    Whatever a model file holds, compiled code sees valid arrays only. Those that are read-only views of a file are
    copied before they are changed.
    """

    n_steps: int  # which a learner writes to model files, and sets before `set_state`

    def prepare(self, comparisons: Any, n_steps: int, complete: bool) -> Any:
        """Return the comparisons in the coordinates of the state; `complete` if they are all that `fit` takes."""
        return comparisons

    @abstractmethod
    def chunks(self, comparisons: Any, n_steps: int, rule: Any, stop_every: int | None) -> Iterator[Any]:
        """Yield the input of n_steps steps, through the comparisons in cycles, in chunks of bounded size.

        With `stop_every`, chunks end where the number of steps is a multiple of it.
        """

    @abstractmethod
    def feed(self, chunk: Any, rule: Any, steps: Steps) -> None:
        """Take the steps of a chunk and write what they did to `steps`."""

    def finish(self) -> None:
        """Leave the coordinates that `prepare` chose for all comparisons of a fit."""

    @abstractmethod
    def metric(self, **about: Any) -> Metric:
        """Return the state as a metric, with the feature names and the origin given in `about`."""

    def make_writable(self, *names: str) -> None:
        """Copy arrays that are read-only because the state was loaded as a memory map."""
        for name in names:
            array = getattr(self, name)
            if array is not None and not array.flags.writeable:
                setattr(self, name, array.copy())
