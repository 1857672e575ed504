"""Parameters and settings that are declared by their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.support import parameters
from mahala.support.parameters import (
    Count,
    NonNegative,
    Positive,
    ReadableSignature,
    Seed,
    Share,
    Where,
    between,
    check_params,
    config_context,
    get_config,
    is_count,
    is_number,
    set_config,
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


def test_settings_hold_for_the_process_and_within_a_block(monkeypatch):
    monkeypatch.setattr(parameters, "_settings", dict(parameters._settings))
    set_config(n_threads=3)
    with config_context(n_threads=5, tf32=True), config_context(engine="cuda:1"):
        assert get_config() == {"engine": "cuda:1", "n_threads": 5, "tf32": True}
    assert get_config() == {"engine": None, "n_threads": 3, "tf32": False}
    with pytest.raises(KeyError), config_context(n_threads=1):
        raise KeyError
    assert get_config()["n_threads"] == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_threads": 0}, "n_threads must be an integer of at least 1 or None, got 0"),
        ({"engine": "gpu"}, "engine must be 'cpu', 'cuda', 'cuda:1' and so on, 'torch-cpu', or a Client of"),
        ({"tf32": 1}, "tf32 must be True or False, got 1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        set_config(**settings)
    with pytest.raises(ValueError, match=message), config_context(**settings):
        pass


def test_unknown_settings_are_named():
    with pytest.raises(TypeError, match="there is no setting 'threads'; the settings are engine, n_threads, tf32"):
        set_config(threads=2)


def test_a_signature_shows_types_without_their_conditions():
    hints = {
        "n": Count | None,
        "rate": Literal["auto", "fixed"] | Positive,
        "seed": Seed,
        "watch": Callable[[int], None],
    }
    fields = [*((name, hint, None) for name, hint in hints.items()), ("tol", NonNegative, 0.1)]
    kind = make_dataclass("Kind", [*fields, ("size", ClassVar, 3)], bases=(ReadableSignature,))
    shown = "(n: int | None = None, rate: str | float = None, seed: int | None = None, watch: Callable = None, tol=0.1)"
    assert str(inspect.signature(kind)) == shown
    check_params(kind(n=3, rate="auto", watch=print))
    with pytest.raises(ValueError, match="n must be an integer of at least 1 or None, got 0"):
        check_params(kind(n=0, rate=1.0, watch=print))
