"""Columns that give the label away, alone and together."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.datasets

from mahala.data.leaks import joint_leak, possible_leaks


def test_leaks():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = np.column_stack([rng.normal(size=300), y + 0.01 * rng.normal(size=300), np.eye(3)[y], y + rng.normal(size=300)])
    groups = {"noise": [0], "copy": [1], "code": [2, 3, 4], "weak": [5]}
    assert possible_leaks(X, y, groups) == ["copy", "code"]
    assert possible_leaks(X[:20], y[:20], groups) == []
    assert possible_leaks(X, np.zeros(300), groups) == []
    # A tree of twelve leaves fits these runs of classes, but does not predict them.
    assert possible_leaks(np.arange(36.0)[:, np.newaxis], np.repeat([0, 1, 2] * 4, 3), {"runs": [0]}) == []


CODES = {
    "intervals": lambda rng: (values := rng.normal(size=400), np.digitize(values, np.linspace(-1.5, 1.5, 7)) % 2),
    "codes": lambda rng: (values := rng.integers(0, 40, 400), rng.integers(0, 3, 40)[values]),
    "last digit": lambda rng: (values := rng.permutation(400), values % 10 // 4),
}


@pytest.mark.parametrize("kind", CODES)
def test_columns_that_encode_the_class(kind):
    values, y = CODES[kind](np.random.default_rng(0))
    X = np.column_stack([values, np.random.default_rng(1).permutation(values)])
    assert possible_leaks(X, y, {"coded": [0], "shuffled": [1]}) == ["coded"]


FUNCTIONS = {
    "mean": lambda a, b: (a + b) / 2.0,
    "product": np.multiply,
    "ratio": np.divide,
    "larger": np.maximum,
    "length": np.hypot,
}


def columns(n, seed=0):
    """Five columns of positive numbers in different units, and the names of their features."""
    X = np.random.default_rng(seed).gamma(4.0, size=(n, 5)) * [1.0, 20.0, 20.0, 0.1, 1.0]
    return X, {name: [j] for j, name in enumerate("abcde")}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_that_are_a_function_of_two_columns(function):
    X, groups = columns(60)
    y = FUNCTIONS[function](X[:, 1], X[:, 2])
    assert joint_leak(X, y, groups, numbers=True) == ["b", "c"]
    noisy = y + 0.05 * y.std() * np.random.default_rng(1).normal(size=60)
    assert joint_leak(X, noisy, groups, numbers=True) == []


def test_numbers_that_are_a_sum_of_columns():
    X, groups = columns(60)
    assert joint_leak(X, X[:, [0, 3, 4]] @ [2.0, 30.0, 1.0], groups, numbers=True) == ["a", "d", "e"]
    assert joint_leak(X, X[:, 0] * X[:, 1] ** 2 / X[:, 4], groups, numbers=True) == ["a", "b", "e"]
    assert joint_leak(X, 2.54 * X[:, 0], groups, numbers=True) == []  # one column alone is another caution
    assert joint_leak(X[:20], X[:20, :2].sum(axis=1), groups, numbers=True) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_classes_that_are_a_function_of_two_columns(function):
    X, groups = columns(300)
    values = FUNCTIONS[function](X[:, 1], X[:, 2])
    assert joint_leak(X, values > np.median(values), groups, numbers=False) == ["b", "c"]
    some = np.random.default_rng(1).random(300) < 0.05
    assert joint_leak(X, (values > np.median(values)) ^ some, groups, numbers=False) == []


def test_classes_that_are_boxes_of_two_columns():
    X, groups = columns(300)
    assert joint_leak(X, (X[:, 1] > 70) & (X[:, 3] > 0.3), groups, numbers=False) == ["b", "d"]


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_lie_apart_are_no_leak(seed):
    """Such as species, which two measurements tell apart."""
    X, groups = columns(200, seed)
    y = np.arange(200) % 2
    X[:, 1] = X[:, 0] * (1.0 + y) + 1.0 * y + 0.1 * X[:, 2] / 20.0
    assert joint_leak(X, y, groups, numbers=False) == []


OF_THREE = {
    "sign of a sum": lambda a, b, c: a + 0.5 * b + c > 0.0,
    "bins of a sum": lambda a, b, c: np.digitize(a + b + c, [-1.0, 1.0]),
    "largest": lambda a, b, c: np.argmax([a, b, c], axis=0),
    "length": lambda a, b, c: a**2 + b**2 + c**2 > 2.4,
    "tree": lambda a, b, c: np.where(a > 0.0, b > 0.0, c > 0.0),
}
OF_MARKS = {
    "odd": lambda a, b, c: (a + b + c) % 2,
    "two odd": lambda a, b, c: (a + c) % 2,
    "most": lambda a, b, c: a + b + c > 1,
    "all": lambda a, b, c: a * b * c,
}


@pytest.mark.parametrize(
    ("function", "marks"), [*((name, False) for name in OF_THREE), *((name, True) for name in OF_MARKS)]
)
def test_classes_that_are_a_function_of_three_columns(function, marks):
    X = np.random.default_rng(0).normal(size=(600, 6))
    X = (X > 0.0).astype(float) if marks else X
    y = (OF_MARKS if marks else OF_THREE)[function](X[:, 1], X[:, 2], X[:, 4])
    names = {"a": [0], "b": [1], "c": [2], "d": [3], "e": [4], "f": [5]}
    assert joint_leak(X, y, names, numbers=False) == (["b", "e"] if function == "two odd" else ["b", "c", "e"])
    some = np.random.default_rng(1).permutation(600) < 30
    assert joint_leak(X, np.where(some, np.roll(y, 1), y), names, numbers=False) == []


def test_of_many_columns_not_all_sets_are_tried():
    X = (np.random.default_rng(0).normal(size=(200, 2000)) > 0.0).astype(float)
    names = {str(j): [j] for j in range(2000)}
    assert joint_leak(X, X[:, 0] != X[:, 1], names, numbers=False) == []


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_clean_tables_have_no_leak(name):
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    groups = {f"x{j}": [j] for j in range(X.shape[1])}
    assert possible_leaks(X, y, groups) == []
    assert joint_leak(X, y, groups, numbers=False) == []


def test_noise_is_no_leak():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, groups = columns(40, seed)
        assert joint_leak(X, rng.normal(size=40), groups, numbers=True) == []
        assert joint_leak(X, rng.integers(0, 2, 40), groups, numbers=False) == []
