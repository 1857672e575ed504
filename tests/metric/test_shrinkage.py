"""Shrinkage toward the plain metric: against a plain loop, on made-up answers, and on the words of MEN."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mahala
from conftest import DATA, needs
from mahala import BilinearMetric, MahalanobisMetric, Triplets
from mahala.evaluation.cross_validation.fitting import refit_answers
from mahala.metric.shrinkage import Weights, item_numbers, mixing_weights

LEARNERS = [
    mahala.LMNN(max_iter=30, random_state=0),
    mahala.BoostMetric(max_iter=60, random_state=0),
    mahala.batch.PSDBoost(max_iter=10),
    mahala.OASIS(random_state=0),
    mahala.OGD(random_state=0),
    mahala.SORS(random_state=0),
    mahala.AdaSORS(random_state=0),
    mahala.AROMA(random_state=0),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)


def answers(n_items, d, n, seed, noise=0.0):
    """Return unit rows and triplets in the order of their Euclidean distances, some of them reversed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rows = np.array([rng.choice(n_items, 3, replace=False) for _ in range(n)])
    margins = MahalanobisMetric.euclidean(d).margins(Triplets(X, *rows.T))
    wrong = (margins < 0.0) ^ (rng.random(n) < noise)
    rows[wrong] = rows[wrong][:, [0, 2, 1]]
    return X, rows


def plain_of(metric):
    d = metric.n_features_in
    return MahalanobisMetric.euclidean(d) if isinstance(metric, MahalanobisMetric) else BilinearMetric(np.eye(d))


def share_predicted(metric, X, rows):
    return float(np.mean(metric.margins(Triplets(X, *rows.T)) > 0.0))


@pytest.mark.filterwarnings("ignore:LMNN (learned|found)")
@every_learner
def test_made_up_answers_that_a_learner_spoils(learner):
    """The plain metric is right, up to noise: without shrinkage each learner loses on new items, by default less."""
    X, rows = answers(80, 40, 1500, seed=1, noise=0.2)
    train, test = rows[(rows < 50).all(axis=1)], rows[(rows >= 50).sum(axis=1) >= 2]
    triplets = Triplets(X, *train.T)
    whole = clone(learner).set_params(shrinkage=0).fit(triplets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(learner).fit(triplets)
    right = share_predicted(plain_of(whole.metric_), X, test)
    assert whole.shrinkage_ == 0.0
    assert fitted.shrinkage_ == 0.5
    lost, less = (right - share_predicted(own.metric_, X, test) for own in (whole, fitted))
    assert lost > 0.04
    assert less < 0.7 * lost


@every_learner
def test_given_shrinkage_mixes_matrices(learner, tmp_path):
    X, rows = answers(20, 4, 40, seed=4)
    triplets = Triplets(X, *rows.T)
    whole = clone(learner).set_params(shrinkage=0).fit(triplets)
    fitted = clone(learner).set_params(shrinkage=0.25).fit(triplets)
    sizes = [np.abs(metric.margins(triplets)).mean() for metric in (whole.metric_, plain_of(whole.metric_))]
    expected = 0.75 * whole.metric_.matrix + 0.25 * sizes[0] / sizes[1] * np.eye(4)
    np.testing.assert_allclose(fitted.metric_.matrix, expected, rtol=1e-9, atol=1e-12)
    assert fitted.shrinkage_ == 0.25
    fitted.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.metric_.matrix, fitted.metric_.matrix)
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.shrinkage_ == 0.25
    if isinstance(whole.metric_, MahalanobisMetric):
        np.testing.assert_allclose(fitted.components_.T @ fitted.components_, expected, rtol=1e-9, atol=1e-12)
    assert fitted.fit(X, np.arange(20) % 2).shrinkage_ == 0.0  # labels are never shrunk


def test_metrics_of_boosting_iterations_are_mixed_as_well():
    X, rows = answers(20, 4, 40, seed=4)
    learner = mahala.BoostMetric(max_iter=5, shrinkage=0.5).fit(Triplets(X, *rows.T))
    stages = list(learner.staged_metrics())
    for metric in (stages[-1], learner.metric_at(len(stages))):
        np.testing.assert_allclose(metric.matrix, learner.metric_.matrix, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stages[1].matrix, learner.metric_at(2).matrix, rtol=1e-9, atol=1e-12)


def test_when_metrics_are_mixed():
    """Where triplets cannot determine M: fewer of them than numbers in M, or no more items than features."""
    few = Triplets(np.eye(4)[[0, 1, 2, 3, 0]], [0, 1, 2, 3, 4] * 4, [1, 2, 3, 4, 0] * 4, [2, 3, 4, 0, 1] * 4)
    plain = MahalanobisMetric.euclidean(4)
    weights = lambda triplets: mixing_weights("LMNN", "auto", triplets, lambda: plain, plain)  # noqa: E731
    assert weights(few[:10]) == Weights()
    for undetermined in (few[:9], Triplets(np.eye(4), *np.array([few.anchor, few.positive, few.negative]) % 4)):
        with pytest.warns(UserWarning, match=r"^LMNN: \d+ triplets over \d items cannot determine a 4 × 4 matrix\. "):
            assert weights(undetermined) == Weights(0.5, 0.5)
    as_array = Triplets.from_array(np.eye(4)[np.array([few.anchor, few.positive, few.negative]).T % 4])
    assert item_numbers(as_array).max() == 3  # equal rows of an array are one item


@pytest.mark.parametrize("learner", [mahala.OASIS(random_state=0), mahala.BoostMetric(max_iter=5)], ids=repr)
def test_the_warning_is_at_the_line_of_the_caller(learner):
    with pytest.warns(UserWarning, match=r"3 triplets over 3 items cannot .* mahala\.compare\(triplets\)") as caught:
        learner.fit(Triplets(np.eye(4)[:3], [0, 1, 2], [1, 2, 0], [2, 0, 1]))
    assert caught[0].filename == __file__


def test_a_mixture_is_refitted_without_a_warning():
    """Whether it helps was judged before."""
    X, rows = answers(20, 8, 20, seed=6)
    refitted = refit_answers(Triplets(X, *rows.T), mahala.LMNN())
    with pytest.warns(UserWarning, match="cannot determine"):
        np.testing.assert_array_equal(refitted.matrix, mahala.LMNN().fit(Triplets(X, *rows.T)).metric_.matrix)


def test_number_of_components():
    X, rows = answers(20, 8, 20, seed=6)
    fitted = mahala.LMNN(n_components=2).fit(Triplets(X, *rows.T))
    assert (fitted.shrinkage_, fitted.components_.shape) == (0.0, (2, 8))
    with pytest.raises(ValueError, match="shrinkage must be 'auto' or 0 with n_components"):
        mahala.LMNN(n_components=2, shrinkage=0.5).fit(Triplets(X, *rows.T))


@pytest.mark.filterwarnings("ignore:LMNN (learned|found)")
@needs("men_emb.npz")
def test_words_that_were_not_learned_from():
    """Answers of people: without shrinkage much is lost for new words, by default less."""
    data = np.load(DATA / "men_emb.npz")
    rng = np.random.default_rng(1)
    ends, score = np.concatenate([data["pairs"], data["pairs"][:, ::-1]]), np.tile(data["score"], 2)
    order = np.lexsort((rng.random(len(ends)), ends[:, 0]))
    left, right = order[:-1], order[1:]  # pairs of one word, two at a time
    same = (ends[left, 0] == ends[right, 0]) & (score[left] != score[right])
    left, right = left[same], right[same]
    near, far = np.where(score[left] > score[right], (left, right), (right, left))
    rows = rng.permutation(np.stack([ends[near, 0], ends[near, 1], ends[far, 1]], axis=1))
    seen = (rng.random(len(data["X"])) < 0.7)[rows].sum(axis=1)
    train, new = rows[seen == 3], rows[seen == 0]
    triplets = Triplets(data["X"], *train.T)
    with pytest.warns(UserWarning, match="cannot determine a 256 × 256 matrix"):
        metric = mahala.LMNN(max_iter=4, random_state=0).fit(triplets).metric_
    whole = mahala.LMNN(max_iter=4, random_state=0, shrinkage=0).fit(triplets).metric_
    lost, less = (
        share_predicted(plain_of(metric), data["X"], new) - share_predicted(own, data["X"], new)
        for own in (whole, metric)
    )
    assert lost > 0.05
    assert less < 0.5 * lost
