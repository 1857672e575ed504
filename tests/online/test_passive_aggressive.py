"""PA: its parameters, its tuner, its kernels, its record."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from mahala import PA, BilinearMetric, MahalanobisMetric, Pairs, knn_error
from mahala.online.passive_aggressive import C_GRID
from reference.online_pairs import RULES, passive_aggressive


@pytest.fixture
def pairs(labelled):
    return Pairs.from_labels(*labelled, 200, random_state=3)


@pytest.mark.parametrize("variant", list(RULES))
@pytest.mark.parametrize(("psd", "code"), [("every", 1), ("end", 0), (5, 5)])
def test_fit_is_the_papers_algorithm(pairs, variant, psd, code):
    learner = PA(variant, C=0.3, psd=psd, n_steps=450).fit(pairs)
    order = np.arange(450) % len(pairs)
    M, b, steps = passive_aggressive(pairs.differences()[order], pairs.y[order], RULES[variant](0.3), code)
    if psd == "end":
        values, vectors = np.linalg.eigh(M)
        M, b = (vectors * np.maximum(values, 0)) @ vectors.T, max(b, 1.0)
    np.testing.assert_allclose(learner.metric_.matrix, M, rtol=0, atol=1e-9 * np.abs(M).max())
    if psd != 5:  # between two projections b may be below 1; the metric's never is
        assert learner.threshold_ == pytest.approx(b)
    history = learner.history_
    np.testing.assert_allclose(history.tau, [tau for *_, tau in steps], atol=1e-9)
    np.testing.assert_array_equal(history.predicted, [predicted for predicted, *_ in steps])


def test_history(pairs):
    history = PA("II", rank_every=50).fit(pairs).history_
    wrong = history.predicted != pairs.y
    np.testing.assert_allclose(history.error_curve(), [wrong[: t + 1].mean() for t in range(len(pairs))])
    np.testing.assert_allclose(history.loss, np.maximum(history.p, 0))
    np.testing.assert_allclose(history.cumulated_loss(squared=True)[-1], np.sum(history.loss**2))
    assert history.passive_share == np.mean(history.tau == 0) == np.mean(~history.moved)
    assert history.rank_steps.tolist() == [50, 100, 150, 200]
    for step, rank in zip(history.rank_steps, history.ranks, strict=True):
        assert rank == PA("II").fit(pairs[:step]).metric_.n_components
    with pytest.raises(AttributeError, match="record"):
        _ = PA(record=False).fit(pairs).history_
    np.testing.assert_array_equal(PA("II").fit(pairs).metric_.matrix, PA("II", record=False).fit(pairs).metric_.matrix)


def test_steps_from_labels_are_the_papers(labelled):
    X, y = labelled  # 90 rows, 3 classes: r = 240, n = 180, t = min(801, 12000)
    assert PA(random_state=0).fit(X, y).n_steps_ == 801
    assert PA(random_state=0).fit(X[:40], y[:40]).n_steps_ == 480  # never less than two passes
    assert PA(random_state=0, n_pairs=10).fit(X, y).n_steps_ == 500
    assert PA(random_state=0, n_pairs=30, n_steps=77).fit(X, y).n_steps_ == 77


@pytest.mark.parametrize("psd", ["every", "end"])
def test_tuned_by_knn(labelled, psd):
    X, y = labelled
    learner = PA("LS", C="auto", psd=psd, n_pairs=60, random_state=0).fit(X, y)
    drawn = Pairs.from_labels(X, y, 60, random_state=np.random.default_rng(learner._seed))
    costs = [knn_error(PA("LS", C=C, psd=psd).fit(drawn).metric_, X, y).best_error for C in C_GRID]
    assert C_GRID[int(np.argmin(costs))] == learner.C_
    assert max(costs) > min(costs)


def test_tuned_by_loss(pairs, labelled):
    losses = [PA("I", C=C).fit(pairs).history_.cumulated_loss()[-1] for C in C_GRID]
    assert C_GRID[int(np.argmin(losses))] == PA("I", C="auto").fit(pairs).C_
    with pytest.raises(ValueError, match="C='auto'"):
        PA(C="auto").partial_fit(pairs)
    learner = PA(C="auto").fit(pairs)
    assert learner.partial_fit(pairs).n_steps_ == 2 * len(pairs)


def test_initial_models(pairs):
    d = pairs.n_features
    M, b, _ = passive_aggressive(pairs.differences(), pairs.y, RULES["I"](1.0), 1, M=np.eye(d))
    np.testing.assert_allclose(PA(init="identity").fit(pairs).metric_.matrix, M, atol=1e-9)
    start = PA("LS").fit(pairs).metric_
    M, b, _ = passive_aggressive(
        pairs.differences(), pairs.y, RULES["I"](1.0), 1, M=np.array(start.matrix), b=start.threshold
    )
    learner = PA(init=start).fit(pairs)
    np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-9)
    assert learner.threshold_ == pytest.approx(b)
    one, same, other = (PA(init="random", random_state=seed).fit(pairs).metric_.matrix for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("psd", ["every", "end", 4])
@pytest.mark.parametrize("variant", ["I", "LS"])
def test_linear_kernel_is_the_primal(pairs, psd, variant):
    primal = PA(variant, psd=psd).fit(pairs)
    dual = PA(variant, psd=psd, kernel="linear").fit(pairs)
    expected = primal.margins(pairs)
    np.testing.assert_allclose(dual.margins(pairs), expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    X = np.random.default_rng(0).normal(size=(20, 5))
    np.testing.assert_allclose(
        dual.metric_.pairwise(X), primal.metric_.pairwise(X), rtol=0, atol=1e-8 * primal.metric_.pairwise(X).max()
    )


def test_precomputed_and_callable_kernels_are_the_named_one(labelled):
    X, y = labelled
    named = PA(kernel="rbf", kernel_params={"gamma": 0.2}, random_state=0).fit(X[:60], y[:60])
    given = PA(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.2), random_state=0).fit(X[:60], y[:60])
    K = rbf_kernel(X, X[:60], gamma=0.2)
    computed = PA(kernel="precomputed", random_state=0).fit(K[:60], y[:60])
    np.testing.assert_allclose(given.transform(X), named.transform(X), atol=1e-8)
    distances = named.metric_.pairwise(X[60:], X[:60])
    np.testing.assert_allclose(computed.metric_.pairwise(K[60:], K[:60]), distances, atol=1e-6)
    for method in ("partial_fit", "learn_one"):
        with pytest.raises(ValueError, match="precomputed"):
            getattr(PA(kernel="precomputed"), method)(
                *(K[:2], y[:2]) if method == "partial_fit" else (K[0], K[1], True)
            )


def test_rbf_solves_what_no_linear_metric_can():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, size=160), rng.integers(0, 2, size=160)
    X = (1.0 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.normal(size=(160, 2))
    train, test = (
        Pairs.from_labels(X[:80], y[:80], 1500, random_state=0),
        Pairs.from_labels(X[80:], y[80:], 500, random_state=0),
    )
    linear, rbf = (
        PA(n_steps=15_000).fit(train),
        PA(n_steps=15_000, kernel="rbf", kernel_params={"gamma": 2.0}).fit(train),
    )
    assert linear.score(test) < 0.7
    assert rbf.score(test) > 0.9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"variant": "III"}, "variant"),
        ({"C": 0.0}, "C must"),
        ({"C": np.nan}, "C must"),
        ({"C": "best"}, "C must"),
        ({"psd": 0}, "psd"),
        ({"psd": "never"}, "psd"),
        ({"psd": True}, "psd"),
        ({"min_step": -1}, "min_step"),
        ({"init": "ones"}, "init"),
        ({"init": MahalanobisMetric(np.eye(3))}, "init must be a MahalanobisMetric of"),
        ({"init": BilinearMetric(np.eye(5))}, "Mahalanobis"),
        ({"init": "identity", "kernel": "rbf"}, "init must be 'zero'"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 2.5}, "n_steps"),
        ({"tune_by": "luck"}, "tune_by"),
        ({"rank_every": 0}, "rank_every"),
        ({"kernel": "sigmoidal"}, "kernel"),
    ],
)
def test_bad_parameters(pairs, setting, message):
    with pytest.raises(ValueError, match=message):
        PA(**setting).fit(pairs)


def test_learns_more_than_euclid_on_wine(dataset):
    X, y = dataset("wine")
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    errors = {"learned": [], "plain": []}
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        half, rest = order[:89], order[89:]
        metric = PA("I", C="auto", random_state=seed).fit(X[half], y[half]).metric_
        errors["learned"].append(knn_error(metric, X[half], y[half], X[rest], y[rest]).at(3))
        errors["plain"].append(knn_error(None, X[half], y[half], X[rest], y[rest]).at(3))
    assert np.mean(errors["learned"]) < np.mean(errors["plain"])


def test_too_many_features_are_refused_before_memory_is_gone():
    X = sp.random_array((6, 3_000_000), density=1e-5, format="csr", random_state=np.random.default_rng(0))
    pairs = Pairs(X, [0, 1, 2], [3, 4, 5], [True, False, True])
    for learner in (PA(), PA(psd="end")):
        with pytest.raises(MemoryError, match="kernel='linear'"):
            learner.fit(pairs)
    assert PA(kernel="linear").fit(pairs).metric_.n_features_in == 3_000_000


def test_effective_dimension_of_an_indefinite_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 20))  # rank 3
    y = rng.integers(0, 2, size=300)
    learner = PA("I", C=1e-4, psd="end", rank_every=20_000).fit(Pairs.from_labels(X, y, 40_000, random_state=0))
    positive = np.count_nonzero(np.linalg.eigvalsh(learner.raw_metric_.matrix) > 1e-9)
    assert learner.metric_.n_components == learner.history_.ranks[-1] == positive <= 3


def test_a_large_initial_metric_is_kept():
    start = MahalanobisMetric(1e170 * np.eye(4))
    learner = PA(psd="end", init=start).partial_fit(Pairs(np.eye(4), [0], [1], [False]))
    np.testing.assert_allclose(learner.metric_.matrix, start.matrix)


@pytest.mark.parametrize("offset", [1e4, 1e5, 1e6])
def test_linear_kernel_is_the_primal_far_from_the_origin(labelled, offset):
    X, y = labelled
    X = X + offset * np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    pairs = Pairs.from_labels(X, y, 200, random_state=0)
    expected = PA().fit(pairs).margins(pairs)
    got = PA(kernel="linear").fit(pairs).margins(pairs)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize(("psd", "index"), [("every", np.int32), ("end", np.int64), (50, np.int32)])
def test_wide_sparse_rows_are_learned_as_dense_ones(psd, index):
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 200), density=0.03, format="csr", random_state=rng)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    y = np.arange(80) % 3
    dense, sparse = (PA("LS", C=0.1, psd=psd, random_state=0).fit(rows, y) for rows in (X.toarray(), X))
    expected = dense.metric_.matrix
    np.testing.assert_allclose(sparse.metric_.matrix, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    assert sparse.radius_ == pytest.approx(dense.radius_)
