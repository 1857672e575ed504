"""LogisticMetric against its definition in plain NumPy, and what its folds choose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

import mahala
from mahala import LogisticMetric, MahalanobisMetric, Pairs, Quadruplets, Triplets
from mahala.batch.logistic import all_answers as module
from mahala.batch.logistic.answers import Answers, LogisticLoss
from mahala.batch.logistic.penalty import Choice
from reference import answers as reference
from strategies import examples


def people(n_items=40, d=4, n=300, seed=0, noise=0.0):
    """Answers of people who look at the first feature only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, d))
    a, b, c = rng.integers(n_items, size=(3, n))
    right = (abs(X[a, 0] - X[b, 0]) < abs(X[a, 0] - X[c, 0])) ^ (rng.random(n) < noise)
    return Triplets(X, a, np.where(right, b, c), np.where(right, c, b))


def edges(comparisons):
    """The near and far pairs of row numbers, None for the threshold."""
    if isinstance(comparisons, Pairs):
        pairs = list(zip(comparisons.left, comparisons.right, strict=True))
        near = [pair if similar else None for pair, similar in zip(pairs, comparisons.similar, strict=True)]
        return near, [None if similar else pair for pair, similar in zip(pairs, comparisons.similar, strict=True)]
    if isinstance(comparisons, Triplets):
        a, p, n = comparisons.anchor, comparisons.positive, comparisons.negative
        return list(zip(a, p, strict=True)), list(zip(a, n, strict=True))
    roles = comparisons.near_left, comparisons.near_right, comparisons.far_left, comparisons.far_right
    return list(zip(*roles[:2], strict=True)), list(zip(*roles[2:], strict=True))


@st.composite
def comparisons(draw):
    """Comparisons of each kind over few rows, with ties, duplicates and zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = rng.integers(-2, 3, size=(6, 3)).astype(draw(st.sampled_from([np.float64, np.float32])))
    n = draw(st.integers(1, 12))
    columns = rng.integers(6, size=(4, n))
    kind = draw(st.sampled_from(["pairs", "triplets", "quadruplets"]))
    if kind == "pairs":
        return Pairs(X, *columns[:2], rng.random(n) < 0.5)
    return Triplets(X, *columns[:3]) if kind == "triplets" else Quadruplets(X, *columns)


@examples(30)
@given(given_comparisons=comparisons(), noise=st.sampled_from([0.0, 0.1]))
def test_the_loss_and_its_gradient_are_those_of_the_definition(given_comparisons, noise):
    X = given_comparisons.X.astype(np.float64)
    rng = np.random.default_rng(0)
    L, weights = rng.normal(size=(2, 3)), rng.uniform(0.5, 2.0, size=len(given_comparisons))
    loss = LogisticLoss(Answers.of(given_comparisons, weights)._replace(X=X), X, noise)
    near, far = edges(given_comparisons)
    threshold = loss.threshold + 0.3 if isinstance(given_comparisons, Pairs) else 0.0

    def expected(variables):
        A = variables[:-1].reshape(2, 3)
        m = reference.margins(X, A, near, far, variables[-1]) / loss.temperature
        return np.average(-np.log(noise + (1 - 2 * noise) / (1 + np.exp(-m))), weights=weights)

    value, pull, by_threshold = loss(X @ L.T, threshold)
    variables = np.append(L.ravel(), threshold)
    assert value == pytest.approx(expected(variables), rel=1e-9)
    gradient = np.append((2.0 * pull.T @ X).ravel(), by_threshold)
    np.testing.assert_allclose(gradient, approx_fprime(variables, expected, 1e-7), atol=1e-5)


@pytest.mark.parametrize("kind", ["triplets", "pairs", "quadruplets"])
def test_the_optimum_is_that_of_scipy_over_positive_definite_matrices(kind):
    """In M the problem is convex: its penalty is tr M - 2 tr √M + d."""
    answers = people(n_items=12, d=2, n=60, noise=0.1)
    X, lam = answers.X, 0.03
    given_comparisons = {
        "triplets": answers,
        "pairs": Pairs(X, answers.anchor, answers.positive, np.arange(60) % 3 > 0),
        "quadruplets": Quadruplets(X, answers.anchor, answers.positive, answers.negative, answers.anchor),
    }[kind]
    learner = LogisticMetric(lam=lam, tol=1e-12, max_iter=1000).fit(given_comparisons)
    near, far = edges(given_comparisons)
    t = LogisticLoss(Answers.of(given_comparisons), X, 0.0).temperature

    def objective(variables):
        root = np.array([[variables[0], variables[1]], [variables[1], variables[2]]])
        values = np.linalg.eigvalsh(root)
        if values.min() <= 0:
            return 1e6
        return reference.objective(X, root, near, far, lam, t, threshold=variables[3])

    options = {"maxiter": 4000, "xatol": 1e-5, "fatol": 1e-9}
    best = minimize(objective, [1.0, 0.0, 1.0, t], method="Nelder-Mead", options=options).fun
    assert learner.objective_ == pytest.approx(best, rel=1e-6)
    assert np.linalg.eigvalsh((learner.components_ + learner.components_.T) / 2.0).min() > 0.0


def test_more_features_than_rows_change_nothing_outside_of_the_rows():
    answers = people(n_items=10, d=3)
    wide = np.random.default_rng(0).normal(size=(3, 40))
    narrow, other = LogisticMetric(lam=0.01), LogisticMetric(lam=0.01)
    basis = np.linalg.qr(wide.T)[0].T  # orthonormal rows: the same distances in 40 features
    narrow.fit(answers)
    other.fit(answers.over(answers.X @ basis))
    expected = np.eye(40) + basis.T @ (narrow.components_ - np.eye(3)) @ basis
    np.testing.assert_allclose(other.components_, expected, atol=1e-4)
    assert other.objective_ == pytest.approx(narrow.objective_, rel=1e-5)


@pytest.mark.filterwarnings("ignore:LogisticMetric learned nothing")  # with the largest penalty
def test_a_prior_is_the_space_in_which_it_learns():
    answers, prior = people(), MahalanobisMetric(np.diag([4.0, 1.0, 0.25, 1.0]))
    learner = LogisticMetric(prior, lam=0.01).fit(answers)
    scaled = answers.over(answers.X * [2.0, 1.0, 0.5, 1.0])
    distances = LogisticMetric(lam=0.01).fit(scaled).metric_.pairwise(scaled.X)
    np.testing.assert_allclose(learner.metric_.pairwise(answers.X), distances, atol=1e-4)
    assert LogisticMetric(prior, lam=1e6).fit(answers).metric_.matrix == pytest.approx(prior.matrix, abs=1e-3)
    white = LogisticMetric("covariance", lam=1e6).fit(answers)
    assert np.cov(white.transform(answers.X).T, bias=True) == pytest.approx(np.eye(4), abs=1e-2)
    with pytest.raises(ValueError, match="prior must be a MahalanobisMetric of 4 features"):
        LogisticMetric(MahalanobisMetric.euclidean(3)).fit(answers)


def test_folds_over_items_choose_the_penalty(tmp_path, monkeypatch):
    answers = people(n=600, noise=0.1)
    learner = LogisticMetric(random_state=0).fit(answers[:300])
    assert learner.verdict_.kind == "shown to help"
    assert learner.score(answers[300:]) > MahalanobisMetric.euclidean(4).margins(answers[300:]).__gt__(0).mean() + 0.1
    rng = np.random.default_rng(1)
    guesses = Triplets(rng.normal(size=(60, 30)), *rng.integers(60, size=(3, 1500)))
    nothing = LogisticMetric(random_state=0).fit(guesses)
    assert nothing.verdict_.kind != "shown to help"
    monkeypatch.setattr(module, "choose_penalty", lambda *given: Choice(np.inf, nothing.verdict_))
    prior = LogisticMetric(random_state=0).fit(guesses)
    assert np.array_equal(prior.metric_.matrix, np.eye(30))
    assert (prior.lam_, prior.stop_reason_, prior.n_iter_) == (np.inf, "prior", 1)
    prior.save(tmp_path / "prior.safetensors")
    assert mahala.load(tmp_path / "prior.safetensors").partial_fit(guesses[:5]).lam_ == np.inf
    assert nothing.lam_ * 1500 >= 6.0
    monkeypatch.undo()
    few = LogisticMetric(random_state=0).fit(answers[:3])
    assert few.verdict_.kind == "too early to tell"
    assert few.lam_ == 2.0


def test_the_prior_is_used_where_people_contradict_it_at_random():
    """Each item has a random rank that says nothing about other items."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 40))
    a, b, c = rng.integers(120, size=(3, 4000))
    rank = rng.random((120, 120))
    nearer = np.square(X[a] - X[b]).sum(axis=1) - 30 * rank[a, b] < np.square(X[a] - X[c]).sum(axis=1) - 30 * rank[a, c]
    answers = Triplets(X, a, np.where(nearer, b, c), np.where(nearer, c, b))
    seen = (np.stack([a, b, c]) < 80).all(axis=0)
    unseen = (np.stack([a, b, c]) >= 80).all(axis=0)
    learner = LogisticMetric(random_state=0).fit(answers[seen])
    raw = MahalanobisMetric.euclidean(40).margins(answers[unseen]) > 0
    assert learner.score(answers[unseen]) >= raw.mean() - 0.02
    assert LogisticMetric(lam=6.0 / seen.sum()).fit(answers[seen]).score(answers[unseen]) < raw.mean() - 0.03


def test_weights_are_repeated_answers_and_ratings_are_quadruplets():
    answers = people(n=50)
    weights = np.arange(50) % 3 + 1
    weighted = LogisticMetric(lam=0.01).fit(answers, weights=weights)
    repeated = LogisticMetric(lam=0.01).fit(answers[np.repeat(np.arange(50), weights)])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-4)
    with pytest.raises(ValueError, match="weights must be 50 positive numbers"):
        LogisticMetric().fit(answers, weights=-weights)
    X, left, right = answers.X, np.arange(30), np.arange(30)[::-1]
    ratings = -abs(X[left, 0] - X[right, 0])
    by_ratings = LogisticMetric(lam=0.01, random_state=0).fit(Pairs(X, left, right), ratings)
    quadruplets = Quadruplets.from_ratings(X, left, right, ratings)
    assert by_ratings.objective_ == pytest.approx(LogisticMetric(lam=0.01).fit(quadruplets).objective_, rel=1e-6)
    assert by_ratings.metric_.matrix.diagonal().argmax() == 0
    assert len(quadruplets) == 30 * 29 // 2 - 15 * 1  # all pairs of pairs but those of one pair and its reverse
    with pytest.raises(ValueError, match="ratings must differ"):
        Quadruplets.from_ratings(X, left, right, np.ones(30))


def test_later_answers_are_learned_beside_earlier_ones(tmp_path):
    answers = people(n=200)
    learner = LogisticMetric(random_state=0).fit(answers[:100])
    first = learner.lam_
    learner.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    for part in (answers[100:150], answers[150:]):
        learner.partial_fit(part)
        loaded.partial_fit(part)
    whole = LogisticMetric(lam=learner.lam_).fit(answers)
    assert learner.lam_ == pytest.approx(first / 2)
    assert learner.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    assert np.array_equal(learner.metric_.matrix, loaded.metric_.matrix)
    assert loaded.verdict_ == learner.verdict_


def test_a_threshold_is_learned_from_pairs():
    answers = people()
    X = answers.X
    near = abs(X[answers.anchor, 0] - X[answers.positive, 0]) < 0.7
    pairs = Pairs(X, answers.anchor, answers.positive, near)
    learner = LogisticMetric(random_state=0).fit(pairs[:200])
    assert learner.score(pairs[200:]) > 0.85
    assert learner.threshold_ > 0.0


def test_people_who_compare_shoes(dataset):
    """Real answers about 45 shoes: 30 to ask about, 15 never seen."""
    X, triplets = dataset("zappos45", "triplets")
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    X = X.U * X.S
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        seen = rng.permutation(45) < 30
        asked = rng.permutation(triplets[seen[triplets].all(axis=1)])
        unseen = Triplets(X, *triplets[~seen[triplets].any(axis=1)].T)
        learner = LogisticMetric(random_state=seed).fit(Triplets(X, *asked[:100].T))
        gains.append(learner.score(unseen) - np.mean(MahalanobisMetric.euclidean(X.shape[1]).margins(unseen) > 0))
    assert np.mean(gains) > 0.03


def test_ratings_at_random_are_not_shown_to_help():
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(30, 40)), np.array([rng.choice(30, 2, replace=False) for _ in range(50)]).T
    learner = LogisticMetric(random_state=0).fit(Pairs(X, *pairs), rng.normal(size=50))
    assert learner.verdict_.kind != "shown to help"


def test_pairs_of_one_kind_have_no_threshold():
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match="of both kinds, similar and dissimilar, but all are similar"):
        LogisticMetric().fit(Pairs(X, [0, 1, 2], [3, 4, 5], [True] * 3))
    learner = LogisticMetric(random_state=0).fit(Pairs(X, [0, 1, 2], [3, 4, 5], [True, True, False]))
    learner.partial_fit(Pairs(X, [0], [1], [True]))  # beside the others


def test_ratings_are_scored_by_their_order():
    rng = np.random.default_rng(0)
    X, (left, right) = rng.normal(size=(20, 3)), rng.integers(20, size=(2, 60))
    ratings, pairs = -abs(X[left, 0] - X[right, 0]), Pairs(X, left, right)
    learner = LogisticMetric(lam=0.01).fit(pairs, ratings)
    assert learner.score(pairs, ratings) == learner.score(Quadruplets.from_ratings(X, left, right, ratings)) > 0.8
    labelled = LogisticMetric(lam=0.01).fit(pairs, ratings > -0.5)
    assert labelled.metric_.threshold > 0.0  # ratings as labels of pairs: a threshold is learned
    with pytest.raises(ValueError, match="weights must be None with ratings"):
        learner.fit(pairs, ratings, weights=np.ones(60))


def test_equal_distances_set_no_temperature():
    """The covariance of fewer rows than features makes all of them equally far from each other, but for rounding."""
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(10, size=(3, 40))
    answers = Triplets(rng.normal(size=(10, 20)), a, b, c)
    assert LogisticMetric("covariance", lam=0.03).fit(answers).objective_ <= np.log(2.0)


def test_later_triplets_say_nothing_about_the_threshold():
    X = np.array([[0.0], [1.0], [5.0], [0.5]])
    pairs = Answers.of(Pairs(X, [0, 0], [1, 2], [True, False]))
    both = Answers.of(Triplets(X, [0] * 9, [1] * 9, [3] * 9)).joined(pairs)
    assert LogisticLoss(both, both.X, 0.0).threshold == LogisticLoss(pairs, X, 0.0).threshold


def test_later_rows_change_the_rank_of_the_covariance():
    rng = np.random.default_rng(0)
    X, (a, b, c) = rng.normal(size=(12, 20)), rng.integers(6, size=(3, 30))
    learner = LogisticMetric("covariance", lam=0.1).fit(Triplets(X, a, b, c))
    assert learner.partial_fit(Triplets(X, a + 6, b + 6, c + 6)).components_.shape == (11, 20)
    learner = LogisticMetric(lam=0.1, n_components=2, warm_start=True).fit(Triplets(X, a, b, c))
    with pytest.raises(ValueError, match="n_components must be 2, as in the last fit, got 3"):
        learner.set_params(n_components=3).fit(Triplets(X, a, b, c))


@pytest.mark.parametrize("n_components", [None, 2])
def test_units_of_features_do_not_matter_beside_the_covariance(n_components):
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(30, 4)), np.array([1.0, 3.0, 0.2, 10.0])
    a, b, c = rng.integers(30, size=(3, 60))
    learner = LogisticMetric("covariance", lam=0.03, n_components=n_components)
    M, other = (learner.fit(Triplets(rows, a, b, c)).metric_.matrix for rows in (X, X * units))
    np.testing.assert_allclose(other * np.outer(units, units), M, atol=1e-8 * np.abs(M).max())
