"""Features in which a linear map sees bends: their values, odd columns, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mahala.data.encoding import MOST_FEATURES, N_DIRECTIONS, Encoder, preprocessor_from_parts


def fitted(X, n_bins=8):
    encoder = Encoder(n_bins)
    return encoder, encoder.encoded(encoder.fit(X, np.arange(X.shape[0])))


def test_a_number_becomes_its_standardised_value_and_bins():
    X = np.arange(41.0)[:, np.newaxis]
    _, encoded = fitted(X, n_bins=4)
    assert encoded.shape == (41, 5)
    np.testing.assert_allclose(encoded[:, 0], (X[:, 0] - 20.0) / X.std(), rtol=1e-6)
    np.testing.assert_allclose(encoded[:, 1:], np.clip((X - [0.0, 10.0, 20.0, 30.0]) / 10.0, 0.0, 1.0))
    X = np.array([[0.0], [1.0], [5.0], [5.0], [7.0]])  # few values are the edges
    _, encoded = fitted(X, n_bins=4)
    np.testing.assert_allclose(encoded[:, 1:], np.clip((X - [0.0, 1.0, 5.0]) / [1.0, 4.0, 2.0], 0.0, 1.0))


def test_flags_categories_gaps_and_constants():
    X = np.array([[0.0, 5.0, 7.0], [2.0, 5.0, np.nan], [0.0, 5.0, 8.0], [2.0, 5.0, 9.0]])
    encoder, encoded = fitted(X)
    names = encoder.get_feature_names_out().tolist()
    assert names[0] == "x0"
    assert names[-1] == "x2 missing"
    assert not any(name.startswith("x1") for name in names)  # it does not vary
    np.testing.assert_array_equal(encoded[:, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(encoded[:, -1], [0, 1, 0, 0])
    assert encoder.feature_groups()["x2"] == list(range(1, len(names)))
    frame = pd.DataFrame({"kind": ["a", "b", "a"], "when": pd.to_datetime(["2026-01-01", "2026-01-03", "2026-02-01"])})
    encoder, encoded = fitted(frame)
    assert encoder.get_feature_names_out().tolist()[:3] == ["kind=a", "kind=b", "when"]
    np.testing.assert_array_equal(encoded[:, 0], [1, 0, 1])


def test_new_values_are_cut_off_at_the_ends():
    encoder, _ = fitted(np.random.default_rng(0).normal(size=(50, 1)))
    far = encoder.transform(np.array([[1e30], [-1e30]]))
    np.testing.assert_allclose(far[:, 0], [10.0, -10.0])
    assert set(far[:, 1:].ravel().tolist()) == {0.0, 1.0}


@given(seed=st.integers(0, 999), constant=st.booleans(), scale=st.sampled_from([1e-30, 1.0, 1e30]))
def test_scale_and_order_of_rows_change_nothing(seed, constant, scale):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(20, 3)), 1) * (0.0 if constant else 1.0)
    _, encoded = fitted(X)
    order = rng.permutation(20)
    _, again = fitted(X[order] * scale)
    assert np.isfinite(encoded).all()
    np.testing.assert_allclose(again, encoded[order], atol=1e-4)


def test_many_columns_have_no_bins_and_very_many_become_directions():
    rng = np.random.default_rng(0)
    _, encoded = fitted(rng.normal(size=(5, MOST_FEATURES // 2)))
    assert encoded.shape == (5, MOST_FEATURES // 2)
    for X in (
        rng.normal(size=(300, MOST_FEATURES + 1)),
        sp.random_array((300, 5000), density=0.01, random_state=np.random.default_rng(0), format="csr"),
    ):
        encoder, encoded = fitted(X)
        assert encoded.shape == (300, N_DIRECTIONS)
        np.testing.assert_allclose(encoder.transform(X), encoded, atol=1e-4 * np.abs(encoded).max())


@pytest.mark.parametrize(
    "X",
    [
        np.where(np.random.default_rng(0).random((20, 3)) < 0.2, np.nan, np.random.default_rng(1).normal(size=(20, 3))),
        sp.random_array((20, 6), density=0.5, random_state=np.random.default_rng(0), format="csr"),
        sp.random_array((30, 3000), density=0.05, random_state=np.random.default_rng(0), format="csr"),
        pd.DataFrame({"a": ["x", "y", None, "x"], "b": [1.5, 2.5, None, 4.0]}),
    ],
    ids=["gaps", "sparse", "wide", "table"],
)
def test_parts_of_a_file_give_the_same_features(X):
    encoder, encoded = fitted(X)
    again = preprocessor_from_parts(*encoder.to_parts())
    np.testing.assert_array_equal(again.transform(X), encoder.transform(X))
    np.testing.assert_allclose(encoder.transform(X), encoded, rtol=1e-6)
    assert again.feature_groups() == encoder.feature_groups()


def test_other_columns_are_refused():
    encoder, _ = fitted(np.random.default_rng(0).normal(size=(9, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but the encoder was fitted with 3"):
        encoder.transform(np.zeros((1, 2)))
