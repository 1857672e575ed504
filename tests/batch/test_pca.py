from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.batch.pca import PCA


@st.composite
def rows(draw):
    """Rows of any scale: full or low rank, duplicates, constant features."""
    n, d = draw(st.integers(2, 30)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-1, 2, size=d)
    kind = draw(st.sampled_from(["full", "low rank", "duplicates", "constant features"]))
    if kind == "low rank":
        X = X[:, :1] @ rng.normal(size=(1, d))
    elif kind == "duplicates":
        X = X[rng.permutation(np.arange(n) % max(2, n // 2))]
    elif kind == "constant features":
        X[:, 1:] = 7.0
    return (X + draw(st.sampled_from([0.0, 1.0])) * X.std()) * draw(st.sampled_from([1e-42, 1.0, 1e42]))


@given(rows(), st.data())
def test_keeps_the_most_variance(X, data):
    m = data.draw(st.integers(1, min(X.shape)))
    pca = PCA(m).fit(X)
    variances = np.sort(np.linalg.eigvalsh(np.atleast_2d(np.cov(X.T / np.ptp(X)))))[::-1] * np.ptp(X) ** 2
    total = variances.sum()
    assert pca.objective_ / total == pytest.approx(variances[m:].sum() / total, abs=1e-9)
    assert np.isfinite(pca.get_mahalanobis_matrix()).all()
    embedded = pca.transform(X / np.ptp(X))
    explained = embedded.var(axis=0, ddof=1).sum() * np.ptp(X) ** 2
    assert explained + pca.objective_ == pytest.approx(total, rel=1e-9)


@given(rows())
def test_all_directions_keep_the_distances_between_the_rows(X):
    pca = PCA().fit(X)
    scaled = X / np.ptp(X)
    i, j = np.triu_indices(len(X), 1)
    plain = np.linalg.norm(scaled[i] - scaled[j], axis=1)
    np.testing.assert_allclose(pca.metric_.distance(scaled[i], scaled[j]), plain, atol=1e-10)


@given(rows())
def test_whitened_rows_have_variance_one_in_every_direction_in_which_they_vary(X):
    pca = PCA(whiten=True).fit(X)
    scaled = (X - X[0]) / np.ptp(X)
    singular = np.linalg.svd(scaled - scaled.mean(axis=0), compute_uv=False)
    clear = singular > 1e-5 * singular[0]  # what is much smaller may count as rounding or not
    embedded = (X - X[0]) @ pca.metric_.components.T
    assert embedded.shape[1] >= clear.sum()
    leading = np.linalg.eigvalsh(np.atleast_2d(np.cov(embedded.T)))
    np.testing.assert_allclose(leading, 1.0, atol=1e-3)


def test_share_of_variance_and_float32(labelled):
    X, y = labelled
    X = X * [1.0, 2.0, 3.0, 4.0, 10.0]
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    enough = int(np.searchsorted(np.cumsum(variances) / variances.sum(), 0.9)) + 1
    pca = PCA(0.9).fit(X.astype(np.float32), y)
    assert pca.components_.shape == (enough, 5)
    assert pca.transform(X.astype(np.float32)).dtype == np.float32
    assert pca.n_iter_ == 1
    assert pca.stop_reason_ == "converged"


def test_file_round_trip(labelled, tmp_path):
    X, y = labelled
    learner = PCA(0.9, whiten=True).fit(X, y)
    learner.save(tmp_path / "pca")
    loaded = PCA.load(tmp_path / "pca")
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))
    assert loaded.objective_ == learner.objective_


def test_refuses_nonsense(labelled):
    X, _ = labelled
    for bad in (0, 1.0, -0.5, True, "mle"):
        with pytest.raises(ValueError, match="n_components"):
            PCA(bad).fit(X)
    with pytest.raises(ValueError, match="n_components must be at most 5"):
        PCA(6).fit(X)
    with pytest.raises(ValueError, match="whiten must be True or False"):
        PCA(whiten=1).fit(X)
    with pytest.raises(ValueError, match="X must have rows that differ"):
        PCA().fit(np.ones((4, 3)))
    with pytest.raises(ValueError, match="a label for each"):
        PCA().fit(X, [0, 1])
