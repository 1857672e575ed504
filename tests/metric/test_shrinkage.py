"""Shrinkage toward the plain metric: against a plain loop, on made-up answers, and on the words of MEN."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mahala
from conftest import DATA, needs
from mahala import BilinearMetric, MahalanobisMetric, Triplets
from mahala.metric import shrinkage
from mahala.metric.shrinkage import CANDIDATES, FOLDS, Weights, gains_and_errors, hold_out, item_numbers, mixing_weights

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


@every_learner
def test_made_up_answers_that_a_learner_spoils(learner):
    """The plain metric is right, up to noise: without shrinkage each learner loses on new items, by default hardly."""
    X, rows = answers(80, 40, 1500, seed=1, noise=0.2)
    train, test = rows[(rows < 50).all(axis=1)], rows[(rows >= 50).sum(axis=1) >= 2]
    triplets = Triplets(X, *train.T)
    whole = clone(learner).set_params(shrinkage=0).fit(triplets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(learner).fit(triplets)
    right = share_predicted(plain_of(whole.metric_), X, test)
    assert whole.shrinkage_ == 0.0
    assert fitted.shrinkage_ in CANDIDATES
    assert share_predicted(whole.metric_, X, test) < right - 0.04
    assert share_predicted(fitted.metric_, X, test) > right - 0.02


def test_held_out_answers_are_those_of_a_plain_loop():
    X, rows = answers(30, 12, 120, seed=2, noise=0.1)
    triplets, d = Triplets(X, *rows.T), 12
    learner = mahala.LMNN(max_iter=5, shrinkage=0)
    fit = lambda part: clone(learner).fit(part).metric_  # noqa: E731
    items = item_numbers(triplets)
    predicted, anchors = hold_out(triplets, items, MahalanobisMetric.euclidean(d), fit, seed=3)

    fold_of_item = np.random.default_rng(3).permutation(30) % FOLDS
    numbers = [np.unique(rows).tolist().index(row) for row in range(30)]
    expected, seen = {}, {}
    for fold in range(FOLDS):
        inside = np.array([[fold_of_item[numbers[row]] == fold for row in answer] for answer in rows])
        train = [answer for answer, own in zip(rows, inside, strict=True) if not own.any()]
        M = fit(Triplets(X, *np.array(train).T)).matrix

        def margin(answer, M):
            a, p, n = X[answer]
            return (a - n) @ M @ (a - n) - (a - p) @ M @ (a - p)

        c = np.mean([abs(margin(answer, M)) for answer in train])
        c /= np.mean([abs(margin(answer, np.eye(d))) for answer in train])
        for at, (answer, own) in enumerate(zip(rows, inside, strict=True)):
            if own[0]:
                mixed = [(1 - share) * M + share * c * np.eye(d) for share in (*CANDIDATES, 0.0)]
                expected[at] = [float(margin(answer, each) > 0) for each in mixed]
                seen[at] = numbers[answer[0]]
    np.testing.assert_array_equal(predicted, [expected[at] for at in sorted(expected)])
    anchors_seen = [seen[at] for at in sorted(seen)]
    np.testing.assert_array_equal(anchors, np.unique(anchors_seen, return_inverse=True)[1])


def test_standard_errors_are_those_of_anchors():
    """Answers of one anchor that are all alike count once."""
    rng = np.random.default_rng(0)
    each = rng.integers(0, 2, size=(40, 3)).astype(float)
    gains, errors = gains_and_errors(np.repeat(each, 5, axis=0), 0, np.repeat(np.arange(40), 5))
    differences = each - each[:, :1]
    np.testing.assert_allclose(gains, differences.mean(axis=0))
    np.testing.assert_allclose(errors, differences.std(axis=0, ddof=1) / np.sqrt(40))


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


def test_when_it_is_checked(monkeypatch):
    """Where triplets cannot determine M: fewer of them than numbers in M, or no more items than features."""
    monkeypatch.setattr(shrinkage, "hold_out", lambda *args: pytest.fail("checked"))
    few = Triplets(np.eye(4)[[0, 1, 2, 3, 0]], [0, 1, 2, 3, 4] * 4, [1, 2, 3, 4, 0] * 4, [2, 3, 4, 0, 1] * 4)
    weights = lambda triplets: mixing_weights("", "auto", triplets, None, None, None, 0)  # noqa: E731
    assert weights(few[:10]) == Weights()
    for undetermined in (few[:9], Triplets(np.eye(4), *np.array([few.anchor, few.positive, few.negative]) % 4)):
        with pytest.raises(pytest.fail.Exception, match="checked"):
            weights(undetermined)
    as_array = Triplets.from_array(np.eye(4)[np.array([few.anchor, few.positive, few.negative]).T % 4])
    assert item_numbers(as_array).max() == 3  # equal rows of an array are one item


def test_warning():
    """It says what held-out answers show, at the line of the caller, and nothing where learning is shown to help."""
    X, rows = answers(40, 30, 300, seed=5, noise=0.3)
    pattern = (
        r"OASIS: 300 triplets over 40 items cannot determine a 30 × 30 matrix\. .* the plain metric predicts \d+\.\d%"
    )
    with pytest.warns(UserWarning, match=pattern) as caught:
        mahala.OASIS(random_state=0).fit(Triplets(X, *rows.T))
    with pytest.warns(UserWarning, match="LMNN: 3 triplets .* have 0 anchors, too few to tell") as few:
        mahala.LMNN().fit(Triplets(X, [0, 1, 2], [1, 2, 0], [2, 0, 1]))
    assert {caught[0].filename, few[0].filename} == {__file__}
    weights = np.r_[np.full(3, 100.0), np.ones(27)]
    shares = MahalanobisMetric(np.diag(weights)).margins(Triplets(X, *rows.T))
    rows[shares < 0.0] = rows[shares < 0.0][:, [0, 2, 1]]
    assert mahala.BoostMetric(max_iter=60, random_state=0).fit(Triplets(X, *rows.T)).shrinkage_ == 0.5


def test_number_of_components():
    X, rows = answers(20, 8, 20, seed=6)
    fitted = mahala.LMNN(n_components=2).fit(Triplets(X, *rows.T))
    assert (fitted.shrinkage_, fitted.components_.shape) == (0.0, (2, 8))
    with pytest.raises(ValueError, match="shrinkage must be 'auto' or 0 with n_components"):
        mahala.LMNN(n_components=2, shrinkage=0.5).fit(Triplets(X, *rows.T))


@needs("men_emb.npz")
def test_words_that_were_not_learned_from():
    """Answers of people: without shrinkage much is lost for new words, by default nothing."""
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
    right = share_predicted(plain_of(metric), data["X"], new)
    assert share_predicted(whole, data["X"], new) < right - 0.05
    assert share_predicted(metric, data["X"], new) > right - 0.02
