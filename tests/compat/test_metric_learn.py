"""metric-learn's interface over our learners; its own tests are run by `python -m campaign.metric_learn_suite`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import mahala
import mahala.compat.metric_learn as metric_learn
from mahala.compat.metric_learn.exceptions import NonPSDError, PreprocessorError

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]

FROM_LABELS = [
    metric_learn.Covariance(),
    metric_learn.LFDA(),
    metric_learn.LMNN(),
    metric_learn.NCA(),
    metric_learn.MLKR(),
    metric_learn.RCA_Supervised(n_chunks=20),
    metric_learn.ITML_Supervised(),
    metric_learn.LSML_Supervised(),
    metric_learn.MMC_Supervised(),
    metric_learn.SDML_Supervised(balance_param=1e-5),
    metric_learn.SCML_Supervised(n_basis=40),
]


@pytest.fixture(scope="module")
def tuples():
    """Rows a, b of pairs of one class and c, d of pairs of two."""
    return metric_learn.Constraints(y).positive_negative_pairs(60, same_length=True, random_state=0)


@pytest.mark.parametrize("learner", FROM_LABELS, ids=lambda learner: type(learner).__name__)
def test_learners_from_labels_fit_indicators_and_points_alike(learner):
    seed = {"random_state": 0} if hasattr(learner, "random_state") else {}
    points = clone(learner).set_params(**seed).fit(X, y)
    numbers = clone(learner).set_params(preprocessor=X, **seed).fit(np.arange(len(X)), y)
    np.testing.assert_allclose(numbers.get_mahalanobis_matrix(), points.get_mahalanobis_matrix())
    assert points.components_.shape == (4, 4)
    pairs = np.stack([X[:5], X[5:10]], axis=1)
    expected = np.linalg.norm(points.transform(X[:5]) - points.transform(X[5:10]), axis=1)
    np.testing.assert_allclose(points.pair_distance(pairs), expected)
    np.testing.assert_allclose(points.get_metric()(X[0], X[5]), expected[0])
    np.testing.assert_array_equal(points.pair_score(pairs), -points.pair_distance(pairs))
    with pytest.warns(FutureWarning, match="score_pairs will be deprecated"):
        np.testing.assert_array_equal(points.score_pairs(pairs), points.pair_distance(pairs))


@pytest.mark.parametrize("name", ["ITML", "MMC", "SDML"])
def test_learners_from_pairs_judge_and_calibrate(name, tuples):
    a, b, c, d = tuples
    rows = np.column_stack([np.r_[a, c], np.r_[b, d]])
    labels = np.repeat([1, -1], len(a))
    learner = getattr(metric_learn, name)(preprocessor=X)
    if name == "SDML":
        learner.set_params(balance_param=1e-5)
    learner.fit(rows, labels, calibration_params={"strategy": "max_tpr", "min_rate": 0.9})
    predicted = learner.predict(rows)
    assert set(predicted) == {-1, 1}
    assert (predicted[labels == -1] == -1).mean() >= 0.9
    assert learner.score(rows, labels) > 0.9
    assert (learner.set_threshold(0.0).predict(rows) == -1).all()
    best = max(
        (learner.set_threshold(cut).predict(rows) == labels).mean() for cut in [-1.0, *-learner.decision_function(rows)]
    )
    assert (learner.calibrate_threshold(rows, labels).predict(rows) == labels).mean() == best
    with pytest.raises(ValueError, match=r"Parameter min_rate must be a number in\[0, 1\]. Got 2 instead."):
        learner.calibrate_threshold(rows, labels, strategy="max_tnr", min_rate=2)


def test_learners_of_order_judge_quadruplets_and_triplets(tuples):
    quadruplets = X[np.column_stack(tuples)]
    lsml = metric_learn.LSML().fit(quadruplets)
    assert lsml.score(quadruplets) > 0.9
    assert (lsml.predict(quadruplets[:, [2, 3, 0, 1]]) == -1).mean() > 0.9
    triplets = X[metric_learn.Constraints(y).generate_knntriplets(X, 3, 4)]
    scml = metric_learn.SCML(n_basis=80, random_state=0).fit(triplets)
    assert scml.score(triplets) > 0.9
    np.testing.assert_allclose(scml.decision_function(triplets[:, [0, 2, 1]]), -scml.decision_function(triplets))


def test_what_is_learned_is_what_our_learners_learn(tuples):
    a, b, c, d = tuples
    pairs, labels = X[np.column_stack([np.r_[a, c], np.r_[b, d]])], np.repeat([1, -1], len(a))
    ours = mahala.ITML(similar_target=1.0, dissimilar_target=4.0, tol=1e-3).fit(mahala.Pairs.from_array(pairs, labels))
    theirs = metric_learn.ITML().fit(pairs, labels, bounds=[1.0, 4.0])
    np.testing.assert_allclose(theirs.get_mahalanobis_matrix(), ours.get_mahalanobis_matrix())
    # Theirs bounds the similar pairs, ours the others: the same direction.
    similar = np.square(pairs[:60, 0] - pairs[:60, 1]).sum()
    mmc = metric_learn.MMC().fit(pairs, labels)
    assert np.square(mmc.pair_distance(pairs[:60])).sum() == pytest.approx(similar / 100)
    diagonal = metric_learn.MMC(diagonal=True, diagonal_c=3.0).fit(pairs, labels)
    assert np.square(diagonal.pair_distance(pairs[:60])).sum() == pytest.approx(1.5)


def test_parameters_without_a_meaning_are_named_once_and_old_names_still_work():
    with pytest.warns(UserWarning, match="^learn_rate and min_iter of LMNN have no effect: L-BFGS") as record:
        metric_learn.LMNN(learn_rate=1e-6, min_iter=3).fit(X, y)
    assert len(record) == 1
    with pytest.warns(FutureWarning, match='"num_constraints" parameter has been renamed to "n_constraints"'):
        assert metric_learn.ITML_Supervised(num_constraints=7).n_constraints == 7


def test_it_is_at_home_in_scikit_learn():
    search = GridSearchCV(
        make_pipeline(metric_learn.NCA(max_iter=5), KNeighborsClassifier()), {"nca__n_components": [1, 2]}, cv=2
    )
    assert search.fit(X, y).best_score_ > 0.8
    assert str(metric_learn.LMNN(n_neighbors=6)) == "LMNN(n_neighbors=6)"


def test_errors_are_metric_learns():
    with pytest.raises(PreprocessorError, match="An error occurred when trying to use the preprocessor"):
        metric_learn.NCA(preprocessor=lambda numbers: 1 / 0).fit([0, 1], [0, 1])
    with pytest.raises(ValueError, match=r"^2D array of formed points expected by NCA. Found 3D array instead"):
        metric_learn.NCA().fit(X[:, None], y)
    with pytest.raises(NonPSDError, match=r"^Matrix is not positive semidefinite \(PSD\).$"):
        metric_learn.LSML(prior=-np.eye(4)).fit(X[:8].reshape(2, 4, 4))
    with pytest.raises(ValueError, match=r"^Invalid n_components, must be in \[1, 4\]$"):
        metric_learn.NCA(n_components=5).fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        metric_learn.LFDA().fit(X, None)


@pytest.mark.parametrize("n", [5, 40])
def test_constraints_are_distinct_pairs_of_labelled_points(n):
    labels = np.array([0, 0, 0, 1, 1, -1, 2, -1, 2])
    for seed in range(5):
        if n > 10:
            with pytest.warns(UserWarning, match="Only generated"):
                a, b, c, d = metric_learn.Constraints(labels).positive_negative_pairs(n, random_state=seed)
            assert len(a) == 10  # ordered pairs of one class: 6 + 2 + 2
        else:
            a, b, c, d = metric_learn.Constraints(labels).positive_negative_pairs(n, random_state=seed)
            assert len(a) == len(c) == n
        assert (labels[a] == labels[b]).all()
        assert (labels[c] != labels[d]).all()
        assert (a != b).all()
        assert labels[np.r_[a, b, c, d]].min() >= 0
        assert len(set(zip(a, b, strict=True))) == len(a)
        assert len(set(zip(c, d, strict=True))) == len(c)


def test_chunks_are_of_one_class_and_of_the_size_asked_for():
    labels = np.array([0] * 3 + [1] * 4 + [2] * 3 + [-1] * 3)
    chunks = metric_learn.Constraints(labels).chunks(4, 2, random_state=0)
    assert (np.bincount(chunks[chunks >= 0]) == 2).all()
    assert chunks.max() == 3
    assert (chunks[labels < 0] == -1).all()
    assert all(len(set(labels[chunks == number])) == 1 for number in range(4))
    with pytest.raises(ValueError, match="form expected 5 chunks - maximum number of chunks is 4"):
        metric_learn.Constraints(labels).chunks(5, 2)


def test_counts_of_scml_are_integers():
    triplets = X[metric_learn.Constraints(y).generate_knntriplets(X, 3, 4)]
    with pytest.raises(ValueError, match="n_basis should be an integer, instead it is of type <class 'float'>"):
        metric_learn.SCML(n_basis=8.0).fit(triplets)
    with pytest.raises(ValueError, match="output_iter must be equal or smaller than max_iter"):
        metric_learn.SCML(n_basis=8, max_iter=5, output_iter=6).fit(triplets)
