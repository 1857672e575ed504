"""What holds for every filter."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from papers.pola2004.filters.perceptron import Perceptron
from reference.documents import FILTERS, streams
from strategies import examples

every_filter = pytest.mark.parametrize("learner", FILTERS, ids=repr)


def same(one, other, X):
    """To the last bit."""
    np.testing.assert_array_equal(one.predictions_, other.predictions_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    for name in ("n_steps_", "n_mistakes_", "false_positive_rate_", "false_negative_rate_", "balanced_error_"):
        np.testing.assert_equal(getattr(one, name), getattr(other, name))


@every_filter
@examples(5)
@given(stream=streams(max_n=25), data=st.data())
def test_all_at_once_in_chunks_and_one_by_one_are_the_same(learner, stream, data):
    X, relevant = stream
    X = X / 3.0  # sums are rounded
    whole = clone(learner).fit(X, relevant)
    chunked, single, sparse = clone(learner), clone(learner), clone(learner)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4)))
    for rows in np.split(np.arange(len(X)), cuts):
        if len(rows):
            chunked.partial_fit(X[rows], relevant[rows])
            sparse.partial_fit(sp.csr_array(X[rows]), relevant[rows])
    said = [single.learn_one(x, own) for x, own in zip(X, relevant, strict=True)]
    np.testing.assert_array_equal(said, whole.predictions_)
    for other in (chunked, single, sparse):
        same(whole, other, X)


@every_filter
def test_it_predicts_before_it_is_told(learner, labelled):
    X, y = labelled
    relevant = y == 1
    fitted = clone(learner).partial_fit(X[:20], relevant[:20])
    for t in range(20, 45):
        before = fitted.predict(X[t : t + 1])[0]
        # Two copies that are told otherwise have said the same.
        other = pickle.loads(pickle.dumps(fitted))
        assert fitted.learn_one(X[t], relevant[t]) == before
        assert other.learn_one(X[t], not relevant[t]) == before


@every_filter
def test_rates_count_the_predictions(learner, labelled):
    X, y = labelled
    relevant = y == 2
    fitted = clone(learner).fit(X, relevant)
    said = fitted.predictions_
    assert said.dtype == bool
    assert fitted.n_steps_ == len(said) == 90
    assert fitted.n_mistakes_ == np.count_nonzero(said != relevant)
    assert fitted.false_positive_rate_ == np.mean(said[~relevant])
    assert fitted.false_negative_rate_ == np.mean(~said[relevant])
    assert fitted.balanced_error_ == (fitted.false_positive_rate_ + fitted.false_negative_rate_) / 2
    silent = clone(learner).set_params(record=False).fit(X, relevant)
    assert silent.balanced_error_ == fitted.balanced_error_
    with pytest.raises(AttributeError, match="not kept with record=False"):
        _ = silent.predictions_


@every_filter
def test_a_kind_that_was_not_seen_has_no_rate(learner):
    fitted = clone(learner).partial_fit(np.eye(3), [False, False, False])
    assert fitted.false_positive_rate_ == 0.0
    assert np.isnan(fitted.false_negative_rate_)
    assert fitted.balanced_error_ == 0.0
    assert not fitted.predict(np.eye(3)).any()


@every_filter
def test_a_refused_chunk_changes_nothing(learner, labelled):
    X, y = labelled
    fitted, untouched = (clone(learner).fit(X[:50], y[:50] == 0) for _ in range(2))
    bad = [
        (X[:, :4], y == 0, "4 features"),
        (np.where(X > 2.0, np.nan, X), y == 0, "NaN"),
        (X * 1e70, y == 0, "sixth power overflows"),
        (X, y, r"y must hold the classes \[False  True\], got 2"),
        (X, (y == 0)[:-1], "label for each of the 90 rows"),
    ]
    for rows, labels, message in bad:
        with pytest.raises(ValueError, match=message):
            fitted.partial_fit(rows, labels)
    with pytest.raises(ValueError, match=r"classes must be those of the first call"):
        fitted.partial_fit(X, y == 0, classes=[0, 2])
    with pytest.raises(ValueError, match="x must have the 5 features seen before, got 4"):
        fitted.learn_one(X[0, :4], True)
    with pytest.raises(ValueError, match="x contains NaN"):
        fitted.learn_one(X[0] * np.nan, True)
    with pytest.raises(TypeError, match="relevant must be True or False, got 1"):
        fitted.learn_one(X[0], 1)
    with pytest.raises(ValueError, match="Only binary classification"):
        fitted.fit(X, y)
    same(fitted, untouched, X)
    same(fitted.partial_fit(X[50:], y[50:] == 0), untouched.partial_fit(X[50:], y[50:] == 0), X)


@every_filter
def test_a_refused_first_chunk_leaves_it_unfitted(learner, labelled):
    X, y = labelled
    fresh = clone(learner)
    with pytest.raises(ValueError, match="one class"):
        fresh.partial_fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="classes must hold two classes"):
        fresh.partial_fit(X, y, classes=[1])
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    with pytest.raises(NotFittedError):
        _ = fresh.balanced_error_
    fresh.learn_one(X[0, :3], True)
    assert fresh.n_features_in_ == 3


@every_filter
def test_labels_of_any_kind_the_second_is_relevant(learner, labelled):
    X, y = labelled
    relevant = y == 1
    expected = clone(learner).fit(X, relevant)
    for classes in (["no", "yes"], [-1, 1], [3.0, 4.0]):
        names = np.array(classes)[relevant.astype(int)]
        fitted = clone(learner).fit(X, names)
        np.testing.assert_array_equal(fitted.predictions_, expected.predictions_)
        np.testing.assert_array_equal(fitted.predict(X), np.array(classes)[expected.predict(X).astype(int)])
        chunked = clone(learner)
        for t in range(0, 90, 15):
            chunked.partial_fit(X[t : t + 15], names[t : t + 15], classes=classes[::-1])
        same(fitted, chunked, X)
    with pytest.raises(TypeError, match="y must hold labels of one type"):
        clone(learner).fit(X[:2], np.array(["no", 1], dtype=object))


@every_filter
def test_it_goes_on_after_pickling(learner, labelled):
    X, y = labelled
    relevant = y == 1
    fitted = clone(learner).fit(X[:40], relevant[:40])
    read = pickle.loads(pickle.dumps(fitted))
    same(fitted, read, X)
    same(fitted.partial_fit(X[40:], relevant[40:]), read.partial_fit(X[40:], relevant[40:]), X)


@every_filter
def test_stored_zeros_repeated_and_unsorted_entries_are_the_same_documents(learner, labelled):
    X, y = labelled
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    n, d = X.shape
    # Each value as two halves, each row backwards, zeros stored.
    columns = np.tile(np.repeat(np.arange(d)[::-1], 2), n)
    odd = sp.csr_matrix((np.repeat(X[:, ::-1], 2) / 2, columns, np.arange(0, 2 * d * n + 1, 2 * d)), shape=(n, d))
    data = odd.data.copy()
    same(clone(learner).fit(X, y == 0), clone(learner).fit(odd, y == 0), X)
    np.testing.assert_array_equal(odd.data, data)


def test_blocks_of_rows_are_one_stream(labelled, monkeypatch):
    X, y = labelled
    for learner in FILTERS:
        whole = clone(learner).fit(X, y == 0)
        with monkeypatch.context() as patch:
            patch.setattr("papers.pola2004.filters.online_filter.BLOCK_BYTES", 8 * 35)
            for rows in (X, sp.csr_matrix(X)):
                same(whole, clone(learner).fit(rows, y == 0), X)


def test_record_must_be_a_boolean():
    with pytest.raises(ValueError, match="record must be True or False, got 1"):
        Perceptron(record=1).fit(np.eye(2), [False, True])
