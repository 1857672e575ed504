"""Intervals, tests and choices from the cells of a comparison."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from mahala.evaluation.entries import best_column, chosen_neighbors, context, corrected_t, detectable, entries
from mahala.evaluation.measuring import Cell
from mahala.evaluation.statistics import holm


def plain_corrected_t(differences, n_train, n_test):
    """Nadeau and Bengio (2003), section 3: t = mean / sqrt((1/J + n2/n1) s²)."""
    J = len(differences)
    mean = sum(differences) / J
    variance = sum((x - mean) ** 2 for x in differences) / (J - 1)
    error = ((1 / J + n_test / n_train) * variance) ** 0.5
    half = stats.t.interval(0.95, J - 1)[1] * error
    return mean, mean - half, mean + half, 2 * (1 - stats.t.cdf(abs(mean / error), J - 1))


@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=20).filter(lambda v: np.std(v) > 0.02), st.integers(2, 10))
def test_corrected_t_is_the_papers(values, folds):
    ours = corrected_t(np.array(values), folds, 0.01)
    mean, low, high, p = plain_corrected_t(values, folds - 1.0, 1.0)
    np.testing.assert_allclose(
        (ours.mean, ours.low, ours.high, ours.p_value), (mean, low, high, p), rtol=1e-9, atol=1e-12
    )


def test_equal_differences_are_not_certain():
    """Two parts that differ by one row each prove nothing, though they vary by nothing."""
    mean, _, low, high, p = corrected_t(np.array([0.1, 0.1]), 2, 0.1)
    assert low < mean < high
    assert p > 0.05
    assert corrected_t(np.zeros(10), 5, 0.1).p_value == 1.0


def test_rounding_is_no_difference():
    ours, theirs = np.array([7, 1, 2, 2, 2, 7]) / 3, np.array([2, 7, 7, 2, 1, 2]) / 3
    assert (ours - theirs).mean() > 0.0
    mean, _, low, high, p_value = corrected_t(ours - theirs, 2, 0.1)
    assert (mean, low, p_value) == (0.0, -high, 1.0)


def test_one_value_has_no_interval():
    mean, *others = corrected_t(np.array([0.2]), 5, 0.01)
    assert mean == 0.2
    assert all(math.isnan(other) for other in others)


@given(
    st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=20).filter(lambda v: np.std(v) > 0.001),
    st.integers(2, 10),
    st.lists(st.floats(0.2, 1.0), min_size=0, max_size=9),
)
def test_the_smallest_difference_is_where_the_adjusted_p_value_crosses(values, folds, others):
    """Shift the differences, which keeps their deviation, until Holm's p-value is 0.05 beside larger ones."""
    centred = np.array(values) - np.mean(values)

    def excess(shift):
        p = corrected_t(centred + shift, folds, 1e-9).p_value
        return float(holm([p, *others])[0]) - 0.05

    slow = brentq(excess, 1e-6, 100.0, xtol=1e-14, rtol=1e-12)
    ours = detectable(corrected_t(centred, folds, 1e-9).error, len(values), 1 + len(others))
    assert ours == pytest.approx(slow, rel=1e-6)


def slow_choice(losses, repetitions):
    """The same choice, one loop after the other."""
    chosen = []
    for part in range(len(losses)):
        own = [q for q in range(len(losses)) if q != part and repetitions[q] == repetitions[part]]
        usual = min(2, losses.shape[1] - 1)
        if len(own) < 2:
            chosen.append(usual)
            continue
        means = [sum(losses[q][k] for q in own) / len(own) for k in range(losses.shape[1])]
        best = min(range(len(means)), key=lambda k: round(means[k], 12))
        gains = [losses[q][usual] - losses[q][best] for q in own]
        middle = sum(gains) / len(gains)
        error = (sum((g - middle) ** 2 for g in gains) / (len(gains) - 1) / len(gains)) ** 0.5
        chosen.append(best if round(middle - error, 12) > 0 else usual)
    return chosen


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_neighbours_are_chosen_by_the_other_parts_of_the_repetition(repeats, folds, n_counts, seed):
    losses = np.random.default_rng(seed).integers(0, 50, size=(repeats * folds, n_counts)) / 7.0
    repetitions = np.repeat(np.arange(repeats), folds)
    chosen = chosen_neighbors(losses, repetitions, None)
    assert chosen.tolist() == slow_choice(losses, repetitions)
    changed = losses.copy()
    changed[0] = changed[0, ::-1] + 1.0
    assert chosen_neighbors(changed, repetitions, None)[0] == chosen[0]
    assert (chosen_neighbors(losses, repetitions, 0) == 0).all()


def test_a_small_gain_does_not_change_the_number_of_neighbours():
    noisy = np.array([[0.10, 0.2, 0.2], [0.30, 0.2, 0.2], [0.19, 0.2, 0.2]])
    assert best_column(noisy) == 2
    assert best_column(noisy - [0.1, 0.0, 0.0]) == 0
    # A gain in one of two parts is exactly one standard error, whatever rounding says.
    assert all(best_column(np.array([[0.0, a, a], [0.0, 0.0, 0.0]])) == 2 for a in np.arange(1, 200) / 7)


def cell(losses, **others):
    values = np.asarray(losses, dtype=float)
    return Cell(values, values / 2, values / 4, 0.5, **({"scaling": "standard"} | others))


def test_entries_have_what_was_measured():
    cells = {
        "Euclidean": [cell([0.2, 0.3], scaling="none")] * 4,
        "one": [cell([0.1, 0.2], scaling=how, stopped=how == "none") for how in ("none", "minmax", "minmax", "robust")],
        "broken": [cell([]), cell([], failure="no luck"), cell([]), cell([])],
    }
    found = entries(cells, {"one", "broken"}, repetitions=np.zeros(4), at=0, folds=4, step=0.01)
    assert [entry.name for entry in found] == ["one", "Euclidean", "broken"]
    one, plain, broken = found
    assert (one.error, one.plain_error, one.balanced_error) == (0.1, 0.05, 0.025)
    assert (one.scaling, one.stopped, one.n_neighbors) == ("minmax", 1, 1)
    assert one.detectable == pytest.approx(detectable(corrected_t(np.full(4, -0.1), 4, 0.01).error, 4, 1))
    assert math.isnan(plain.detectable)
    assert broken.failure == "no luck"
    [boosting] = context({"boosting": cells["one"]}, 1)
    assert (boosting.error, boosting.plain_error, boosting.stopped) == (0.2, 0.1, 1)
    assert context({"boosting": cells["broken"]}, 1)[0].failure == "no luck"


def test_one_part_has_no_test():
    cells = {"Euclidean": [cell([0.2])], "one": [cell([0.1])]}
    one, plain = entries(cells, {"one"}, repetitions=np.zeros(1), at=None, folds=4, step=0.01)
    assert (one.error, one.difference, plain.difference) == (0.1, -0.1, 0.0)
    assert math.isnan(one.p_value)
    assert math.isnan(one.high)
    assert not one.beats_euclidean
