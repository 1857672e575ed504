"""The plan of a comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas
import pytest

from mahala import LDA, MLKR, NCA, NeighborClassifier
from mahala.evaluation.cross_validation.plan import Key, Plan, check_groups, check_times, target_of
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import parts_of

PARTS = [(np.array([0, 1]), np.array([2])), (np.array([1, 2]), np.array([0])), (np.array([0, 2]), np.array([1]))]
PLAN = Plan(
    X=np.array([[0.5, 0.0, 3.0], [0.0, 1.0, 2.0], [2.0, 1.0, 5.0]]), target=target_of(["a", "b", "b"], 3, False),
    rows=np.arange(3), n_rows=3, parts=PARTS, counts=np.array([1]), groups=None, measure="error",
    settings=Settings(folds=3, repeats=1, n_neighbors=1), learners={"a": LDA()},
)  # fmt: skip


def with_settings(**settings):
    return replace(PLAN, settings=replace(PLAN.settings, **settings))


def test_the_digest_depends_on_all():
    changed = [
        {"X": 2 * PLAN.X},
        {"X": PLAN.X.astype(np.float32)},
        {"target": target_of(["b", "b", "a"], 3, False)},
        {"target": target_of([1.0, 2.0, 2.0], 3, True)},
        {"parts": PARTS[::-1]},
        {"learners": {"b": LDA()}},
        {"learners": {"a": LDA(shrinkage=0.5)}},
        {"learners": {"a": NCA()}},
        {"measure": "f1"},
        {"predictors": {"NeighborClassifier": NeighborClassifier()}},
        {"predictors": {"NeighborClassifier": NeighborClassifier(trees=False)}},
    ]
    settings = [{"folds": 2}, {"scaling": "none"}, {"budget": 1.0}, {"n_neighbors": 2}, {"n_neighbors": None}]
    digests = {replace(PLAN, **values).digest() for values in ({}, *changed)}
    digests |= {with_settings(**values).digest() for values in settings}
    assert len(digests) == 1 + len(changed) + len(settings)
    assert with_settings(baselines=False).digest() in digests  # the same cells
    assert replace(PLAN, X=PLAN.X.copy(), learners={"a": LDA()}).digest() in digests


def test_plain_distances_are_those_that_differ():
    """Of raw features, of scaled ones if that changes distances, and of all scaled if some features are 0/1."""
    numbers = PLAN.X[:, [0, 2]]
    assert PLAN.plain == ["Euclidean", "Euclidean, scaled", "Euclidean, all scaled"]
    assert PLAN.scalings[:2] == ("numbers", "standard")
    assert replace(PLAN, X=numbers).plain == ["Euclidean", "Euclidean, scaled"]
    assert replace(PLAN, X=numbers).scalings[0] == "standard"
    assert replace(PLAN, X=np.repeat(numbers[:, :1], 2, axis=1)).plain == ["Euclidean"]
    assert replace(PLAN, X=np.array([[0.0, 7.0]] * 3)).plain == ["Euclidean"]
    assert replace(PLAN, X=np.eye(3)).scalings[0] == "standard"
    assert with_settings(scaling="none").plain == ["Euclidean"]
    assert with_settings(scaling="standard").plain == ["Euclidean", "Euclidean, scaled"]


def test_models_are_measured_on_the_parts_of_the_candidates():
    """Part by part in the first repetition, so that what ends early has both on the same rows."""
    plan = replace(PLAN, models=["gradient boosting"], baselines=["PCA"], parts=2 * PARTS)
    assert plan.candidates == [*plan.plain, "a"]
    context = ["PCA", "gradient boosting"]
    assert plan.keys[:18] == [Key(name, part) for part in range(3) for name in (*context, *plan.candidates)]
    assert plan.keys[18:] == [Key(name, part) for part in range(3, 6) for name in plan.candidates]


@pytest.mark.parametrize("repeats", [1, 3])
def test_repetitions_test_each_row_once(repeats):
    target = target_of(np.arange(12) % 2, 12, False)
    groups = np.arange(12) // 3
    for by in (None, groups):
        parts = parts_of(target.codes, 3, repeats, 0, by)
        plan = replace(PLAN, X=np.zeros((12, 2)), target=target, parts=parts)
        assert [part for repetition in plan.repetitions for part in repetition] == list(range(len(parts)))
        assert len(plan.repetitions) == repeats
        for repetition in plan.repetitions:
            tested = np.concatenate([parts[part][1] for part in repetition])
            assert sorted(tested.tolist()) == list(range(12))


def test_targets():
    classes = target_of(np.array(["x", "y", "x"], dtype=object), 3, None)
    assert (classes.classes, classes.codes.tolist(), classes.is_number) == (("x", "y"), [0, 1, 0], False)
    numbers = np.random.default_rng(0).normal(5.0, 3.0, size=80)
    target = target_of(numbers, 80, None)
    assert target.is_number
    assert target.unit == pytest.approx(numbers.std())
    np.testing.assert_allclose(target.values * target.unit + numbers.mean(), numbers)
    np.testing.assert_array_equal(np.bincount(target.codes), [20, 20, 20, 20])
    assert numbers[target.codes == target.codes[numbers.argmax()]].min() > np.median(numbers)
    some = target.select(np.array([3, 5]))
    np.testing.assert_array_equal(some.of(MLKR()), target.values[[3, 5]])
    np.testing.assert_array_equal(some.of(LDA()), target.codes[[3, 5]])
    assert not target_of(np.arange(80) % 3, 80, None).is_number
    assert target_of(np.arange(80) % 3, 80, True).is_number


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "b", "c"], "y must be finite numbers for the metric 'r2', got 'a'"),
        ([1.0, 1.0, 1.0], "at least two different values, got only 1"),
    ],
)
def test_targets_that_are_no_numbers(y, message):
    with pytest.raises(ValueError, match=message):
        target_of(y, 3, True)


def test_groups():
    assert check_groups(None, 3) is None
    assert check_groups(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert check_groups(np.array(["b", 2, "b"], dtype=object), 3).tolist() == [1, 0, 1]
    assert check_groups([10, 20, 10], 3).tolist() == [0, 1, 0]
    for wrong, message in ((["a", "a"], "at least two different values, got only 'a'"), (["a"], "groups must be 1-D")):
        with pytest.raises(ValueError, match=message):
            check_groups(wrong, 2)


def test_times():
    assert check_times(None, 3) is None
    days = np.array(["2024-01-03", "2024-01-01", "2024-02-01"], dtype="datetime64[D]")
    for dates in (days, days.astype("datetime64[ns]"), pandas.Series(days), days.tolist()):
        assert np.argsort(check_times(dates, 3)).tolist() == [1, 0, 2]
    assert check_times([3, 1, 2], 3).tolist() == [3.0, 1.0, 2.0]
    for wrong, message in (
        (["a", "b"], "times must be numbers or dates, got .*'a'"),
        ([1.0], "times must have one value for each of the 2 rows"),
        ([1.0, np.nan], "times must have no missing values"),
        (np.array(["NaT", "2024-01-01"], dtype="datetime64[D]"), "times must have no missing values"),
    ):
        with pytest.raises(ValueError, match=message):
            check_times(wrong, 2)
