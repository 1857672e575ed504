"""Gains over the plain ranking in a stream, against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mahala_search.quality.gains import RunningGain


def running(values):
    gain = RunningGain()
    for value in values:
        gain.add(value)
    return gain


@given(st.lists(st.integers(-4, 6), min_size=1, max_size=60))
def test_running_gains_are_means_and_deviations(numbers):
    values = np.array(numbers) / 8.0
    gain = running(values)
    assert (gain.n, gain.mean) == (len(values), pytest.approx(values.mean(), abs=1e-15))
    assert gain.squares == pytest.approx(np.square(values - values.mean()).sum(), abs=1e-12)
    verdict = gain.verdict(0.25)
    assert (verdict.n, verdict.share, verdict.units) == (len(values), 0.25, "impressions")
    if len(values) < 20:
        assert (verdict.kind, verdict.p_value) == ("too early to tell", 1.0)
        assert verdict.low < 0.0 < verdict.high
        return
    error = stats.sem(values)
    assert (verdict.low, verdict.high) == pytest.approx((values.mean() - 1.96 * error, values.mean() + 1.96 * error))
    if error > 1e-12:
        assert verdict.p_value == pytest.approx(2.0 * stats.norm.sf(abs(values.mean()) / error))
        assert (verdict.p_value < 0.05) == (verdict.low > 0.0 or verdict.high < 0.0)
    if verdict.low > 0.0:
        assert verdict.kind == "shown to help"
    else:
        none = "too early to tell" if verdict.high > 0.01 else "does not help"
        assert verdict.kind == ("probably helps" if values.mean() > 1e-12 else none)


def test_equal_gains_are_certain_after_20_impressions():
    assert running([0.5] * 19).verdict().kind == "too early to tell"
    shown = running([0.5] * 20).verdict()
    assert (shown.kind, shown.low, shown.high, shown.p_value) == ("shown to help", 0.5, 0.5, 0.0)
    nothing = running([0.0] * 20).verdict()
    assert (nothing.kind, nothing.p_value) == ("does not help", 1.0)


def test_no_interval_is_beyond_what_is_possible():
    assert running([1.0] * 19 + [-1.0] * 20).verdict().kind == "too early to tell"  # a gain is not excluded
    assert running([-1.0] * 20 + [-0.9]).verdict().kind == "does not help"
    verdict = running([1.0] * 19 + [-1.0]).verdict()
    assert 0.5 < verdict.low < verdict.gain < verdict.high == 1.0


@pytest.mark.parametrize(("errors", "share"), [(-3.0, 0.0), (0.25, 0.0), (1.125, 0.5), (2.0, 1.0), (9.0, 1.0)])
def test_what_gains_is_used_as_far_as_the_gain_is_certain(errors, share):
    values = np.array([-1.0, 1.0] * 20)
    gain = running(values + errors * stats.sem(values))
    assert gain.share() == pytest.approx(share, abs=1e-9)
    assert running([1.0, 0.5] * 9).share() == running([0.5] * 30).share() == 0.0


def test_states_are_restored():
    gain, copy = running([0.1, 0.4, -0.2]), RunningGain()
    copy.set_state(*gain.get_state())
    assert vars(copy) == vars(gain)
    assert copy.verdict() == gain.verdict()
