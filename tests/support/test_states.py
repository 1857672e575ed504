from __future__ import annotations

import numpy as np
import pytest

from mahala.support.model_files import ModelFileError
from mahala.support.states import Array, Entry, Group, Integer, Number, prefixed, restore, to_parts, without_prefix


class Base:
    FIELDS = (Integer("n_"), Number("share", most=1.0), Array("weights", least=0.0))

    def __init__(self):
        self.n_, self.share, self.weights = 3, 0.5, np.array([0.0, 2.0])


class Derived(Base):
    FIELDS = (
        Group("limits", Number("low"), Entry("is_strict")),
        Array("rest", optional=True, dtype=np.int64, shape=lambda state: (None, state.n_)),
        Number("_tuned", optional=True),
    )

    def __init__(self):
        super().__init__()
        self.limits, self.rest = (1.0, True), None


@pytest.mark.parametrize("rest", [None, np.arange(6).reshape(2, 3)])
def test_what_is_written_is_restored(rest):
    state = Derived()
    state.n_, state.limits, state.rest, state.weights = 3, (-2.0, False), rest, np.array([1.0, 5.0])
    header, arrays = to_parts(state)
    assert header == {"n": 3, "share": 0.5, "low": -2.0, "is_strict": False}
    other = Derived()
    other.rest = np.zeros((9, 9))
    restore(other, header, arrays)
    assert (other.n_, other.limits, hasattr(other, "_tuned")) == (3, (-2.0, False), False)
    np.testing.assert_array_equal(other.weights, [1.0, 5.0])
    assert other.rest is rest  # what a file does not hold is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n", -1),
        ("n", 1.5),
        ("share", 1.1),
        ("share", np.nan),
        ("share", None),
        ("low", "low"),
        ("is_strict", 1),
        ("tuned", "high"),
        ("weights", np.zeros(3)),
        ("weights", np.zeros(2, dtype=np.float32)),
        ("weights", np.array([1.0, np.inf])),
        ("weights", np.array([1.0, -1e-9])),
        ("rest", np.zeros((2, 4), dtype=np.int64)),
        ("rest", np.zeros((2, 3))),
    ],
)
def test_what_cannot_have_been_written_is_refused(key, value):
    header, arrays = to_parts(Derived())
    parts = arrays if isinstance(value, np.ndarray) else header
    parts[key] = value
    with pytest.raises(ModelFileError, match=f"'{key}'"):
        restore(Derived(), header, arrays)


@pytest.mark.parametrize("key", ["n", "share", "low", "is_strict", "weights"])
def test_what_is_missing_is_named(key):
    header, arrays = to_parts(Derived())
    header.pop(key, None)
    arrays.pop(key, None)
    with pytest.raises(ModelFileError, match=f"'{key}'"):
        restore(Derived(), header, arrays)


def test_prefixes():
    arrays = {"M": np.zeros(1), "kernel.X": np.ones(1)}
    assert without_prefix("model", prefixed("model", arrays) | {"history.M": np.zeros(2)}) == arrays
