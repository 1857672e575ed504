"""Means and votes of nearest neighbours against exact fractions, and learners' scores against the order of rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala.engine.neighbors import leave_one_out_errors, neighbor_means, one_hot
from reference.neighbors import slow_means
from strategies import examples


@st.composite
def valued_rows(draw):
    """Rows on a grid with many duplicates, values of them, test rows, and numbers of neighbours."""
    d, n, m = draw(st.integers(1, 3)), draw(st.integers(2, 40)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, draw(st.integers(1, 4)), size=(n + m, d)).astype(float)
    values = rng.integers(-8, 9, size=(n, draw(st.integers(1, 3)))) / 4.0
    most = draw(st.integers(1, min(n - 1, 12)))
    counts = np.unique(rng.integers(1, most + 1, size=3))
    return X[:n], values, X[n:], counts


@examples(60)
@given(valued_rows(), st.sampled_from(["dense", "sparse", "float32"]), st.booleans())
def test_means_are_exact_fractions(case, kind, leave_one_out):
    train, values, test, counts = case
    convert = {"dense": np.asarray, "sparse": sp.csr_array, "float32": np.float32}[kind]
    given_test = None if leave_one_out else convert(test)
    found = np.concatenate(list(neighbor_means(convert(train), values, given_test, counts)), axis=1)
    tested = train if leave_one_out else test
    assert found.shape == (len(counts), len(tested), values.shape[1])
    for place, k in enumerate(counts.tolist()):
        for i, x in enumerate(tested.tolist()):
            expected = slow_means(train, values.tolist(), x, k, i if leave_one_out else None)
            np.testing.assert_allclose(found[place, i], [float(mean) for mean in expected], rtol=1e-13, atol=1e-15)


@given(st.integers(2, 4), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_equal_votes_are_exactly_equal(n_classes, size, seed):
    """So that the first class in sorted order wins, whatever the number of tied neighbours."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_classes), size))
    votes = one_hot(codes, n_classes)
    counts = np.arange(1, len(codes))
    [means] = neighbor_means(np.zeros((len(codes), 2)), votes, np.zeros((1, 2)), counts)
    assert (means == means[:, :, :1]).all()


def test_many_ties_beyond_the_last_neighbour_are_searched_again():
    """A test row with hundreds of neighbours at one distance, beside rows without ties."""
    rng = np.random.default_rng(0)
    train = np.concatenate([np.zeros((500, 2)), rng.normal(5.0, 1.0, size=(100, 2))])
    values = rng.integers(0, 2, size=(600, 1)).astype(float)
    test = np.array([[0.0, 0.0], [5.0, 5.0], [1.0, 0.0]])
    counts = np.array([1, 3, 25])
    means = np.concatenate(list(neighbor_means(train, values, test, counts)), axis=1)
    np.testing.assert_allclose(means[:, [0, 2], 0], values[:500].mean(), rtol=1e-13)
    nearest = np.argsort(((train - test[1]) ** 2).sum(axis=1))
    np.testing.assert_allclose(means[:, 1, 0], [values[nearest[:k]].mean() for k in counts])
    own = np.concatenate(list(neighbor_means(train, values, None, counts)), axis=1)
    expected = (values[:500].sum() - values[:500, 0]) / 499
    np.testing.assert_allclose(own[:, :500, 0], np.broadcast_to(expected, (3, 500)), rtol=1e-13)


def test_leave_one_out_errors_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    X, codes = rng.integers(0, 3, size=(30, 2)).astype(float), rng.integers(0, 3, size=30)
    errors = leave_one_out_errors(X, codes, 100)
    assert errors.shape == (29,)
    votes = one_hot(codes, 3).tolist()
    for k in (1, 3, 29):
        means = [slow_means(X, votes, x, k, i) for i, x in enumerate(X.tolist())]
        wrong = [mean.index(max(mean)) != code for mean, code in zip(means, codes, strict=True)]
        assert errors[k - 1] == np.mean(wrong)


def test_the_score_of_a_learner_does_not_depend_on_the_order_of_rows():
    """Sorted by class, rows with equal features would vote for the class that comes first."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, size=(120, 3)).astype(float)
    y = np.sort(rng.integers(0, 2, size=120))
    learner = mahala.LDA().fit(X, y)
    scores = {learner.score(X[order], y[order]) for order in (rng.permutation(120), slice(None), slice(None, None, -1))}
    assert len(scores) == 1
