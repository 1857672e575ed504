from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala.batch.relief import Relief
from reference.weighting import relief


@st.composite
def labelled_rows(draw):
    """Rows on a grid (exact ties and duplicates) or not, with constant features and classes of one row."""
    n, d, c = draw(st.integers(3, 25)), draw(st.integers(1, 5)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, 3, size=(n, d)).astype(float) if draw(st.booleans()) else rng.normal(size=(n, d))
    if draw(st.booleans()):
        X[:, 0] = 5.0
    y = np.r_[0, 0, 1, rng.integers(0, c, size=n - 3)]
    return X, y


@pytest.mark.filterwarnings("ignore:.* under which all rows are at distance zero")
@given(labelled_rows(), st.sampled_from([2.0**-140, 1.0, 2.0**140]))
def test_equals_the_paper(data, scale):
    X, y = data
    learner = Relief().fit(X * scale, y)  # powers of two, so that ties stay ties
    np.testing.assert_allclose(learner.relevance_, relief(X, y), atol=1e-12)
    extent = np.ptp(X, axis=0)
    weights = np.where(extent > 0, np.maximum(learner.relevance_, 0) / np.where(extent > 0, extent, 1) ** 2, 0)
    np.testing.assert_allclose(learner.feature_importances_ * scale**2, weights, rtol=1e-9)
    assert -learner.objective_ == pytest.approx(np.square(np.maximum(learner.relevance_, 0)).sum(), abs=1e-12)
    assert learner.stop_reason_ == "converged"


def test_the_units_of_the_features_do_not_matter(labelled):
    X, y = labelled
    units = np.array([1e-3, 1.0, 7.0, 1e5, 30.0])
    one, other = Relief().fit(X, y), Relief().fit(X * units, y)
    np.testing.assert_allclose(other.feature_importances_ * units**2, one.feature_importances_, rtol=1e-9)
    np.testing.assert_allclose(other.transform(X * units), one.transform(X), rtol=1e-9)


def test_float32_and_rows_drawn(labelled):
    X, y = labelled
    whole = Relief().fit(X, y)
    single = Relief().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.relevance_, whole.relevance_, atol=1e-5)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    drawn = [Relief(n_samples=30, random_state=seed).fit(X, y).relevance_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    np.testing.assert_array_equal(Relief(n_samples=1000).fit(X, y).relevance_, whole.relevance_)
    # The mean of many draws is the weight from all rows.
    mean = np.mean([Relief(n_samples=30, random_state=seed).fit(X, y).relevance_ for seed in range(100)], axis=0)
    np.testing.assert_allclose(mean, whole.relevance_, atol=0.01)


def test_finds_the_features_that_matter():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=300)
    X = rng.normal(size=(300, 5))
    X[:, [1, 3]] += 3.0 * y[:, None]
    relevance = Relief().fit(X, y).relevance_
    assert relevance[[1, 3]].min() > 3 * relevance[[0, 2, 4]].max()


def test_file_round_trip(labelled, tmp_path):
    X, y = labelled
    learner = Relief(n_samples=20, random_state=0).fit(X, y)
    learner.save(tmp_path / "relief")
    loaded = Relief.load(tmp_path / "relief")
    np.testing.assert_array_equal(loaded.relevance_, learner.relevance_)
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))


def test_refuses_nonsense(labelled):
    X, y = labelled
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_samples"):
            Relief(bad).fit(X, y)
    with pytest.raises(ValueError, match="at least one class needs two rows"):
        Relief().fit(X[:5], range(5))
