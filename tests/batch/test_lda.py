from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mahala.batch.lda import LDA
from mahala.batch.rca import RCA


def scatters(X, y):
    """S_w and S_b as the docstring has them, a row at a time."""
    within, between = np.zeros((2, X.shape[1], X.shape[1]))
    for label in np.unique(y):
        members = X[y == label]
        mean = members.mean(axis=0)
        for x in members:
            within += np.outer(x - mean, x - mean)
        between += len(members) * np.outer(mean - X.mean(axis=0), mean - X.mean(axis=0))
    return within, between


def criterion(L, within, between):
    return np.trace(np.linalg.solve(L @ within @ L.T, L @ between @ L.T))


@st.composite
def classes(draw):
    """Labelled rows, n > c, of full rank within the classes, any scale, perhaps with constant features before them."""
    c, d = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = c + 2 * d + draw(st.integers(1, 30))
    y = np.r_[np.arange(c), rng.integers(0, c, size=n - c)]
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.5 * rng.normal(size=(d, d))) + rng.normal(size=(c, d))[y]
    X *= 10.0 ** rng.integers(-3, 4, size=d)
    return X, y


@given(classes(), st.data())
def test_reaches_the_criterion_and_no_perturbation_does_better(data, choice):
    X, y = data
    m = choice.draw(st.integers(1, min(X.shape[1], y.max())))
    lda = LDA(m).fit(X, y)
    within, between = scatters(X, y)
    L = lda.components_
    np.testing.assert_allclose(L @ within @ L.T, len(X) * np.eye(m), atol=1e-6 * len(X))
    assert -lda.objective_ == pytest.approx(criterion(L, within, between), rel=1e-6)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        moved = L + size * np.abs(L).mean(axis=0) * rng.normal(size=L.shape)
        assert criterion(moved, within, between) <= -lda.objective_ * (1 + 1e-9)


@given(classes(), st.sampled_from([1e-40, 1.0, 1e40]), st.booleans())
def test_equals_scikit_learn_at_every_scale_with_constant_features(data, scale, constant):
    X, y = data
    theirs = LinearDiscriminantAnalysis().fit(X, y).scalings_
    # Older versions of scikit-learn make the scatter within classes (n - c) I.
    theirs = theirs @ theirs.T * theirs.shape[1] * len(X) / np.trace(theirs.T @ scatters(X, y)[0] @ theirs)
    given = np.hstack([X, np.full((len(X), 2), 0.1)]) if constant else X
    M = LDA().fit(given * scale, y).get_mahalanobis_matrix() * scale**2
    d = X.shape[1]
    root = np.sqrt(np.diag(theirs))
    np.testing.assert_allclose(M[:d, :d] / np.outer(root, root), theirs / np.outer(root, root), atol=1e-5)
    assert not M[d:].any()


def test_shrinkage_is_a_convex_combination(labelled):
    X, y = labelled
    X = X / X.std(axis=0)
    within, between = scatters(X, y)
    shrunk = 0.7 * within + 0.3 * np.trace(within) / 5 * np.eye(5)
    lda = LDA(shrinkage=0.3).fit(X, y)
    np.testing.assert_allclose(lda.components_ @ shrunk @ lda.components_.T, len(X) * np.eye(2), atol=1e-8)
    assert -lda.objective_ == pytest.approx(
        np.sort(np.linalg.eigvals(np.linalg.solve(shrunk, between)).real)[-2:].sum()
    )
    assert LDA(shrinkage=0.0).fit(X, y).objective_ == pytest.approx(LDA().fit(X, y).objective_)


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.5])
def test_few_rows_rank_deficient_duplicates_and_classes_of_one_row(shrinkage):
    rng = np.random.default_rng(0)
    for X, y in (
        (rng.normal(size=(6, 20)), [0, 0, 0, 1, 1, 1]),
        (rng.normal(size=(20, 1)) @ rng.normal(size=(1, 4)), np.arange(20) % 3),
        (np.repeat(rng.normal(size=(4, 3)), 5, axis=0), np.arange(20) % 2),
        (rng.normal(size=(7, 3)), [0, 0, 0, 0, 1, 2, 3]),
        (np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]]), [0, 0, 1]),
    ):
        for dtype in (np.float64, np.float32):
            lda = LDA(shrinkage=shrinkage).fit(X.astype(dtype), y)
            assert np.isfinite(lda.get_mahalanobis_matrix()).all()
            assert np.isfinite(lda.objective_)
            assert lda.transform(X.astype(dtype)).dtype == dtype


def test_shrinkage_takes_in_what_separates_without_any_variance_within(labelled):
    X, y = labelled
    X = np.c_[X, y]
    assert LDA().fit(X, y).get_mahalanobis_matrix()[5, 5] == 0.0
    assert LDA(shrinkage=0.1).fit(X, y).score(X, y) == 1.0


def test_file_round_trip(labelled, tmp_path):
    X, y = labelled
    learner = LDA(n_components=1).fit(X, y)
    learner.save(tmp_path / "lda")
    loaded = LDA.load(tmp_path / "lda")
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))
    assert loaded.objective_ == learner.objective_


def test_refuses_nonsense(labelled):
    X, y = labelled
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_components"):
            LDA(bad).fit(X, y)
    with pytest.raises(ValueError, match="n_components must be at most 2"):
        LDA(3).fit(X, y)
    for bad in (-0.1, 1.1, "yes", True):
        with pytest.raises(ValueError, match="shrinkage"):
            LDA(shrinkage=bad).fit(X, y)
    with pytest.raises(ValueError, match="the same mean"):
        LDA().fit(np.eye(2)[[0, 1, 0, 1]], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="does not vary within any class"):
        LDA().fit(np.eye(2)[[0, 0, 1]], [0, 0, 1])


@pytest.mark.parametrize("load", [load_wine, load_digits])
def test_equals_rca_with_as_many_components(load):
    X, y = load(return_X_y=True)
    M = RCA(n_components=y.max()).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(LDA().fit(X, y).get_mahalanobis_matrix(), M, atol=1e-12 * np.abs(M).max())


def test_a_feature_of_little_variance_within_the_classes_counts(labelled):
    X, y = labelled
    X = np.c_[X, y + 1e-6 * np.random.default_rng(0).normal(size=len(y))]
    lda = LDA().fit(X, y)
    assert lda.get_mahalanobis_matrix().diagonal().argmax() == 5
    assert lda.score(X, y) == 1.0


def test_classes_of_one_row_each():
    with pytest.raises(ValueError, match="does not vary within any class"):
        LDA().fit(np.arange(6.0).reshape(3, 2), [0, 1, 2])
    with pytest.raises(ValueError, match="the same mean"):
        LDA().fit(np.ones((3, 2)), [0, 1, 2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_rows_are_learned_from_in_their_span(dtype):
    """As in the space of the features, in which weights are."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = (rng.normal(size=(30, 80)) * 10.0 ** rng.integers(-2, 3, size=80) + rng.normal(size=(3, 80))[y]).astype(dtype)
    X[3] = X[0]
    one, other = (LDA().fit(X, y, sample_weight=weights).metric_.pairwise(X) for weights in (None, np.ones(30)))
    np.testing.assert_allclose(one, other, atol=(1e-6 if dtype == np.float64 else 1e-2) * other.max())
