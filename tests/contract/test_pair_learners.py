"""What every learner from pairs promises beside what every learner does."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import mahala
from contract.learners import PAIR_LEARNERS, case, parametrize, rewritten
from mahala import Metric, Pairs
from mahala.online.passive_aggressive import C_GRID
from mahala.online.state.margin import MarginState
from mahala.support.model_files import ModelFileError
from mahala.testing import feed_one_by_one, models_agree
from strategies import examples

every_learner = parametrize(PAIR_LEARNERS)


@pytest.fixture
def pairs(labelled):
    X, y = labelled
    return Pairs.from_labels(X, y, 150, random_state=1)


@every_learner
def test_metric_is_psd_and_gives_the_distances_of_the_embedding(learner, pairs):
    fitted = clone(learner).fit(pairs)
    metric = fitted.metric_
    assert np.isfinite(metric.matrix).all()
    assert metric.is_psd
    assert np.linalg.eigvalsh(metric.matrix)[0] >= -1e-12 * np.abs(metric.matrix).max()
    assert metric.threshold > 0.0
    assert metric.threshold >= 1.0 or not isinstance(learner, mahala.PA | mahala.POLA)
    Z = fitted.transform(pairs.X)
    squared = np.sum((Z[pairs.left] - Z[pairs.right]) ** 2, axis=1)
    np.testing.assert_allclose(fitted.margins(pairs), fitted.threshold_ - squared, atol=1e-7)
    np.testing.assert_array_equal(fitted.predict_comparisons(pairs), np.where(fitted.margins(pairs) >= 0, 1, -1))
    assert fitted.score(pairs) == np.mean(fitted.predict_comparisons(pairs) == pairs.y)
    assert fitted.get_feature_names_out().shape == (Z.shape[1],)
    np.testing.assert_array_equal(fitted.get_mahalanobis_matrix(), fitted.metric_.matrix)
    if getattr(fitted, "kernel", None) is None:
        np.testing.assert_allclose(pairs.X @ fitted.components_.T, Z)


@pytest.mark.parametrize("scale", [1e12, 1e19])
def test_float32_does_not_overflow(labelled, scale):
    X, y = labelled
    X = np.round(X * 8) / 8
    pairs = Pairs.from_labels((scale * X).astype(np.float32), y, 100, random_state=0)
    learner = mahala.PA("I").fit(pairs)  # ‖v‖⁴ is beyond float32
    assert learner.n_updates_ > 0
    expected = mahala.PA("I").fit(Pairs(pairs.X.astype(float), pairs.left, pairs.right, pairs.similar))
    np.testing.assert_array_equal(learner.metric_.matrix, expected.metric_.matrix)


def test_grid_search_over_comparisons(pairs):
    search = GridSearchCV(mahala.PA(), {"C": [1e-4, 1.0]}, cv=3).fit(pairs, pairs.y)
    assert search.best_params_["C"] == 1.0
    assert search.best_score_ > 0.6
    by_labels = GridSearchCV(mahala.PA(random_state=0), {"psd": ["every", "end"]}, cv=3)
    by_labels.fit(pairs.X, np.digitize(pairs.X[:, 0], [1.0]))
    assert by_labels.best_score_ > 0.6


@every_learner
def test_bad_pairs(learner, labelled, pairs):
    X, _ = labelled
    fresh = clone(learner)
    with pytest.raises(ValueError, match="y is needed"):
        fresh.fit(Pairs(X, [0], [1]))
    with pytest.raises(ValueError, match="y must hold"):
        fresh.fit(np.zeros((4, 2, 3)), [1, 0, 1, 0])
    assert not hasattr(fresh, "n_features_in_")
    fitted = clone(learner).partial_fit(pairs)
    with pytest.raises(ValueError, match="similar must be"):
        fitted.learn_one(X[0], X[1], 0)
    with pytest.raises(ValueError, match="x has 5 features and x_other 4"):
        fitted.learn_one(X[0], X[1, :4], True)
    assert fitted.n_steps_ == len(fitted.history_) == len(pairs)


@every_learner
@examples(12)
@given(data=st.data())
def test_degenerate_pairs_never_break_it(learner, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 5))
    X = rng.integers(0, 2, size=(n, d)).astype(float)  # many duplicates
    X[:, 0] = 1.0  # a constant feature
    X *= data.draw(st.sampled_from([1.0, 1e-150, 1e-30, 1e30, 1e44]))
    left, right = rng.integers(0, n, size=(2, 30))
    similar = rng.random(30) < data.draw(st.sampled_from([0.0, 0.5, 1.0]))  # perhaps all alike
    pairs = Pairs(X, left, right, similar)
    fitted, refusal = clone(learner), None
    try:
        fitted.fit(pairs)
    except ValueError as error:
        refusal = str(error)
    if refusal is not None:  # cubes of features of 1e30 are beyond all numbers
        assert "kernel" in refusal
        assert getattr(learner, "kernel", None) == "poly"
        assert X.max() > 1e20
        return
    assert np.isfinite(fitted.metric_.matrix).all()
    assert np.isfinite(fitted.threshold_)
    assert np.isfinite(fitted.margins(pairs)).all()
    starts_at_zero = isinstance(learner, mahala.PA | mahala.POLA) and getattr(learner, "init", "zero") == "zero"
    if similar.all() and starts_at_zero and getattr(learner, "variant", "I") != "LS":
        assert fitted.metric_.n_components == 0  # nothing was ever pushed apart


def test_a_kernel_of_ones_own_is_not_written(tmp_path, pairs):
    path = tmp_path / "model.safetensors"
    learner = mahala.PA().fit(pairs)
    learner.metric_.save(path)
    with pytest.raises(ValueError, match="kernel"):
        mahala.PA(kernel=lambda A, B: A @ B.T).fit(pairs).save(path)
    assert Metric.load(path).threshold == learner.threshold_  # a refused write leaves the old file


def test_hostile_files(tmp_path, pairs):
    path = tmp_path / "model.safetensors"
    mahala.PA(C="auto").fit(pairs).save(path)
    for header, arrays in (
        ({"params": {"variant": "nonsense"}}, {}),
        ({"n_features_in": 10**9}, {}),
        ({"tuned_C": 0.0}, {}),
        ({}, {"model.tuning": -np.ones(6)}),
    ):
        with case((header, arrays)), pytest.raises(ModelFileError, match="model"):
            mahala.load(rewritten(path, header, arrays))


def test_a_fit_interrupted_in_a_kernel_leaves_the_learner_as_it_was(pairs):
    def kernel(A, B):
        kernel.calls += 1
        if kernel.calls > kernel.most:
            raise KeyboardInterrupt
        return A @ B.T

    kernel.calls, kernel.most = 0, np.inf
    learner = mahala.PA(kernel=kernel, C="auto").fit(pairs)
    before, C = learner.margins(pairs), learner.C_
    kernel.calls, kernel.most = 0, 3
    with pytest.raises(KeyboardInterrupt):
        learner.fit(pairs[:20])
    kernel.most = np.inf
    assert learner.C_ == C
    np.testing.assert_array_equal(learner.margins(pairs), before)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals cannot be raised here")
def test_ctrl_c_in_a_stream_comes_after_the_step_and_its_record(pairs, monkeypatch):
    learner = mahala.PA().partial_fit(pairs[:50])
    feed = MarginState.feed

    def interrupted(*args):
        steps = feed(*args)
        signal.raise_signal(signal.SIGINT)
        return steps

    monkeypatch.setattr(MarginState, "feed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.partial_fit(pairs[50:])
    monkeypatch.undo()
    expected = mahala.PA().partial_fit(pairs[:50]).partial_fit(pairs[50:])
    assert learner.n_steps_ == len(learner.history_) == len(pairs)
    np.testing.assert_array_equal(learner.metric_.matrix, expected.metric_.matrix)


@pytest.mark.parametrize(("name", "value"), [("psd", "end"), ("kernel", "rbf")])
def test_what_a_stream_cannot_change(pairs, name, value):
    learner = mahala.PA().partial_fit(pairs[:50]).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"{name} cannot change"):
        learner.partial_fit(pairs[50:])
    assert learner.fit(pairs).n_steps_ == len(pairs)
    slower = mahala.PA().partial_fit(pairs[:50]).set_params(C=1e-6).partial_fit(pairs[50:])
    assert slower.C_ == 1e-6
    assert np.abs(slower.history_.tau[50:]).max() <= 1e-6 < np.abs(slower.history_.tau[:50]).max()


def test_a_short_chunk_of_labelled_rows_gives_what_pairs_it_can(labelled):
    X, y = labelled
    learner = mahala.PA(n_pairs=500, random_state=0).partial_fit(X, y).partial_fit(X[:5], [0, 0, 1, 1, 2])
    assert learner.n_steps_ == 510
    with pytest.raises(ValueError, match="n_pairs=500 asks for 500"):
        mahala.PA(n_pairs=500).fit(X[:5], [0, 0, 1, 1, 2])


def test_precomputed_kernels_in_cross_validation(labelled):
    X, y = labelled
    scores = cross_val_score(mahala.PA(kernel="precomputed", random_state=0), X @ X.T, y, cv=3)
    expected = cross_val_score(mahala.PA(kernel="linear", random_state=0), X, y, cv=3)
    np.testing.assert_allclose(scores, expected)


def test_tuning_asked_for_too_late(tmp_path, pairs):
    learner = mahala.PA(C=0.5).fit(pairs).set_params(C="auto")
    assert not hasattr(learner, "C_")
    with pytest.raises(ValueError, match="C='auto'"):
        learner.partial_fit(pairs)
    learner.save(tmp_path / "model.safetensors")
    assert mahala.load(tmp_path / "model.safetensors").fit(pairs).C_ in C_GRID


def test_correlated_features_are_a_stream_too():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(600, 1)) + 1e-3 * rng.normal(size=(600, 20)), np.zeros((1, 20))])
    pairs = Pairs(X, np.arange(600), np.full(600, 600), rng.random(600) < 0.5)
    whole, single = mahala.PA("hard").fit(pairs), mahala.PA("hard")
    feed_one_by_one(single, pairs)
    models_agree(single, whole, pairs)


@pytest.mark.parametrize(
    ("kernel", "params", "psd"),
    [("rbf", {"gamma": 0.1}, "every"), ("rbf", {"gamma": 10.0}, "end"), ("poly", {"degree": 6, "gamma": 1.0}, "every")],
)
def test_a_smooth_curve_in_order_is_a_stream_too(kernel, params, psd):
    """Each point lies nearly in the span of those before: squared distances are good to 1e-10 of the largest, and what
    is learned from distances between near points to as much as they are larger than that."""
    t = np.linspace(0, 6, 80)
    X = np.column_stack([np.cos(t), np.sin(t)])
    rng = np.random.default_rng(0)
    left = np.sort(rng.integers(1, 80, size=120))
    pairs = Pairs(X, left, (left * rng.random(120)).astype(int), rng.random(120) < 0.5)
    learner = mahala.PA(kernel=kernel, kernel_params=params, psd=psd)
    whole, single = clone(learner).fit(pairs), clone(learner)
    feed_one_by_one(single, pairs)
    models_agree(single, whole, pairs, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y, p: mahala.PA(init=np.eye(5)).fit(p), ValueError, "init must be"),
        (lambda X, y, p: mahala.PA(C=np.ones(2)).fit(p), ValueError, "C must be"),
        (lambda X, y, p: mahala.PA(kernel_params={"gamma": 1}).fit(p), ValueError, "kernel_params"),
        (lambda X, y, p: mahala.PA().learn_one(X[0], X[1], np.array([1, 1])), ValueError, "similar must be"),
        (lambda X, y, p: mahala.PA().learn_one(["a", "b"], X[1], True), ValueError, "x must hold real numbers"),
        (lambda X, y, p: mahala.PA(n_pairs=0).fit(X, y), ValueError, "n_pairs must be"),
        (lambda X, y, p: mahala.knn_error(mahala.PA().fit(p), X, y), TypeError, "metric_"),
    ],
)
def test_messages_name_the_argument(labelled, pairs, call, error, message):
    with pytest.raises(error, match=message):
        call(*labelled, pairs)


def test_a_metric_can_start_a_learner_and_is_saved_with_it(tmp_path, pairs):
    start = mahala.PA().fit(pairs).metric_
    learner = mahala.PA(init=start).partial_fit(pairs[:5])
    learner.save(tmp_path / "state.safetensors")
    resumed = mahala.load(tmp_path / "state.safetensors")
    np.testing.assert_array_equal(resumed.init.matrix, start.matrix)
    np.testing.assert_array_equal(resumed.metric_.matrix, learner.metric_.matrix)


@pytest.mark.parametrize("learner", [mahala.PA(), mahala.POLA()], ids=repr)
def test_a_model_that_no_file_can_hold_does_not_replace_a_good_one(learner, tmp_path):
    path = tmp_path / "model.safetensors"
    learner = clone(learner).partial_fit(Pairs(np.eye(2), [0], [1], [True]))
    learner.save(path)
    good = path.read_bytes()
    learner._model.b = np.nan  # as if arithmetic had overflowed
    with pytest.raises(ModelFileError, match=r"model\.safetensors was not written, because it could not be read back"):
        learner.save(path)
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]
