"""Parameters that are declared by their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.support.parameters import (
    Count,
    NonNegative,
    Positive,
    Seed,
    Share,
    Where,
    between,
    check_params,
    is_count,
    is_number,
)


@dataclass
class Learner:
    rate: Literal["auto"] | Positive = "auto"
    penalty: NonNegative = 0.0
    share: Share | None = None
    steps: Count = 1
    random_state: Seed = None
    verbose: bool = False
    callback: Callable[[int], None] | None = None
    even: Annotated[int, Where(lambda value: value % 2 == 0, "an even number")] = 0
    start: Literal["zero", "one"] | np.ndarray = "zero"
    anything: Any = None


RIGHT = {
    "rate": ["auto", 1, 0.5, np.float32(2)],
    "penalty": [0, 3.5],
    "share": [None, 0, 1, 0.25],
    "steps": [1, np.int64(7)],
    "random_state": [None, 3, np.random.RandomState(0), np.random.default_rng(0)],
    "verbose": [True, np.False_],
    "callback": [None, print],
    "even": [4],
    "start": ["one", np.ones(2)],
    "anything": ["x", object()],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_right_values_pass(name, value):
    check_params(Learner(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rate", 0.0, "'auto' or a positive number"),
        ("rate", np.inf, "'auto' or a positive number"),
        ("rate", True, "'auto' or a positive number"),
        ("rate", np.array(["auto"]), "'auto' or a positive number"),
        ("penalty", -1, "a number of at least 0"),
        ("penalty", np.nan, "a number of at least 0"),
        ("penalty", "1", "a number of at least 0"),
        ("share", 1.5, "a number from 0 to 1 or None"),
        ("steps", 0, "an integer of at least 1"),
        ("steps", 2.0, "an integer of at least 1"),
        ("random_state", -1, "None, a non-negative int, RandomState or Generator"),
        ("verbose", 1, "True or False"),
        ("callback", 1, "a function or None"),
        ("even", 3, "an even number"),
        ("start", "two", "'zero', 'one' or a ndarray"),
    ],
)
def test_wrong_values_are_named(name, value, words):
    with pytest.raises(ValueError) as caught:
        check_params(Learner(**{name: value}))
    assert str(caught.value) == f"{name} must be {words}, got {value!r}"


@given(value=st.floats() | st.integers() | st.booleans() | st.text(max_size=3), low=st.floats(-9, 9))
def test_numbers_and_counts(value, low):
    number = isinstance(value, int | float) and not isinstance(value, bool)
    assert is_number(value) == number
    assert is_count(value) == (number and isinstance(value, int) and value >= 1)
    assert between(low)(value) == (number and low <= value < np.inf)
