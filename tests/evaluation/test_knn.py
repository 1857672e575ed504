"""k-NN errors against exact fractions with the stated tie rules, and against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier

from mahala import BilinearMetric, MahalanobisMetric
from mahala.evaluation.knn import knn_error
from reference.neighbors import slow_means


def slow_predictions(train, y_train, test, k, leave_one_out):
    """The smallest of the labels with the most votes."""
    labels = sorted(set(y_train))
    votes = [[int(label == own) for label in labels] for own in y_train]
    predictions = []
    for i, x in enumerate(test.tolist()):
        means = slow_means(train, votes, x, k, i if leave_one_out else None)
        predictions.append(labels[means.index(max(means))])
    return predictions


def slow_error(train, y_train, test, y_test, k, average, leave_one_out=False):
    wrong = [a != b for a, b in zip(slow_predictions(train, y_train, test, k, leave_one_out), y_test, strict=True)]
    if average == "sample":
        return sum(wrong) / len(wrong)
    shares = []
    for label in set(y_test):
        of_class = [w for w, given_label in zip(wrong, y_test, strict=True) if given_label == label]
        shares.append(sum(of_class) / len(of_class))
    return sum(shares) / len(shares)


@st.composite
def labelled_grids(draw):
    """Training and test points on a small integer grid; the test labels may have a class of their own."""
    d, n, m = draw(st.integers(1, 2)), draw(st.integers(2, 12)), draw(st.integers(1, 6))
    points = hnp.arrays(np.int64, (n + m, d), elements=st.integers(0, 2))
    X = draw(points)
    y_train = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    y_test = draw(st.lists(st.sampled_from("abcd"), min_size=m, max_size=m))
    return X[:n], y_train, X[n:], y_test


@given(labelled_grids(), st.sampled_from(["sample", "class"]))
def test_tied_grids(grid, average):
    train, y_train, test, y_test = grid
    n = len(train)
    errors = knn_error(None, train, y_train, test, y_test, average=average)
    expected = [slow_error(train, y_train, test, y_test, k, average) for k in range(1, n + 1)]
    np.testing.assert_array_equal(errors.n_neighbors, range(1, n + 1))
    np.testing.assert_allclose(errors.error, expected)

    errors = knn_error(None, train, y_train, average=average)
    expected = [slow_error(train, y_train, train, y_train, k, average, True) for k in range(1, n)]
    np.testing.assert_array_equal(errors.n_neighbors, range(1, n))
    np.testing.assert_allclose(errors.error, expected)


@pytest.fixture
def random_data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, size=300)
    X = rng.normal(size=(300, 5)) + 0.5 * y[:, None]
    return X[:200], y[:200], X[200:], y[200:]


@pytest.mark.parametrize("labels", [np.array([3, 5, 8, 9]), np.array(["ab", "b", "c", "z"])], ids=["ints", "strings"])
def test_against_scikit_learn(random_data, labels):
    train, y_train, test, y_test = random_data
    y_train, y_test = labels[y_train], labels[y_test]
    errors = knn_error(None, train, y_train, test, y_test)
    for k in range(1, 26):
        classifier = KNeighborsClassifier(k, algorithm="brute").fit(train, y_train)
        assert errors.at(k) == pytest.approx(1 - classifier.score(test, y_test))


def test_metric_against_scikit_learn(random_data):
    train, y_train, test, y_test = random_data
    A = np.random.default_rng(1).normal(size=(5, 5))
    M = A @ A.T
    errors = knn_error(MahalanobisMetric(M), train, y_train, test, y_test)
    for k in (1, 2, 5, 25):
        classifier = KNeighborsClassifier(k, algorithm="brute", metric="mahalanobis", metric_params={"VI": M})
        assert errors.at(k) == pytest.approx(1 - classifier.fit(train, y_train).score(test, y_test))


def test_euclidean_metric_is_no_metric(random_data):
    given_metric = knn_error(MahalanobisMetric.euclidean(5), *random_data)
    np.testing.assert_array_equal(given_metric.error, knn_error(None, *random_data).error)


def test_singular_metric_sees_its_range_only(random_data):
    train, y_train, test, y_test = random_data
    errors = knn_error(MahalanobisMetric(np.diag([1.0, 0, 4, 0, 0])), train, y_train, test, y_test)
    by_hand = knn_error(None, train[:, [0, 2]] * [1, 2], y_train, test[:, [0, 2]] * [1, 2], y_test)
    np.testing.assert_array_equal(errors.error, by_hand.error)


def test_zero_metric_takes_all_rows():
    # All distances are 0, so all rows share the votes whatever the query.
    errors = knn_error(MahalanobisMetric(np.zeros((2, 2))), np.eye(2)[[0, 1, 1]], [2, 1, 1], np.eye(2), [1, 2])
    np.testing.assert_array_equal(errors.error, [0.5, 0.5, 0.5])
    errors = knn_error(MahalanobisMetric(np.zeros((2, 2))), np.eye(2)[[0, 1, 1]], [2, 1, 1], [[0, 0]], [1])
    np.testing.assert_array_equal(errors.error, [0, 0, 0])


@pytest.mark.parametrize("n", [60, 700])
@pytest.mark.parametrize("kind", ["none", "metric", "sparse", "float32"])
def test_the_order_of_rows_does_not_matter(n, kind):
    """Few pairs and many are searched by other code; rows are repeated, and grids have equal distances."""
    rng = np.random.default_rng(n)
    if kind == "metric":  # equal distances of rows that are no copies are a matter of rounding
        X = rng.normal(size=(n // 3, 7))[rng.integers(0, n // 3, n)]
    else:
        X = rng.integers(0, 3, size=(n, 5)).astype(float)
    y, order = rng.integers(0, 3, n), rng.permutation(n)
    tests = X[rng.integers(0, n, 40)] + (0.0 if kind != "metric" else rng.normal(size=(40, 7))), rng.integers(0, 3, 40)
    A = rng.normal(size=(7, 7))
    metric = MahalanobisMetric(A @ A.T) if kind == "metric" else None
    convert = {"sparse": sp.csr_array, "float32": np.float32}.get(kind, np.asarray)
    for more in ((), (convert(tests[0]), tests[1])):
        one = knn_error(metric, convert(X), y, *more)
        two = knn_error(metric, convert(X[order]), y[order], *more)
        np.testing.assert_array_equal(one.error, two.error)


@pytest.mark.parametrize("with_metric", [False, True])
@pytest.mark.parametrize("convert", [np.float32, sp.csr_array, sp.csr_matrix, np.asfortranarray], ids=repr)
def test_layouts_and_dtypes(with_metric, convert):
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 4, size=(90, 6)), rng.integers(0, 3, size=90)
    metric = MahalanobisMetric.euclidean(6) if with_metric else None
    for arguments in ((X, y), (X[:60], y[:60], X[60:], y[60:])):
        converted = [convert(a) if a.ndim == 2 else a for a in arguments]
        expected = knn_error(None, *arguments, average="class").error
        np.testing.assert_array_equal(knn_error(metric, *converted, average="class").error, expected)


def test_known_answer_on_wine():
    # The proline column alone, unscaled, decides the Euclidean distance; scaled features classify nearly all.
    X, y = load_wine(return_X_y=True)
    assert knn_error(None, X, y).best_error > 0.2
    scale = MahalanobisMetric(np.diag(1 / X.var(axis=0)))
    assert knn_error(scale, X, y).best_error < 0.05


def test_the_best_number_is_the_smallest():
    errors = knn_error(None, [[0.0], [1.0], [2.0]], [0, 1, 1], [[1.4]], [1])
    assert (errors.best_n_neighbors, errors.best_error) == (1, 0.0)
    errors = knn_error(None, [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[1.1]], [1], n_neighbors=(4, 2, 3))
    np.testing.assert_array_equal(errors.n_neighbors, [2, 3, 4])
    np.testing.assert_array_equal(errors.error, [1, 1, 1])
    assert (errors.best_n_neighbors, errors.best_error) == (2, 1.0)


@pytest.mark.parametrize(
    "n_neighbors",
    [3, np.int64(3), [3], np.array([3]), (v for v in (3, 3))],
    ids=["int", "numpy int", "list", "array", "generator"],
)
def test_forms_of_n_neighbors(random_data, n_neighbors):
    errors = knn_error(None, *random_data, n_neighbors=n_neighbors)
    np.testing.assert_array_equal(errors.n_neighbors, [3])
    assert errors.at(3) == knn_error(None, *random_data).at(3)
    with pytest.raises(ValueError, match=r"n_neighbors must be one of the evaluated \[3\], got 4"):
        errors.at(4)


def test_labels_of_another_kind(random_data):
    train, y_train, test, y_test = random_data
    as_objects = knn_error(None, train, y_train.astype(str).astype(object), test, y_test.astype(str))
    np.testing.assert_array_equal(as_objects.error, knn_error(None, *random_data).error)
    with pytest.raises(TypeError, match="y_train and y_test must hold labels of one type"):
        knn_error(None, train, y_train, test, y_test.astype(str))


X, Y = np.arange(6.0).reshape(3, 2), [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y), {"n_neighbors": 3}, "n_neighbors must be at most 2, the number of available neighbours, got 3"),
        ((X, Y, X, Y), {"n_neighbors": range(1, 5)}, "n_neighbors must be at most 3, .* got 4"),
        ((X, Y), {"n_neighbors": 0}, "n_neighbors must be one or several integers of at least 1"),
        ((X, Y), {"n_neighbors": 1.0}, "n_neighbors must be one or several integers of at least 1"),
        ((X, Y), {"n_neighbors": True}, "n_neighbors must be one or several integers of at least 1"),
        ((X, Y), {"n_neighbors": []}, "n_neighbors must be one or several integers of at least 1"),
        ((X, Y), {"average": "macro"}, "average must be 'sample' or 'class', got 'macro'"),
        ((X, Y, X), {}, "X_test and y_test must be given together"),
        ((X, Y, None, Y), {}, "X_test and y_test must be given together"),
        ((X, Y, X[:, :1], Y), {}, "X_test must have the 2 columns of X_train, got 1"),
        ((X, Y[:2]), {}, r"y_train must be 1-D with a label for each of the 3 rows, got shape \(2,\)"),
        ((X, Y, X, [Y]), {}, r"y_test must be 1-D with a label for each of the 3 rows, got shape \(1, 3\)"),
        ((X, [0, np.nan, 1]), {}, "y_train must hold a class for each row, got nan for row 1"),
        ((X * np.nan, Y), {}, "X_train contains NaN"),
        ((X, Y, X * np.nan, Y), {}, "X_test contains NaN"),
        ((X[:1], Y[:1]), {}, "X_train must have at least 2 rows for leave-one-out"),
    ],
)
def test_wrong_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        knn_error(None, *arguments, **options)


def test_wrong_metric():
    with pytest.raises(ValueError, match=r"metric must be positive semi-definite, .* use metric.projected\(\)"):
        knn_error(MahalanobisMetric(np.diag([1.0, -1.0])), X, Y)
    with pytest.raises(ValueError, match="metric must be a Mahalanobis metric, got a bilinear similarity"):
        knn_error(BilinearMetric(np.eye(2)), X, Y)
    with pytest.raises(TypeError, match="metric must be a Metric or None, got ndarray; pass the learner's metric_"):
        knn_error(np.eye(2), X, Y)


def test_errors_are_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = load_wine(return_X_y=True)
    errors = knn_error(None, X, y, n_neighbors=[1, 3, 5])
    (line,) = errors.plot().get_lines()
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([[1, 3, 5], errors.error]))
    plt.close("all")
