"""The judge against plain loops, exact counts of signs, and SciPy."""

from __future__ import annotations

from itertools import product
from math import fsum, inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mahala import judge as judge_module
from mahala.judge import Verdict, choose, judge, lower_bounds, mean_interval, paired_test
from strategies import examples

NAMES = {"measure": "3-NN error", "units": "rows"}
SEEDS = st.integers(0, 2**32 - 1)


def slow_error(gains, groups):
    """The standard error of a mean: deviations are summed in each group, and the sums are independent."""
    mean = fsum(gains) / len(gains)
    sums = {}
    for gain, group in zip(gains, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + gain - mean
    n = len(sums)
    return sqrt(fsum(value**2 for value in sums.values()) * n / (n - 1)) / len(gains) if n > 1 else inf


def slow_bounds(gains, groups):
    return [fsum(column) / len(column) - 1.64 * slow_error(column, groups) for column in gains.T.tolist()]


def slow_choice(gains, groups):
    if len(gains) < 2:
        return 0
    bounds = slow_bounds(gains, groups)
    best = max(range(len(bounds)), key=lambda candidate: bounds[candidate])
    return best if bounds[best] > 1e-12 else 0


def slow_learned_choice(gains, groups):
    """The learned candidate with the largest lower bound, even if that is not above 0."""
    bounds = slow_bounds(gains, groups)
    return max(range(1, len(bounds)), key=lambda candidate: bounds[candidate])


def slow_judge(values, folds, groups):
    """The chosen candidate, and the gain of the choice by (repeat, unit), one loop after the other."""
    n_repeats, n, n_candidates = values.shape
    gains = [
        [[values[r, i, c] - values[r, i, 0] for c in range(n_candidates)] for i in range(n)] for r in range(n_repeats)
    ]
    means = np.array(
        [[fsum(gains[r][i][c] for r in range(n_repeats)) / n_repeats for c in range(n_candidates)] for i in range(n)]
    )
    honest = np.empty((n_repeats, n))
    for r in range(n_repeats):
        for i in range(n):
            others = [j for j in range(n) if folds[r, j] != folds[r, i]]
            honest[r, i] = gains[r][i][slow_learned_choice(means[others], [groups[j] for j in others])]
    return slow_choice(means, groups), honest


def exact_p_value(gains, groups, error):
    """The share of all assignments of signs to groups with a sum as far from 0, and not below that of Student's t."""
    sums = {}
    for gain, group in zip(gains, groups, strict=True):
        sums[group] = sums.get(group, 0.0) + gain
    sums = np.array([value for value in sums.values() if value])
    signs = np.array(list(product((-1, 1), repeat=len(sums)))).reshape(-1, len(sums))
    flipped = np.mean(np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9 * np.abs(sums).sum())
    freedom = len(set(groups)) - 1
    by_t = 2.0 * stats.t.sf(abs(fsum(gains) / len(gains)) / error, freedom) if error else 0.0
    # Where all signs give a sum as far from 0, Student's t alone counts.
    return by_t if flipped == 1.0 else max(flipped, by_t)


def draws(p_value):
    """Five standard errors of a share of 9,999 draws."""
    return 2e-4 + 5.0 * sqrt(max(p_value * (1.0 - p_value), 0.0) / 9_999)


@st.composite
def judged(draw, most_repeats=3):
    """Values of candidates on units, the folds of the units, and their groups, each in one fold."""
    n_repeats, n_candidates = draw(st.integers(1, most_repeats)), draw(st.integers(2, 5))
    n_groups, folds = draw(st.integers(2, 12)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(SEEDS))
    sizes = rng.integers(1, 4, n_groups) if draw(st.booleans()) else np.ones(n_groups, dtype=int)
    groups = np.repeat(np.arange(n_groups), sizes)
    of_group = np.array([rng.permutation(np.arange(n_groups) % folds) for _ in range(n_repeats)])
    effects = rng.normal(0.4, 0.6, n_candidates) * draw(st.sampled_from([0.0, 1.0]))
    values = rng.normal(size=(n_repeats, len(groups), n_candidates)) + effects
    return values, of_group[:, groups], groups


@given(judged(), st.booleans())
def test_bounds_and_choices_are_those_of_a_plain_loop(case, grouped):
    values, _, groups = case
    gains = values[0] - values[0, :, :1]
    groups = groups if grouped else np.arange(len(groups))
    np.testing.assert_allclose(lower_bounds(gains, groups), slow_bounds(gains, groups), rtol=1e-9, atol=1e-12)
    assert choose(gains, groups) == slow_choice(gains, groups)
    if not grouped:
        np.testing.assert_allclose(lower_bounds(gains), lower_bounds(gains, groups), rtol=1e-9, atol=1e-12)


@examples(30)
@given(judged())
def test_the_judge_is_the_plain_loop(case):
    values, folds, groups = case
    alone = len(np.unique(groups)) == len(groups)
    decision = judge(values, folds, groups=None if alone else groups, **NAMES)
    chosen, honest = slow_judge(values, folds, groups)
    gain = honest.mean()
    verdict = decision.verdict
    assert verdict.gain == pytest.approx(gain, abs=1e-12)
    np.testing.assert_allclose(decision.values, values[:, :, 0].mean(axis=0) + honest.mean(axis=0), atol=1e-12)
    n = len(np.unique(groups))
    keeps = chosen and gain > 0.0 and n >= 5
    assert decision.chosen == (chosen if keeps else 0)
    assert (verdict.n, verdict.repeats) == (n, len(values))
    assert verdict.wins == sum(row.mean() > 0.0 for row in honest)
    if n < 5:
        assert verdict.kind == "too early to tell"
    elif not keeps:
        assert verdict.kind == "does not help"
    else:
        assert verdict.kind == ("shown to help" if verdict.low > 0.0 else "probably helps")
    assert verdict.helps == bool(keeps)


@given(judged(), SEEDS)
def test_the_choice_for_a_fold_is_made_without_it(case, seed):
    """Whatever the values of a fold are, the other folds choose the same candidate for it."""
    values, folds, groups = case
    values, folds = values[:1], folds[:1]
    fold = folds[0] == folds[0, 0]
    changed = values.copy()
    changed[0, fold] = np.random.default_rng(seed).normal(size=(fold.sum(), values.shape[2])) * 100.0
    candidate = slow_learned_choice(values[0, ~fold] - values[0, ~fold, :1], groups[~fold])
    for given_values in (values, changed):
        decision = judge(given_values, folds, groups=groups, **NAMES)
        np.testing.assert_allclose(decision.values[fold], given_values[0, fold, candidate], rtol=1e-9, atol=1e-9)


def test_noise_that_looks_good_is_not_kept():
    """Of 40 random candidates the best one on all folds has a lower bound above 0, and what the folds choose loses."""
    kept = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values = np.concatenate([np.zeros((1, 30, 1)), rng.normal(size=(1, 30, 40))], axis=2)
        decision = judge(values, np.arange(30)[np.newaxis] % 5, **NAMES)
        if choose(values[0]) and not decision.verdict.gain > 0.0:
            kept.append(decision.chosen)
            assert decision.verdict.kind == "does not help"
            assert not decision.verdict.helps
    assert len(kept) > 5
    assert set(kept) == {0}


def test_a_true_gain_is_shown_and_noise_is_not():
    """Of 100 tables of noise, fewer than 10 are said to gain, which would be three standard errors above 5."""
    folds = np.stack([np.random.default_rng(repeat).permutation(60) % 5 for repeat in range(2)])
    shown = {0.0: 0, 1.0: 0}
    for effect in shown:
        for seed in range(20 if effect else 100):
            rng = np.random.default_rng(seed)
            values = np.zeros((2, 60, 7))
            values[:, :, 1:] = rng.normal(size=(60, 6)) + 0.3 * rng.normal(size=(2, 60, 6))
            values[:, :, 3] += effect
            shown[effect] += judge(values, folds, **NAMES).verdict.kind == "shown to help"
    assert shown[0.0] < 10
    assert shown[1.0] == 20


@pytest.mark.parametrize("n_groups", [4, 5])
def test_fewer_than_five_units_tell_nothing(n_groups):
    kind = "too early to tell" if n_groups < 5 else "probably helps"
    values = np.zeros((1, n_groups * 20, 2))
    values[:, :, 1] = 1.0 + 0.01 * np.random.default_rng(0).normal(size=n_groups * 20)
    groups = np.repeat(np.arange(n_groups), 20)
    decision = judge(values, groups[np.newaxis] % 2, groups=groups, **NAMES)
    assert (decision.verdict.kind, decision.verdict.n) == (kind, n_groups)
    assert decision.chosen == (n_groups >= 5)
    rows = judge(values[:, :n_groups], np.arange(n_groups)[np.newaxis] % 2, **NAMES)
    assert (rows.verdict.kind, rows.verdict.n) == (kind, n_groups)
    assert judge(values, groups[np.newaxis] % 2, **NAMES).verdict.kind == "shown to help"


def test_rows_of_a_group_count_once():
    """Copies of the rows change neither the gain nor the interval, if they are of one group."""
    rng = np.random.default_rng(0)
    gains = rng.normal(0.3, 1.0, 30)
    copied, groups = np.repeat(gains, 4), np.repeat(np.arange(30), 4)
    np.testing.assert_allclose(paired_test(copied, groups), paired_test(gains), rtol=1e-9)
    np.testing.assert_allclose(mean_interval(copied, groups), mean_interval(gains), rtol=1e-9)
    assert paired_test(copied)[3] < paired_test(gains)[3]


@given(st.lists(st.sampled_from([-1, 0, 0, 1, 1]), min_size=2, max_size=60), st.integers(1, 4))
def test_wins_and_losses_are_a_sign_test(signs, size):
    gains = np.array(signs, dtype=float)
    wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
    mean, _, _, p_value = paired_test(size * gains)
    assert mean == pytest.approx(size * gains.mean())
    if not wins + losses:
        assert p_value == 1.0
        return
    by_t = stats.ttest_1samp(gains, 0.0).pvalue if gains.std() else 0.0
    by_signs = stats.binomtest(wins, wins + losses).pvalue
    expected = by_t if by_signs > 1.0 - 1e-9 else max(by_signs, by_t)
    assert p_value == pytest.approx(expected, abs=draws(expected))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 7)), min_size=2, max_size=24), st.booleans())
def test_p_values_of_groups_count_all_signs(units, grouped):
    gains = np.array([gain for gain, _ in units], dtype=float)
    groups = np.array([group for _, group in units]) if grouped else np.arange(len(units))
    if not grouped:
        gains, groups = gains[:10], groups[:10]
    if len(np.unique(groups)) < 2 or not gains.any():
        assert paired_test(gains, groups)[3] == 1.0
        return
    mean, low, high, p_value = paired_test(gains, groups if grouped else None)
    expected = exact_p_value(gains.tolist(), groups.tolist(), slow_error(gains.tolist(), groups.tolist()))
    assert p_value == pytest.approx(expected, abs=draws(expected))
    assert low <= mean <= high
    assert mean - low == pytest.approx(high - mean)


@examples(100)
@given(
    st.lists(st.integers(-6, 10), min_size=4, max_size=30),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([19, 39, 9_999]),
)
def test_intervals_and_p_values_agree(gains, size, overlap, flips):
    """Also with so few draws of signs that p-values are often close to 0.05; exactly there, rounding decides."""
    gains = np.array(gains) / 7.0
    groups = None if size == 1 else np.arange(len(gains)) // size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_module, "_FLIPS", flips)
        mean, low, high, p_value = paired_test(gains, groups, overlap=overlap)
    if abs(p_value - 0.05) > 1e-9:
        assert (p_value < 0.05) == (low > 0.0 or high < 0.0)
    assert 0.0 <= p_value <= 1.0
    assert low <= mean <= high


def plain_corrected_t(differences, n_train, n_test):
    """Nadeau and Bengio (2003), section 3: t = mean / sqrt((1/J + n2/n1) s²)."""
    J = len(differences)
    mean = sum(differences) / J
    variance = sum((x - mean) ** 2 for x in differences) / (J - 1)
    error = ((1 / J + n_test / n_train) * variance) ** 0.5
    half = stats.t.interval(0.95, J - 1)[1] * error
    return mean, mean - half, mean + half, 2 * stats.t.sf(abs(mean / error), J - 1)


@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=8).filter(lambda v: np.std(v) > 0.02), st.integers(2, 10))
def test_of_whole_test_parts_the_test_is_the_corrected_one(values, folds):
    """Unless random signs have a larger p-value."""
    mean, low, high, p_value = plain_corrected_t(values, folds - 1.0, 1.0)
    found = paired_test(np.array(values), overlap=1.0 / (folds - 1))
    signs = exact_p_value(values, range(len(values)), 0.0)
    spread = draws(signs)
    if signs < p_value - spread:
        np.testing.assert_allclose(found, (mean, low, high, p_value), rtol=1e-9, atol=1e-12)
    else:
        assert found[3] == pytest.approx(max(signs, p_value), abs=spread)
        assert found[0] == pytest.approx(mean, abs=1e-15)
        assert found[1] <= low + 1e-9
        assert found[2] >= high - 1e-9


def test_of_many_units_the_test_is_students():
    gains = np.random.default_rng(0).normal(0.1, 1.0, 500)
    expected = stats.ttest_1samp(gains, 0.0)
    ends = expected.confidence_interval(0.95)
    np.testing.assert_allclose(paired_test(gains), (gains.mean(), ends.low, ends.high, expected.pvalue), rtol=1e-9)
    np.testing.assert_allclose(mean_interval(gains), (ends.low, ends.high), rtol=1e-9)
    same = paired_test(np.full(500, 0.5))
    assert same == (0.5, 0.5, 0.5, 0.0)


def test_one_unit_has_no_interval():
    assert np.isnan(mean_interval(np.array([0.2]))).all()
    assert np.isnan(mean_interval(np.array([0.2, 0.1]), np.zeros(2, dtype=int))).all()
    for gains, groups in ((np.array([0.2]), None), (np.array([0.2, 0.2]), np.zeros(2, dtype=int))):
        mean, low, high, p_value = paired_test(gains, groups)
        assert (mean, p_value) == (0.2, 1.0)
        assert not low > 0.0  # the interval says no more than the p-value
        assert not high < 0.0
    assert choose(np.ones((1, 2))) == 0


def test_equal_gains_of_few_units_are_not_certain():
    """Two units that gain the same prove nothing, though they vary by nothing."""
    mean, low, high, p_value = paired_test(np.array([0.1, 0.1]))
    assert low < 0.0 < mean < high
    assert p_value > 0.05


def test_rounding_is_no_gain():
    values = np.stack([np.full(20, 0.3), np.full(20, 0.1 + 0.2)], axis=1)[np.newaxis]
    assert values[0, 0, 1] > values[0, 0, 0]
    decision = judge(values, np.arange(20)[np.newaxis] % 4, **NAMES)
    assert decision.chosen == 0
    assert (decision.verdict.gain, decision.verdict.p_value, decision.verdict.kind) == (0.0, 1.0, "does not help")


@pytest.mark.parametrize(("n_candidates", "n_folds"), [(1, 3), (3, 1)])
def test_one_candidate_or_one_fold_leaves_no_choice(n_candidates, n_folds):
    values = np.random.default_rng(0).normal(size=(2, 9, n_candidates))
    values[:, :, 1:] += 5.0
    decision = judge(values, np.tile(np.arange(9) % n_folds, (2, 1)), **NAMES)
    assert (decision.chosen, decision.verdict.kind, decision.verdict.n) == (0, "too early to tell", 9)
    np.testing.assert_array_equal(decision.values, values[:, :, 0].mean(axis=0))
    assert decision.verdict.p_value == 1.0


def test_folds_that_hold_all_gains_are_not_ignored():
    """The other folds have no gain, and would choose the plain candidate: they choose among the learned ones."""
    values = np.zeros((1, 50, 2))
    values[0, :10, 1] = 1.0
    decision = judge(values, np.repeat(np.arange(5), 10)[np.newaxis], **NAMES)
    assert (decision.chosen, decision.verdict.gain) == (1, pytest.approx(0.2))
    assert decision.verdict.kind == "shown to help"


SHOWN = Verdict("shown to help", 0.04, 0.01, 0.07, 200, 0.008, "nDCG@10", "queries", share=0.25)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Shown to help: +0.040 nDCG@10 (95 % interval +0.010 to +0.070) on 200 queries not learned from. 25 % of"),
        ({"repeats": 5, "wins": 4}, "Shown to help (4 of 5 repeats): +0.040 nDCG@10"),
        (
            {"kind": "probably helps"},
            "not learned from. More queries are needed to be sure. 25 % of the learned map is",
        ),
        ({"kind": "does not help", "share": 0.0}, "not learned from. The plain ranking is served."),
        ({"kind": "too early to tell", "n": 3, "share": 0.0}, "Too early to tell: 3 queries were seen. The plain"),
        ({"measure": "answers predicted"}, "+4.0 points of answers predicted (95 % interval +1.0 to +7.0) on"),
        ({"units": "impressions"}, "on 200 impressions before they were learned from. 25 % of"),
        ({"text": "As given."}, "As given."),
    ],
)
def test_sentences(changes, sentence):
    verdict = SHOWN._replace(**changes)
    assert sentence.replace("25 %", "25%") in verdict.sentence.replace("25 %", "25%")
    assert str(verdict) == verdict.sentence == verdict.as_dict()["sentence"]
    assert verdict.helps == (verdict.kind in ("shown to help", "probably helps"))


def test_verdicts_are_read_back():
    assert Verdict.of(list(SHOWN)) == SHOWN
    for wrong in (list(SHOWN)[:-1], ["is nice", *list(SHOWN)[1:]], []):
        with pytest.raises(ValueError, match="a verdict should have the fields kind, gain, low"):
            Verdict.of(wrong)


@pytest.mark.parametrize("n", [4, 40])
def test_a_verdict_on_metrics_says_nothing_of_what_is_served(n):
    values = np.zeros((1, n, 2))
    values[0, ::2, 1] = -1.0
    verdict = judge(values, np.arange(n)[np.newaxis] % 3, **NAMES).verdict
    assert not verdict.helps
    assert verdict.sentence.endswith("not learned from." if n > 4 else "Too early to tell: 4 rows were seen.")
