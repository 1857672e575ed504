"""MMC against its definition and other minimisers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize

from mahala import MMC, Pairs
from reference.pair_objectives import distances, mmc, unordered_pairs
from strategies import labelled_rows


def root(learner):
    return np.diag(np.sqrt(learner.feature_importances_)) if learner.diagonal else learner.components_


@pytest.mark.parametrize("diagonal", [False, True])
@given(case=labelled_rows())
def test_it_learns_or_says_why_not(diagonal, case):
    X, codes = case
    pairs = unordered_pairs(codes)
    try:
        learner = MMC(diagonal=diagonal, max_iter=5).fit(X, codes)
    except ValueError as error:
        kind = pairs[2] if "the similar pairs do not differ" in str(error) else ~pairs[2]
        assert distances(np.eye(X.shape[1]), X, pairs[0][kind], pairs[1][kind]).max(initial=0.0) < 1e-7
        return
    assert np.isfinite(learner.metric_.matrix).all()
    L = root(learner)
    far = distances(L, X, pairs[0][~pairs[2]], pairs[1][~pairs[2]])
    assert far.sum() == pytest.approx(1.0, rel=1e-4)
    # Raised to the floor, the scatter is at least what it is.
    assert learner.objective_ >= mmc(L, X, *pairs) * (1 - 1e-4) - 1e-12


@pytest.mark.parametrize("diagonal", [False, True])
def test_no_other_minimiser_goes_lower(labelled, diagonal):
    X, y = labelled[0][:40, :3], labelled[1][:40]
    pairs = unordered_pairs(y)
    learner = MMC(diagonal=diagonal, regularization=0.0, tol=1e-13).fit(X, y)
    assert learner.objective_ == pytest.approx(mmc(root(learner), X, *pairs), rel=1e-9)

    def objective(vector):
        return np.log(mmc(np.diag(vector) if diagonal else vector.reshape(3, 3), X, *pairs))

    rng = np.random.default_rng(0)
    for _ in range(3):
        found = minimize(objective, rng.normal(size=3 if diagonal else 9), method="BFGS")
        assert np.log(learner.objective_) <= found.fun + 1e-6
        assert found.fun == pytest.approx(np.log(learner.objective_), abs=1e-3)


def test_all_pairs_given_are_the_labelled_rows(labelled):
    X, y = labelled
    rows = MMC().fit(X, y)
    pairs = MMC().fit(Pairs(X, *unordered_pairs(y)))
    assert pairs.objective_ == pytest.approx(rows.objective_, rel=1e-6)
    assert MMC(n_pairs=300, random_state=0).fit(X, y).score(X, y) > 0.75


def test_a_direction_without_similar_differences(labelled):
    X, y = labelled
    X = np.column_stack([X, y == 0])  # the last feature separates a class from the others
    with pytest.raises(ValueError, match="regularization must be positive"):
        MMC(regularization=0.0).fit(X, y)
    learner = MMC().fit(X, y)
    assert learner.metric_.matrix.diagonal().argmax() == 5
    strict, loose = (MMC(regularization=r).fit(X, y).objective_ for r in (1e-8, 1e-2))
    assert strict < learner.objective_ < loose


def test_scales_do_not_matter(labelled):
    X, y = labelled
    scales = np.array([1e-5, 1.0, 1e5, 1e2, 1e-3])
    one, other = MMC().fit(X, y), MMC().fit(X * scales, y)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    np.testing.assert_allclose(
        other.metric_.pairwise(X * scales),
        one.metric_.pairwise(X),
        rtol=1e-2,
        atol=1e-2 * one.metric_.pairwise(X).max(),
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"diagonal": 1}, "diagonal must be True or False"),
        ({"regularization": -1.0}, "regularization must be a number of at least 0"),
        ({"n_pairs": 1.5}, "n_pairs must be 'auto' or an integer of at least 1"),
        ({"init": "zero"}, "init must be 'auto', .* or a"),
    ],
)
def test_bad_parameters(labelled, params, message):
    with pytest.raises(ValueError, match=message):
        MMC(**params).fit(*labelled)


@pytest.mark.parametrize("diagonal", [False, True])
def test_a_constant_feature_has_no_weight(labelled, diagonal):
    """Although the mean of many 0.1 differs from 0.1 by rounding."""
    X, y = labelled
    learner = MMC(diagonal=diagonal).fit(np.c_[X, np.full(len(X), 0.1)], y)
    assert not learner.metric_.matrix[5].any()
