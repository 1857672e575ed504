"""What every learner from pairs promises."""

from __future__ import annotations

import pickle
import signal

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mahala
from contract.learners import PAIR_LEARNERS
from mahala import Metric, Pairs, Triplets
from mahala.files import ModelFileError, read_model, write_model
from mahala.online.margin_learner import MarginLearner
from mahala.online.pair_model import PairModel
from mahala.online.passive_aggressive import C_GRID

every_learner = pytest.mark.parametrize("learner", PAIR_LEARNERS, ids=repr)


@pytest.fixture
def pairs(labelled):
    X, y = labelled
    return Pairs.from_labels(X, y, 150, random_state=1)


def models_agree(one, other, pairs, rtol=1e-10):
    """Same metric and threshold; with a kernel the same distances, since rounding may choose another basis."""
    a, b = one.metric_, other.metric_
    assert a.threshold == pytest.approx(b.threshold, rel=rtol)
    if getattr(one, "kernel", None) is None:
        np.testing.assert_allclose(a.matrix, b.matrix, rtol=0, atol=rtol * np.abs(b.matrix).max())
    one_distances, distances = (m.distance(pairs.X[pairs.left], pairs.X[pairs.right], squared=True) for m in (a, b))
    np.testing.assert_allclose(one_distances, distances, rtol=0, atol=10 * rtol * distances.max())


def feed_one_by_one(learner, pairs):
    predictions = []
    for i, j, similar in zip(pairs.left, pairs.right, pairs.similar, strict=True):
        predictions.append(learner.learn_one(pairs.X[i], pairs.X[j], similar))
    return np.where(predictions, 1, -1)


def with_targets(learner, pairs):
    """LEGO takes targets that are "auto" from the pairs that come first: here it gets those of all pairs."""
    if not isinstance(learner, mahala.LEGO):
        return learner
    whole = clone(learner).fit(pairs)
    return clone(learner).set_params(similar_target=whole.similar_target_, dissimilar_target=whole.dissimilar_target_)


@every_learner
def test_a_stream_is_a_stream(learner, pairs):
    learner = with_targets(learner, pairs)
    whole = clone(learner).fit(pairs)
    single, chunks = clone(learner), clone(learner)
    predictions = feed_one_by_one(single, pairs)
    for part in np.array_split(np.arange(len(pairs)), [1, 2, 40, 41, 110]):
        chunks.partial_fit(pairs[part])
    models_agree(single, whole, pairs)
    models_agree(chunks, whole, pairs)
    np.testing.assert_array_equal(predictions, whole.history_.predicted)
    np.testing.assert_allclose(single.history_.tau, whole.history_.tau, rtol=1e-7, atol=1e-10)
    assert single.n_steps_ == chunks.n_steps_ == whole.n_steps_ == len(pairs)
    assert chunks.n_mistakes_ == whole.n_mistakes_ == np.count_nonzero(whole.history_.predicted != pairs.y)


@every_learner
def test_a_saved_stream_goes_on_where_it_stopped(learner, pairs, tmp_path):
    never_stopped = clone(learner).partial_fit(pairs[:70]).partial_fit(pairs[70:])
    clone(learner).partial_fit(pairs[:70]).save(tmp_path / "state.safetensors")
    resumed = mahala.load_learner(tmp_path / "state.safetensors")
    assert type(resumed) is type(learner)
    assert resumed.get_params() == learner.get_params()
    resumed.partial_fit(pairs[70:])
    np.testing.assert_array_equal(resumed.metric_.matrix, never_stopped.metric_.matrix)
    assert resumed.metric_.threshold == never_stopped.metric_.threshold
    for name in ("y", "predicted", "p", "tau"):
        np.testing.assert_array_equal(getattr(resumed.history_, name), getattr(never_stopped.history_, name))
    assert resumed.squared_loss_ == never_stopped.squared_loss_
    np.testing.assert_array_equal(resumed.predict(pairs), never_stopped.predict(pairs))


@every_learner
def test_drawing_from_labels_goes_on_where_it_stopped(learner, labelled, tmp_path):
    X, y = labelled
    never_stopped = clone(learner).partial_fit(X[:40], y[:40])
    never_stopped.save(tmp_path / "state.safetensors")
    never_stopped.partial_fit(X[40:], y[40:])
    resumed = mahala.load_learner(tmp_path / "state.safetensors").partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(resumed.metric_.matrix, never_stopped.metric_.matrix)


@every_learner
def test_metric_is_psd_and_finite(learner, pairs):
    metric = clone(learner).fit(pairs).metric_
    assert np.isfinite(metric.matrix).all()
    assert metric.is_psd
    assert np.linalg.eigvalsh(metric.matrix)[0] >= -1e-12 * np.abs(metric.matrix).max()
    assert metric.threshold > 0.0
    assert metric.threshold >= 1.0 or not isinstance(learner, MarginLearner)


@every_learner
def test_distances_are_those_of_the_embedding(learner, pairs):
    fitted = clone(learner).fit(pairs)
    Z = fitted.transform(pairs.X)
    squared = np.sum((Z[pairs.left] - Z[pairs.right]) ** 2, axis=1)
    np.testing.assert_allclose(fitted.decision_function(pairs), fitted.threshold_ - squared, atol=1e-7)
    np.testing.assert_array_equal(fitted.predict(pairs), np.where(fitted.decision_function(pairs) >= 0, 1, -1))
    assert fitted.score(pairs) == np.mean(fitted.predict(pairs) == pairs.y)
    assert fitted.get_feature_names_out().shape == (Z.shape[1],)
    np.testing.assert_array_equal(fitted.get_mahalanobis_matrix(), fitted.metric_.matrix)
    if getattr(fitted, "kernel", None) is None:
        np.testing.assert_allclose(pairs.X @ fitted.components_.T, Z)


@every_learner
def test_pairs_arrays_and_labels_are_the_same_to_it(learner, pairs):
    array = np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1)
    whole = clone(learner).fit(pairs)
    other = clone(learner).fit(array, pairs.y)
    models_agree(other, whole, pairs)
    np.testing.assert_allclose(other.decision_function(array), whole.decision_function(pairs), rtol=1e-6, atol=1e-7)
    assert other.score(array, pairs.y) == whole.score(pairs)


@every_learner
@pytest.mark.parametrize("kind", ["float32", "csr", "csr array", "pandas", "polars", "fortran", "int64 csr"])
def test_every_kind_of_input(learner, labelled, kind):
    X, y = labelled
    X = np.round(X * 8) / 8  # exact in float32
    convert = {
        "float32": lambda X: X.astype(np.float32),
        "csr": sp.csr_matrix,
        "csr array": sp.csr_array,
        "int64 csr": lambda X: _with_int64_indices(sp.csr_matrix(X)),
        "pandas": lambda X: pd.DataFrame(X, columns=list("abcde")),
        "polars": lambda X: pl.DataFrame(X, schema=list("abcde")),
        "fortran": np.asfortranarray,
    }[kind]
    expected = clone(learner).fit(X, y)
    got = clone(learner).fit(convert(X), y)
    models_agree(got, expected, Pairs.from_labels(X, y, 50, random_state=0))
    np.testing.assert_allclose(got.transform(convert(X)), expected.transform(X), atol=1e-6)
    if kind in ("pandas", "polars"):
        assert list(got.feature_names_in_) == list("abcde")


@pytest.mark.parametrize("scale", [1e12, 1e19])
def test_float32_does_not_overflow(labelled, scale):
    X, y = labelled
    X = np.round(X * 8) / 8
    pairs = Pairs.from_labels((scale * X).astype(np.float32), y, 100, random_state=0)
    learner = mahala.PA("I").fit(pairs)  # ‖v‖⁴ is beyond float32
    assert learner.n_updates_ > 0
    expected = mahala.PA("I").fit(Pairs(pairs.X.astype(float), pairs.left, pairs.right, pairs.similar))
    np.testing.assert_array_equal(learner.metric_.matrix, expected.metric_.matrix)


def _with_int64_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@every_learner
def test_seeds_and_labels(learner, labelled):
    X, y = labelled
    one = clone(learner).fit(X, y)
    again = clone(learner).fit(X, np.array(["ash", "beech", "oak"])[y])
    np.testing.assert_array_equal(one.metric_.matrix, again.metric_.matrix)
    different = clone(learner).set_params(random_state=1).fit(X, y)
    assert different.metric_.matrix.shape != one.metric_.matrix.shape or not np.allclose(
        different.metric_.matrix, one.metric_.matrix
    )


@every_learner
def test_in_a_pipeline_with_frames(learner, labelled):
    X, y = labelled
    pipeline = make_pipeline(StandardScaler(), clone(learner), KNeighborsClassifier(3))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.6
    frame = clone(learner).set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"{type(learner).__name__.lower()}{i}" for i in range(frame.shape[1])]


def test_grid_search_over_comparisons(pairs):
    search = GridSearchCV(mahala.PA(), {"C": [1e-4, 1.0]}, cv=3).fit(pairs, pairs.y)
    assert search.best_params_["C"] == 1.0
    assert search.best_score_ > 0.6
    by_labels = GridSearchCV(mahala.PA(random_state=0), {"psd": ["every", "end"]}, cv=3)
    by_labels.fit(pairs.X, np.digitize(pairs.X[:, 0], [1.0]))
    assert by_labels.best_score_ > 0.6


def bad_rows():
    X = np.arange(20.0).reshape(10, 2) / 20
    return [
        ("NaN", np.where(X[3, 1] == X, np.nan, X), "NaN"),
        ("infinity", np.where(X[3, 1] == X, np.inf, X), "infinity"),
        ("too large", np.where(X[3, 1] == X, 1e150, X), "scale the features"),
        ("empty", X[:0], "sample"),
        ("no features", X[:, :0], "feature"),
        ("one row", X[:1], "sample"),
        ("words", np.array([["a", "b"]] * 10), "convert|numeric"),
        ("one axis", X[:, 0], "2D array"),
    ]


@every_learner
@pytest.mark.parametrize(("name", "X", "message"), bad_rows(), ids=[row[0] for row in bad_rows()])
def test_bad_rows(learner, name, X, message):
    y = np.arange(len(X)) % 2
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=f"(?i){message}"):
            getattr(clone(learner), method)(X, y)


@every_learner
def test_bad_comparisons(learner, labelled, pairs):
    X, y = labelled
    fresh = clone(learner)
    with pytest.raises(TypeError, match="Triplets"):
        fresh.fit(Triplets.from_labels(X, y, 10, random_state=0))
    with pytest.raises(ValueError, match="y has one class"):
        fresh.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="y is needed"):
        fresh.fit(Pairs(X, [0], [1]))
    with pytest.raises(ValueError, match="0 pairs"):
        fresh.fit(pairs[:0])
    with pytest.raises(ValueError, match="y must hold"):
        fresh.fit(np.zeros((4, 2, 3)), [1, 0, 1, 0])
    with pytest.raises(ValueError, match="label for each of the 90 rows"):
        fresh.fit(X, y[:-1])
    words = np.array(["ash", "beech", "oak"], dtype=object)[y]
    missing = np.where(np.arange(len(y)) == 3, np.nan, y)
    for labels in (
        missing,
        np.ma.masked_invalid(missing),
        [np.nan if row == 3 else word for row, word in enumerate(words)],
        [None if row == 3 else word for row, word in enumerate(words)],
        pd.Series([pd.NA if row == 3 else word for row, word in enumerate(words)]),
        pl.Series([None if row == 3 else word for row, word in enumerate(words)]),
    ):
        with pytest.raises(ValueError, match="row 3"):
            fresh.fit(X, labels)
    assert not hasattr(fresh, "metric_")


@every_learner
def test_a_refused_step_changes_nothing(learner, labelled, pairs):
    fitted = clone(learner).partial_fit(pairs)
    before, steps = fitted.metric_.matrix.copy(), fitted.n_steps_
    wrong = np.zeros(4)
    for attempt in (
        lambda: fitted.learn_one(wrong, wrong, True),
        lambda: fitted.learn_one(pairs.X[0], wrong, True),
        lambda: fitted.learn_one(pairs.X[0] * np.nan, pairs.X[1], True),
        lambda: fitted.learn_one(pairs.X[0], pairs.X[1], 0),
        lambda: fitted.learn_one(pairs.X[0], pairs.X[1] * 1e150, True),
        lambda: fitted.partial_fit(np.zeros((3, 2, 4)), [1, 1, -1]),
        lambda: fitted.partial_fit(np.full((3, 2, 5), np.nan), [1, 1, -1]),
        lambda: fitted.predict(np.zeros((3, 2, 4))),
        lambda: fitted.transform(np.zeros((3, 4))),
    ):
        with pytest.raises(ValueError):
            attempt()
    assert fitted.n_steps_ == steps
    np.testing.assert_array_equal(fitted.metric_.matrix, before)


@every_learner
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_degenerate_pairs_never_break_it(learner, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 5))
    X = rng.integers(0, 2, size=(n, d)).astype(float)  # many duplicates
    X[:, 0] = 1.0  # a constant feature
    X *= data.draw(st.sampled_from([1.0, 1e-150, 1e-30, 1e30, 1e59]))
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
    assert np.isfinite(fitted.decision_function(pairs)).all()
    starts_at_zero = isinstance(learner, MarginLearner) and getattr(learner, "init", "zero") == "zero"
    if similar.all() and starts_at_zero and getattr(learner, "variant", "I") != "LS":
        assert fitted.metric_.n_components == 0  # nothing was ever pushed apart


def test_files_are_checked(tmp_path, pairs):
    path = tmp_path / "model.safetensors"
    learner = mahala.PA().fit(pairs)
    learner.save(path)
    with pytest.raises(ModelFileError, match="load_learner"):
        Metric.load(path)
    with pytest.raises(ModelFileError, match="not a POLA"):
        mahala.POLA.load(path)
    learner.metric_.save(path)
    with pytest.raises(ModelFileError, match=r"Metric\.load"):
        mahala.load_learner(path)
    with pytest.raises(ValueError, match="kernel"):
        mahala.PA(kernel=lambda A, B: A @ B.T).fit(pairs).save(path)
    with pytest.raises(ValueError, match="random_state"):
        mahala.PA(random_state=np.random.RandomState(0)).fit(pairs).save(path)
    assert Metric.load(path).threshold == learner.threshold_  # refused writes leave the old file


def rewrite(path, header_changes=None, array_changes=None):
    header, arrays = read_model(path, "learner")
    write_model(path, "learner", arrays | (array_changes or {}), header | (header_changes or {}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learner", "os"),
        ("learner", "Pairs"),
        ("learner", None),
        ("params", {"variant": "nonsense"}),
        ("params", {"unknown": 1}),
        ("params", []),
        ("n_features_in", 7),
        ("n_features_in", -1),
        ("n_features_in", np.inf),
        ("n_features_in", 10**9),
        ("feature_names_in", "abcde"),
        ("feature_names_in", ["a"]),
        ("n_updates", [1, 2]),
        ("n_mistakes", -1),
        ("n_steps", np.inf),
        ("threshold", "high"),
        ("threshold", np.nan),
        ("threshold", np.inf),
        ("threshold", 10**400),
        ("mass", np.nan),
        ("loss", "small"),
        ("seed", -1),
        ("C", -1.0),
        ("C", 0.0),
        ("C", np.nan),
        ("random_state", {}),
        ("random_state", {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}, "has_uint32": 0, "uinteger": 0}),
    ],
)
def test_hostile_headers(tmp_path, pairs, key, value):
    path = tmp_path / "model.safetensors"
    mahala.PA().fit(pairs).save(path)
    rewrite(path, {key: value})
    with pytest.raises(ModelFileError, match="model"):
        mahala.load_learner(path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("R", np.ones((5, 1))),
        ("R", np.ones((4, 5))),
        ("R", np.full((5, 5), np.nan)),
        ("M", np.ones((5, 5), dtype=np.float32)),
        ("M", np.ones((4, 4))),
        ("M", np.full((5, 5), np.inf)),
        ("tuning", np.ones(2)),
        ("tuning", -np.ones(6)),
        ("history.p", np.ones(3)),
        ("history.y", np.ones(150)),
        ("history.ranks", np.ones(2, dtype=np.int64)),
    ],
)
def test_hostile_arrays_never_reach_compiled_code(tmp_path, pairs, name, array):
    path = tmp_path / "model.safetensors"
    mahala.PA().fit(pairs).save(path)
    rewrite(path, array_changes={name: array})
    with pytest.raises(ModelFileError, match="model"):
        mahala.load_learner(path)


@every_learner
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_refused_fit_leaves_the_learner_as_it_was(learner, labelled, method):
    X, y = labelled
    fresh = clone(learner)
    with pytest.raises(ValueError):
        getattr(fresh, method)(X[:, :3], np.zeros(len(X)))
    assert not hasattr(fresh, "n_features_in_")
    with pytest.raises(NotFittedError):
        fresh.save("nowhere")
    fitted = clone(learner).fit(X, y)
    before = fitted.transform(X)
    with pytest.raises(ValueError):
        getattr(fitted, method)(X[:, :3], np.zeros(len(X)))
    np.testing.assert_array_equal(fitted.transform(X), before)
    fitted.partial_fit(X, y)


def test_an_interrupted_fit_leaves_the_learner_as_it_was(pairs):
    def kernel(A, B):
        kernel.calls += 1
        if kernel.calls > kernel.most:
            raise KeyboardInterrupt
        return A @ B.T

    kernel.calls, kernel.most = 0, np.inf
    learner = mahala.PA(kernel=kernel, C="auto").fit(pairs)
    before, C = learner.decision_function(pairs), learner.C_
    kernel.calls, kernel.most = 0, 3
    with pytest.raises(KeyboardInterrupt):
        learner.fit(pairs[:20])
    kernel.most = np.inf
    assert learner.C_ == C
    np.testing.assert_array_equal(learner.decision_function(pairs), before)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals cannot be raised here")
def test_ctrl_c_in_a_stream_comes_after_the_step_and_its_record(pairs, monkeypatch):
    learner = mahala.PA().partial_fit(pairs[:50])
    feed = PairModel.feed

    def interrupted(*args):
        steps = feed(*args)
        signal.raise_signal(signal.SIGINT)
        return steps

    monkeypatch.setattr(PairModel, "feed", interrupted)
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


@every_learner
@pytest.mark.parametrize("more", [5, 100])
def test_a_model_in_a_read_only_map_goes_on(learner, tmp_path, pairs, more):
    start = clone(learner).partial_fit(pairs[:50])
    joblib.dump(start, tmp_path / "model.joblib")
    resumed = joblib.load(tmp_path / "model.joblib", mmap_mode="r").partial_fit(pairs[50 : 50 + more])
    start.partial_fit(pairs[50 : 50 + more])
    np.testing.assert_array_equal(resumed.metric_.matrix, start.metric_.matrix)
    assert len(resumed.history_) == len(start.history_) == 50 + more


@pytest.mark.parametrize("record", [True, False])
def test_a_record_may_begin_or_end_in_a_stream(tmp_path, pairs, record):
    learner = mahala.PA(record=record).partial_fit(pairs[:50]).set_params(record=not record).partial_fit(pairs[50:])
    learner.save(tmp_path / "model.safetensors")
    loaded = mahala.load_learner(tmp_path / "model.safetensors").set_params(record=True)
    assert len(loaded.history_) == (50 if record else 100)


def test_tuning_asked_for_too_late(tmp_path, pairs):
    learner = mahala.PA(C=0.5).fit(pairs).set_params(C="auto")
    assert not hasattr(learner, "C_")
    with pytest.raises(ValueError, match="C='auto'"):
        learner.partial_fit(pairs)
    learner.save(tmp_path / "model.safetensors")
    assert mahala.load_learner(tmp_path / "model.safetensors").fit(pairs).C_ in C_GRID


def test_correlated_features_are_a_stream_too():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(600, 1)) + 1e-3 * rng.normal(size=(600, 20)), np.zeros((1, 20))])
    pairs = Pairs(X, np.arange(600), np.full(600, 600), rng.random(600) < 0.5)
    whole, single = mahala.PA("hard").fit(pairs), mahala.PA("hard")
    feed_one_by_one(single, pairs)
    models_agree(single, whole, pairs)


@pytest.mark.parametrize("psd", ["every", "end"])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [("rbf", {"gamma": 0.1}), ("rbf", {"gamma": 1.0}), ("rbf", {"gamma": 10.0}), ("poly", {"degree": 6, "gamma": 1.0})],
)
def test_a_smooth_curve_in_order_is_a_stream_too(kernel, params, psd):
    """Each point lies nearly in the span of those before: squared distances are good to 1e-10 of the largest, and what
    is learned from distances between near points to as much as they are larger than that."""
    t = np.linspace(0, 6, 120)
    X = np.column_stack([np.cos(t), np.sin(t)])
    rng = np.random.default_rng(0)
    left = np.sort(rng.integers(1, 120, size=200))
    pairs = Pairs(X, left, (left * rng.random(200)).astype(int), rng.random(200) < 0.5)
    learner = mahala.PA(kernel=kernel, kernel_params=params, psd=psd)
    whole, single = clone(learner).fit(pairs), clone(learner)
    feed_one_by_one(single, pairs)
    models_agree(single, whole, pairs, rtol=1e-5)


def test_a_metric_file_says_where_it_comes_from(tmp_path, pairs):
    mahala.PA("II", C=0.5).fit(pairs).metric_.save(tmp_path / "metric.safetensors")
    metric = Metric.load(tmp_path / "metric.safetensors")
    for origin in (metric.origin, pickle.loads(pickle.dumps(metric)).origin):
        assert origin["learner"] == "PA"
        assert (origin["params"]["variant"], origin["params"]["C"]) == ("II", 0.5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_pairs_of_a_frame_keep_its_names(labelled, frame):
    X, y = labelled
    names = ["ash", "beech", "elm", "fir", "oak"]
    table = frame(dict(zip(names, X.T, strict=True)))
    pairs = pickle.loads(pickle.dumps(Pairs.from_labels(table, y, 50, random_state=0)))[10:]
    learner = mahala.PA().fit(pairs, pairs.y)
    assert list(learner.feature_names_in_) == names
    learner.transform(table)  # a warning would be an error
    assert {name for name, _ in learner.metric_.explain(X[0], X[1]).top(5)} == set(names)
    other = frame(dict(zip(reversed(names), X.T, strict=True)))
    with pytest.raises(ValueError, match="feature names"):
        learner.partial_fit(Pairs(other, [0], [1], [True]))


def test_no_pairs_no_predictions(pairs):
    assert mahala.PA().fit(pairs).predict(pairs[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y, p: mahala.PA().fit(p).transform(p), TypeError, "transform takes rows"),
        (lambda X, y, p: mahala.PA().fit(p).predict(Triplets.from_labels(X, y, 5)), TypeError, "got Triplets"),
        (lambda X, y, p: mahala.PA(init=np.eye(5)).fit(p), ValueError, "init must be"),
        (lambda X, y, p: mahala.PA(C=np.ones(2)).fit(p), ValueError, "C must be"),
        (lambda X, y, p: mahala.PA(kernel_params={"gamma": 1}).fit(p), ValueError, "kernel_params"),
        (lambda X, y, p: mahala.PA().learn_one(X[0], X[1], np.array([1, 1])), ValueError, "similar must be"),
        (lambda X, y, p: mahala.PA().learn_one(["a", "b"], X[1], True), ValueError, "x must be"),
        (lambda X, y, p: mahala.PA(n_pairs=0).fit(X, y), ValueError, "n_pairs must be"),
        (lambda X, y, p: mahala.PA().fit(X, X[:, 0]), ValueError, "continuous"),
        (lambda X, y, p: mahala.knn_error(mahala.PA().fit(p), X, y), TypeError, "metric_"),
    ],
)
def test_messages_name_the_argument(labelled, pairs, call, error, message):
    with pytest.raises(error, match=message):
        call(*labelled, pairs)


def test_generators_are_seeds_too(labelled):
    one, two = (mahala.PA(random_state=np.random.default_rng(3)).fit(*labelled).metric_.matrix for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_a_metric_can_start_a_learner_and_is_saved_with_it(tmp_path, pairs):
    start = mahala.PA().fit(pairs).metric_
    learner = mahala.PA(init=start).partial_fit(pairs[:5])
    learner.save(tmp_path / "state.safetensors")
    resumed = mahala.load_learner(tmp_path / "state.safetensors")
    np.testing.assert_array_equal(resumed.init.matrix, start.matrix)
    np.testing.assert_array_equal(resumed.metric_.matrix, learner.metric_.matrix)
