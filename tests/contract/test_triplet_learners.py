"""What every learner from triplets promises beside what every learner does."""

from __future__ import annotations

import signal

import joblib
import numpy as np
import pytest
import scipy
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV

import mahala
from contract.learners import TRIPLET_LEARNERS, case, parametrize, rewritten
from mahala import BilinearMetric, MahalanobisMetric, Triplets
from mahala.online.state.similarity import SimilarityState
from mahala.support.model_files import ModelFileError, read_model
from mahala.testing import dense, models_agree, tolerance
from strategies import examples

every_learner = parametrize(TRIPLET_LEARNERS)
every_stream = parametrize([learner for learner in TRIPLET_LEARNERS if learner.storage != "gram"])

# SciPy before 1.15 has no CSR arrays with one axis.
sparse_row = sp.csr_array if np.lib.NumpyVersion(scipy.__version__) >= "1.15.0" else sp.coo_array


@pytest.fixture
def triplets(labelled):
    X, y = labelled
    return Triplets.from_labels(X, y, 150, random_state=1)


# The metric


@every_learner
def test_scores_are_those_of_the_matrix(learner, labelled, triplets):
    X, y = labelled
    fitted = clone(learner).fit(triplets)
    metric = fitted.metric_
    M = dense(metric.matrix).astype(float)
    scores = np.einsum("ij,ij->i", X[triplets.anchor] @ M, X[triplets.positive] - X[triplets.negative])
    np.testing.assert_allclose(fitted.margins(triplets), scores, rtol=0, atol=1e-10 * np.abs(scores).max())
    np.testing.assert_array_equal(fitted.predict_comparisons(triplets), np.where(scores > 0, 1, -1))
    assert fitted.score(triplets) == np.mean(scores > 0)
    X, y = X[:30], y[:30]
    similarities = X @ M @ X.T
    np.testing.assert_allclose(metric.pairwise(X), similarities, atol=1e-10 * np.abs(similarities).max())
    precisions = []
    for row, label in enumerate(y):
        others = np.arange(len(y)) != row
        precisions.append(average_precision_score(y[others] == label, similarities[row, others]))
    assert fitted.score(X, y) == pytest.approx(np.mean(precisions))
    assert fitted.score(X, y) == pytest.approx(mahala.evaluation.mean_average_precision(metric, X, y))


@every_learner
def test_the_matrix_is_as_sparse_as_it_is(learner, labelled, triplets, monkeypatch):
    fitted = clone(learner).fit(triplets)
    metric, M = fitted.metric_, dense(fitted.metric_.matrix)
    assert isinstance(metric, BilinearMetric)
    assert fitted.sparsity_ == metric.sparsity == pytest.approx(np.mean(M == 0.0))
    if learner.storage == "sparse":
        assert sp.issparse(metric.matrix)
        assert metric.matrix.dtype == learner.dtype
        assert metric.matrix.nnz == np.count_nonzero(M)
    wide = sp.hstack([sp.csr_array(labelled[0]), sp.csr_array((90, 25))], format="csr")
    monkeypatch.setattr("mahala.online.state.similarity.SMALL", 100)
    spread = clone(learner).set_params(init="zero").fit(wide, labelled[1]).metric_
    assert sp.issparse(spread.matrix)  # in full storage, too, where 875 of 900 entries are zero
    assert spread.sparsity > 874 / 900
    assert np.count_nonzero(dense(spread.matrix)[:5, :5]) >= 20 or learner.lam > 0.0


@every_learner
def test_rankings_and_embeddings(learner, labelled, triplets):
    X, _ = labelled
    fitted = clone(learner).fit(triplets)
    metric = fitted.metric_
    M = dense(metric.matrix).astype(float)
    queries, items = X[:7], X[7:]
    scores = queries @ M @ items.T
    order = np.argsort(-scores, axis=1, kind="stable")
    np.testing.assert_array_equal(metric.rank(queries, items), order)
    np.testing.assert_array_equal(metric.rank(queries, items, k=5), order[:, :5])
    np.testing.assert_array_equal(metric.rank(queries[0], sp.csr_array(items), k=5), order[0, :5])
    embedded = metric.embed(queries)
    np.testing.assert_allclose(embedded, queries @ M, atol=1e-12 * np.abs(M).max())
    np.testing.assert_array_equal(fitted.transform(queries), embedded)
    np.testing.assert_array_equal(metric.embed(items, side="item"), items)
    for_csr = fitted.transform(sp.csr_array(queries))
    assert sp.issparse(for_csr) == sp.issparse(metric.matrix)
    np.testing.assert_allclose(dense(for_csr), embedded, atol=1e-12 * np.abs(embedded).max())
    assert fitted.get_feature_names_out().shape == (5,)


@parametrize([mahala.OASIS(n_triplets=300, random_state=0), mahala.SORS(n_triplets=300, random_state=0)])
def test_grid_search(learner, labelled, triplets):
    X, y = labelled
    name = "C" if isinstance(learner, mahala.OASIS) else "eta"
    search = GridSearchCV(learner, {name: [1e-9, 0.1]}, cv=3).fit(triplets)
    assert search.best_params_ == {name: 0.1}  # the other one hardly leaves the identity
    assert search.best_score_ > np.mean(mahala.OASIS(C=1e-300).fit(triplets).predict_comparisons(triplets) == 1)
    by_labels = GridSearchCV(learner, {name: [1e-9, 0.1]}, cv=3).fit(X, y)
    assert by_labels.best_params_ == {name: 0.1}
    euclidean = mahala.evaluation.mean_average_precision(BilinearMetric(np.eye(5)), X, y)
    assert euclidean < by_labels.best_score_ <= 1.0


# What triplets may be


@every_stream
def test_triplets_that_say_nothing(learner, triplets):
    """Zero vectors and equal items give no direction: a loss of 1, wrongly predicted, and no step."""
    triplets = triplets[:40]
    X = np.vstack([triplets.X, np.zeros(5), triplets.X[:1]])
    first = triplets.X.shape[0]
    for name, numbers in {
        "the anchor is zero": (first, 1, 2),
        "the items are zero": (0, first, first),
        "the items are one row": (0, 3, 3),
        "the items are equal": (1, 0, first + 1),
        "all are zero": (first, first, first),
    }.items():
        for rows in (X, sp.csr_array(X)):
            nothing = Triplets(rows, *([number] for number in numbers))
            with case(name):
                fitted = clone(learner).partial_fit(triplets)
                before = fitted.n_updates_
                assert fitted.learn_one(*(X[number] for number in numbers)) is False
                fitted.partial_fit(nothing)
                assert (fitted.n_steps_, fitted.n_updates_) == (42, before)
                np.testing.assert_array_equal(fitted.history_.p[-2:], [1.0, 1.0])
                np.testing.assert_array_equal(fitted.history_.tau[-2:], [0.0, 0.0])
                assert fitted.predict_comparisons(nothing).tolist() == [-1]
                # Where M shrinks in every step it shrinks in these, too; all else stays.
                same = clone(learner).partial_fit(triplets)
                if not hasattr(learner, "lam") and not learner.average:
                    np.testing.assert_array_equal(dense(fitted.metric_.matrix), dense(same.metric_.matrix))


def test_equal_rows_are_equal_by_inner_products_too():
    """What a matrix product makes of a row may depend on its place; here it does, for 37 rows, many of them equal."""
    rng = np.random.default_rng(0)
    copy_of = rng.integers(0, 18, size=37)
    X = rng.normal(size=(37, 33))[copy_of]
    positive, negative = np.nonzero((copy_of[:, None] == copy_of) & ~np.eye(37, dtype=bool))
    some = rng.integers(0, 37, (3, 100))
    triplets = Triplets(X, *np.hstack([some, [rng.integers(0, 37, len(positive)), positive, negative]]))
    for storage in ("gram", "dense"):
        learner = mahala.OASIS(storage=storage, shrinkage=0).fit(triplets)
        assert learner.history_.moved[:100].sum() > 50
        np.testing.assert_array_equal(learner.history_.p[100:], np.ones(len(positive)))
        np.testing.assert_array_equal(learner.history_.predicted[100:], np.full(len(positive), -1))


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_inner_products_keep_their_digits_far_from_the_origin(labelled, offset):
    X, y = labelled
    drawn = Triplets.from_labels(X, y, 500, random_state=0)
    anchors = np.where(np.arange(500) % 10 == 0, 90, drawn.anchor)  # some are zero, which is exact
    triplets = Triplets(np.vstack([X + offset, np.zeros(5)]), anchors, drawn.positive, drawn.negative)
    fitted, expected = (mahala.OASIS(storage=storage).fit(triplets) for storage in ("gram", "dense"))
    np.testing.assert_array_equal(fitted.history_.predicted, expected.history_.predicted)
    np.testing.assert_allclose(fitted.history_.p, expected.history_.p, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fitted.history_.p[::10], np.ones(50))
    M = expected.metric_.matrix
    np.testing.assert_allclose(fitted.metric_.matrix, M, rtol=0, atol=1e-9 * np.abs(M).max())


@every_stream
def test_one_comparison_in_many_forms(learner, triplets):
    expected = clone(learner).partial_fit(triplets)
    row = {name: triplets.X[getattr(triplets, name)[0]] for name in ("anchor", "positive", "negative")}
    want = expected.learn_one(*row.values())
    for name, forms in {
        "lists": (list, list, list),
        "float32": (np.float32, np.float32, np.float32),
        "sparse": (sparse_row, sp.csr_matrix, sp.coo_array),
        "sparse with 2 axes": (lambda x: sp.csr_array(x[None]), lambda x: sp.csr_matrix(x[None]), sp.coo_array),
        "mixed": (list, sparse_row, np.asarray),
    }.items():
        with case(name):
            fitted = clone(learner).partial_fit(triplets)
            got = fitted.learn_one(*(form(x) for form, x in zip(forms, row.values(), strict=True)))
            assert got == want
            models_agree(fitted, expected, triplets, rtol=1e-6 if name == "float32" else None)


@every_learner
def test_classes_with_one_member(learner, labelled):
    X, y = labelled
    lonely = np.where(np.arange(90) < 2, 100 + np.arange(90), y)
    fitted = clone(learner).fit(X, lonely)
    assert fitted.n_steps_ == 150
    assert np.isfinite(fitted.score(X, lonely))
    with pytest.raises(ValueError, match="y must hold a class of at least two rows"):
        clone(learner).fit(X[:4], ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="y must hold a class of at least two rows"):
        fitted.score(X[:4], ["a", "b", "c", "d"])
    assert fitted.n_steps_ == 150


@every_learner
def test_bad_triplets(learner, labelled, triplets):
    X, y = labelled
    fresh = clone(learner)
    with pytest.raises(ValueError, match="y must be None with triplets"):
        fresh.fit(triplets, np.ones(150))
    with pytest.raises(ValueError, match="y must be None with triplets"):
        fresh.fit(np.zeros((4, 3, 2)), np.ones(4))
    with pytest.raises(ValueError, match=r"array must have the shape \(n, 3, n_features\), got \(4, 2, 5\)"):
        fresh.fit(np.zeros((4, 2, 5)))
    for wrong in (0, -1, 2.5, "auto", None, True):
        with pytest.raises(ValueError, match="n_triplets must be an integer of at least 1"):
            clone(learner).set_params(n_triplets=wrong).fit(X, y)
    assert not hasattr(fresh, "n_features_in_")
    if learner.storage != "gram":
        with pytest.raises(ValueError, match="positive has 5 features and negative 4"):
            fresh.learn_one(X[0], X[1], X[2, :4])
        with pytest.raises(ValueError, match=r"negative must be one vector .* got a matrix of shape \(2, 5\)"):
            fresh.learn_one(X[0], X[1], sp.csr_array(X[:2]))
        with pytest.raises(ValueError, match="positive contains NaN"):
            fresh.learn_one(X[0], X[1] * np.nan, X[2])
    assert not hasattr(fresh, "n_features_in_")


@every_stream
def test_items_of_other_features(learner, labelled, tmp_path):
    X, y = labelled
    learner = clone(learner).set_params(init="zero")
    if getattr(learner, "penalty", "l1") == "offdiagonal":
        with pytest.raises(ValueError, match="penalty='offdiagonal' needs queries and items of the same features"):
            learner.fit(Triplets(X, [0], [1], [2], items=X[:, :3]))
        learner.set_params(penalty="l1")
    rng = np.random.default_rng(0)
    triplets = Triplets(X[:, :3], *rng.integers(0, 90, (3, 150)), items=X)
    fitted = clone(learner).fit(triplets)
    assert (fitted.n_features_in_, fitted.n_item_features_) == (3, 5)
    assert fitted.metric_.matrix.shape == (3, 5)
    assert fitted.transform(X[:, :3]).shape == (90, 5)
    single = clone(learner)
    for a, p, n in zip(triplets.anchor, triplets.positive, triplets.negative, strict=True):
        single.learn_one(X[a, :3], X[p], X[n])
    near = tolerance(learner) * np.abs(fitted.metric_.matrix).max()
    np.testing.assert_allclose(dense(single.metric_.matrix), dense(fitted.metric_.matrix), rtol=0, atol=near)
    fitted.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    assert loaded.n_item_features_ == 5
    np.testing.assert_array_equal(loaded.margins(triplets), fitted.margins(triplets))
    state = str(fitted._rng.bit_generator.state)
    for method in (fitted.partial_fit, fitted.margins):
        with pytest.raises(ValueError, match=r"items have 3 features, but .* was fitted with items of 5"):
            method(Triplets(X[:, :3], [0], [1], [2]))
    with pytest.raises(ValueError, match="items have 3 features"):
        fitted.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="items have 3 features"):
        fitted.score(X[:, :3], y)
    with pytest.raises(ValueError, match="init='identity' needs queries and items of the same features, got 3 and 5"):
        clone(learner).set_params(init="identity").fit(triplets)
    assert fitted.n_steps_ == 150
    assert str(fitted._rng.bit_generator.state) == state  # refused before anything was drawn


@every_learner
@pytest.mark.filterwarnings("ignore:.*cannot determine")
@examples(8)
@given(data=st.data())
def test_degenerate_triplets_never_break_it(learner, data, tmp_path_factory):
    """Whatever the scale, the model and its record are finite, and a file of them can be read.

    By inner products all features have one scale, since those of small ones drown in those of large ones.
    """
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, d = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    X = rng.integers(0, 2, size=(n, d)).astype(float)  # many duplicates
    X[:, 0] = 1.0  # a constant feature
    scales = st.sampled_from([1.0, 1e-150, 1e-80, 1e-30, 1e9, 1e12, 1e19, 1e30, 1e44])
    one_scale = learner.storage == "gram" or data.draw(st.booleans())
    X *= data.draw(scales) if one_scale else [data.draw(scales) for _ in range(d)]
    triplets = Triplets(X if data.draw(st.booleans()) else sp.csr_array(X), *rng.integers(0, n, size=(3, 30)))
    fitted = clone(learner).fit(triplets)
    assert np.isfinite(dense(fitted.metric_.matrix)).all()
    assert np.isfinite(fitted.margins(triplets)).all()
    assert np.isfinite(fitted.history_.p).all()
    assert np.isfinite(fitted.history_.tau).all()
    assert np.isfinite([fitted.loss_, fitted.squared_loss_]).all()
    path = tmp_path_factory.mktemp("state") / "model.safetensors"
    fitted.save(path)
    loaded = mahala.load(path)
    np.testing.assert_array_equal(dense(loaded.metric_.matrix), dense(fitted.metric_.matrix))
    if learner.storage != "gram":
        loaded.partial_fit(triplets)
        assert np.isfinite(dense(loaded.metric_.matrix)).all()


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e-9, 1e5, 1e12])
def test_float32_has_the_range_of_the_squares(labelled, storage, scale):
    """Squares of gradients, from 1e-36 to 1e48 here, are beyond float32; gradients and their sums H are not."""
    X, y = labelled
    triplets = Triplets.from_labels(scale * X, y, 150, random_state=0)
    fitted, expected = (
        mahala.AdaSORS(delta=1e-25, storage=storage, dtype=dtype).fit(triplets) for dtype in ("float32", "float64")
    )
    assert fitted.n_updates_ > 20
    models_agree(fitted, expected, triplets, rtol=1e-4)


def test_aroma_knows_its_rounding_errors():
    """With full covariances what is left of a variance after one large row is rounding error, of either sign; a step
    along it would throw M about by many orders of magnitude."""
    rng = np.random.default_rng(0)
    for scale in (1e3, 1e6, 1e30, 1e44):
        X = scale * rng.normal(size=(40, 6))
        learner = mahala.AROMA().fit(Triplets(X, *rng.integers(0, 40, (3, 500))))
        assert np.abs(learner.metric_.matrix).max() < 50


# Parameters


@pytest.mark.parametrize(
    ("kind", "name", "values", "message"),
    [
        (mahala.OASIS, "C", (0.0, -1.0, np.nan, np.inf, "large", None, True), "C must be 'auto' or a positive number"),
        (
            mahala.OGD,
            "eta",
            (0.0, -1.0, np.nan, np.inf, "large", None, True),
            "eta must be 'auto' or a positive number",
        ),
        (mahala.SORS, "eta", (0.0, -1.0, np.nan, np.inf, "large", None), "eta must be 'auto' or a positive number"),
        (mahala.SORS, "lam", (-1.0, np.nan, np.inf, "large", None), "lam must be a number of at least 0"),
        (mahala.SORS, "penalty", ("l2", None, 1, True), "penalty must be 'l1' or 'offdiagonal'"),
        (mahala.AdaSORS, "eta", (0.0, -1.0, np.nan, np.inf, "large", None), "eta must be 'auto' or a positive number"),
        (mahala.AdaSORS, "lam", (-1.0, np.nan, np.inf, "large", None), "lam must be a number of at least 0"),
        (mahala.AdaSORS, "delta", (0.0, -1.0, np.nan, np.inf, "large", None), "delta must be a positive number"),
        (mahala.AdaSORS, "penalty", ("l2", None, 1, True), "penalty must be 'l1' or 'offdiagonal'"),
        (
            mahala.AROMA,
            "r",
            (0.0, -1.0, 1e-80, np.nan, np.inf, "large", None),
            "r must be 'auto' or a number of at least 1e-50",
        ),
        (mahala.AROMA, "covariance", ("none", None, 1), "covariance must be 'full' or 'diagonal'"),
        *(
            (kind, name, values, message)
            for kind in (mahala.OASIS, mahala.OGD, mahala.SORS, mahala.AdaSORS, mahala.AROMA)
            for name, values, message in (
                ("init", ("random", None, 1.0, np.eye(5), MahalanobisMetric.euclidean(5)), "init must be"),
                ("average", ("no", None, 1), "average must be True or False"),
                ("storage", ("full", None, 1), "storage must be 'auto', 'dense', 'sparse' or 'gram'"),
                ("dtype", ("float16", None, np.float32, np.dtype("float32")), "dtype must be|dtype='float64'"),
                ("max_memory", (0, -1, np.nan, "all", True), "max_memory must be a positive number or None"),
            )
        ),
    ],
)
def test_bad_parameters(triplets, kind, name, values, message):
    for value in values:
        learner = kind(**{name: value})
        for method in ("fit", "partial_fit"):
            with case(value), pytest.raises(ValueError, match=message):
                getattr(learner, method)(triplets)
        assert not hasattr(learner, "n_features_in_")


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (mahala.SORS(eta=1e20, lam=1e300), "lam must be such that thresholds are finite"),
        (mahala.AdaSORS(lam=1e200, delta=1e-300), "lam must be such that thresholds are finite"),
        (mahala.SORS(storage="gram"), "SORS as it is set needs storage 'dense' or 'sparse'"),
        (mahala.AROMA(covariance="diagonal", storage="gram"), "AROMA as it is set needs storage 'dense' or 'sparse'"),
        (mahala.AROMA(storage="sparse"), "covariance='full' fills the whole matrix"),
        (mahala.OASIS(storage="gram", dtype="float32"), "storage='gram' is for"),
        (mahala.OASIS(storage="gram", init=BilinearMetric(np.eye(5))), "storage='gram' is for"),
        (mahala.OASIS(init=BilinearMetric(np.eye(4))), r"init must be a BilinearMetric of shape \(5, 5\)"),
        (mahala.OASIS(init=BilinearMetric(1e50 * np.eye(5))), r"init must have entries up to 1e\+25"),
    ],
)
def test_parameters_that_do_not_go_together(triplets, learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(triplets)
    assert not hasattr(learner, "n_features_in_")


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [
        (mahala.SORS(), "penalty", "offdiagonal"),
        (mahala.SORS(), "average", True),
        (mahala.OASIS(), "init", "zero"),
        (mahala.OASIS(), "dtype", "float32"),
        (mahala.OASIS(storage="dense"), "storage", "sparse"),
        (mahala.AROMA(), "covariance", "diagonal"),
    ],
)
def test_what_a_stream_cannot_change(triplets, tmp_path, learner, name, value):
    stream = clone(learner).partial_fit(triplets[:50]).set_params(**{name: value})
    for refused in (
        lambda: stream.partial_fit(triplets),
        lambda: stream.learn_one(*triplets.X[:3]),
        lambda: stream.save(tmp_path / "model.safetensors"),  # its parameters would not fit its arrays
    ):
        with pytest.raises(ValueError, match=f"{name} cannot change"):
            refused()
    assert stream.n_steps_ == 50
    assert not list(tmp_path.iterdir())
    assert stream.fit(triplets).n_steps_ == 150


@every_stream
def test_step_lengths_may_change_in_a_stream(learner, triplets, tmp_path):
    """Also in one that comes back from a file or a read-only map, to triplets of other features than before."""
    name = {mahala.OASIS: "C", mahala.AROMA: "r"}.get(type(learner), "eta")
    before = Triplets(triplets.X * [1, 1, 1, 0, 0], triplets.anchor, triplets.positive, triplets.negative)
    stream = clone(learner).partial_fit(before)
    stream.save(tmp_path / "model.safetensors")
    joblib.dump(stream, tmp_path / "model.joblib")
    others = mahala.load(tmp_path / "model.safetensors"), joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    unchanged = clone(stream).partial_fit(before).partial_fit(triplets)
    for each in (stream, *others):
        each.set_params(**{name: 1e-3}).partial_fit(triplets)
        np.testing.assert_array_equal(dense(each.metric_.matrix), dense(stream.metric_.matrix))
    assert not np.allclose(dense(stream.metric_.matrix), dense(unchanged.metric_.matrix))


def test_inner_products_are_for_fixed_rows(triplets, tmp_path):
    learner = mahala.OASIS(storage="gram").fit(triplets)
    for refused in (lambda: learner.partial_fit(triplets), lambda: learner.learn_one(*triplets.X[:3])):
        with pytest.raises(ValueError, match="storage='gram' holds the rows that were there from the start"):
            refused()
    with pytest.raises(ValueError, match="storage='gram' needs anchors and items from one X"):
        mahala.OASIS(storage="gram").fit(Triplets(triplets.X, [0], [1], [2], items=triplets.X))
    with pytest.raises(MemoryError, match="all inner products of 90 rows"):
        mahala.OASIS(storage="gram", max_memory=1e5).fit(triplets)
    learner.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.margins(triplets), learner.margins(triplets))
    with pytest.raises(ValueError, match="storage='gram'"):
        loaded.partial_fit(triplets)
    assert loaded.fit(triplets).n_steps_ == 150


@every_stream
def test_a_metric_can_start_a_learner_and_is_saved_with_it(learner, triplets, tmp_path):
    start = clone(learner).fit(triplets).metric_
    stream = clone(learner).set_params(init=start, average=False).partial_fit(triplets[:5])
    stream.save(tmp_path / "state.safetensors")
    resumed = mahala.load(tmp_path / "state.safetensors")
    np.testing.assert_array_equal(dense(resumed.init.matrix), dense(start.matrix))
    for each in (stream, resumed):
        each.partial_fit(triplets[5:])
    np.testing.assert_array_equal(dense(resumed.metric_.matrix), dense(stream.metric_.matrix))
    far = BilinearMetric(dense(start.matrix) + 5.0)
    other = clone(learner).set_params(init=far).partial_fit(triplets[:5])
    assert not np.allclose(dense(other.metric_.matrix), dense(stream.metric_.matrix))


# Interruptions


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals cannot be raised here")
@every_stream
def test_ctrl_c_in_a_stream_comes_after_the_step_and_its_record(learner, triplets, monkeypatch):
    stream = clone(learner).partial_fit(triplets[:50])
    feed = SimilarityState.feed

    def interrupted(*args):
        feed(*args)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SimilarityState, "feed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.partial_fit(triplets[50:])
    monkeypatch.undo()
    expected = clone(learner).partial_fit(triplets[:50]).partial_fit(triplets[50:])
    assert stream.n_steps_ == len(stream.history_) == 150
    np.testing.assert_array_equal(dense(stream.metric_.matrix), dense(expected.metric_.matrix))


# Files


def saved(learner, triplets, path):
    clone(learner).partial_fit(triplets).save(path)
    return read_model(path, "learner")


@every_stream
def test_hostile_headers(learner, triplets, tmp_path):
    path = tmp_path / "model.safetensors"
    header, _ = saved(learner, triplets, path)
    params, model = header["params"], header["model"]
    full = isinstance(learner, mahala.AROMA) and learner.covariance == "full"
    other_type = "float32" if learner.dtype == "float64" else "float64"
    other_storage = "sparse" if header["model"]["storage"] == "dense" else "dense"
    hostile = [
        {"params": params | {"average": not learner.average}},
        {"params": params | {"dtype": other_type}},
        {"params": params | {"init": "nonsense"}},
        {"params": params | {"init": {"metric": {}}}},
        {"params": params | {"storage": "nonsense"}},
        *({"n_item_features": value} for value in (3, 0, -1, 2.5, "five", None, 10**30)),
        *({"storage": value} for value in ("nonsense", None, 1)),
        *([] if full else [{"storage": other_storage}]),  # full covariances are held in one way only
        *({"model": value} for value in ({}, None, [], "nonsense")),
        {"model": model | {"clock": 151}},
        {"model": model | {"delta": 0.0}},
        {"model": model | {"exempt_diagonal": not model["exempt_diagonal"]}},
        {"model": model | {"theta": 1e300, "delta": 1e-300}},
        {"n_steps": 10**30},
    ]
    for changes in hostile:
        with case(changes), pytest.raises(ModelFileError, match="model"):
            mahala.load(rewritten(path, changes))


def wrong_structure(arrays, shape):
    """A sparse model whose parts do not fit together."""
    features, indptr, columns = (arrays[f"model.{name}"] for name in ("features", "indptr", "columns"))
    n = len(features)
    swapped = indptr.copy()
    swapped[1], swapped[2] = indptr[2], indptr[1] - 1
    return {
        "features": {
            "negative": np.where(features == 0, -1, features),
            "too large": np.where(features == 0, max(shape), features),
            "enormous": np.where(features == 0, 2**40, features),
            "twice": np.where(features == features[1], features[0], features),
            "too few": features[:-1],
            "too many": np.append(features, max(shape)),
        },
        "indptr": {
            "does not begin": indptr + 1,
            "decreasing": swapped,
            "beyond the end": np.append(indptr[:-1], indptr[-1] + 1),
            "enormous": np.append(indptr[:-1], 2**40),
            "negative": np.append(indptr[:1] - 1, indptr[1:]),
            "too short": indptr[: n - 1],
            "entries of no feature": np.append(np.where(np.arange(len(indptr)) < n, indptr, indptr[n - 1]), indptr[-1]),
            "empty": indptr[:0],
        },
        "columns": {
            "negative": np.where(np.arange(len(columns)) == 3, -1, columns).astype(np.int32),
            "too large": np.where(np.arange(len(columns)) == 3, n, columns).astype(np.int32),
            "enormous": np.where(np.arange(len(columns)) == 3, 2**31 - 1, columns).astype(np.int32),
            "too few": columns[:-1],
        },
    }


@every_stream
def test_hostile_arrays_never_reach_compiled_code(learner, triplets, tmp_path):
    path = tmp_path / "model.safetensors"
    _, arrays = saved(learner, triplets, path)
    own = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
    width, adaptive, _ = clone(learner).partial_fit(triplets)._model.layout
    hostile = {}
    for name in {"Lambda", "Gamma"} & set(own):
        hostile[name] = {"too large": 2.0 * np.eye(5), "lopsided": own[name] + 0.1 * np.eye(5, k=1)}
    if "payload" in own:
        hostile |= wrong_structure(arrays, (5, 5))
    held_in = next((name for name in ("planes", "payload") if name in own), None)
    if held_in is not None and width > 1:
        array, entries = own[held_in], hostile.setdefault(held_in, {})
        kept = array.swapaxes(0, 1) if array.ndim == 3 else array.reshape(-1, width).T
        wrong = {"written in the future": (1, 151.0), "written before the first step": (1, -1.0)}
        if adaptive:
            wrong["a negative sum of squares"] = (2, -0.5)
        for what, (kind, value) in wrong.items():
            changed = kept.copy()
            changed[kind].flat[0] = value
            entries[what] = changed.swapaxes(0, 1).copy() if array.ndim == 3 else changed.T.ravel().copy()
    for name, replacements in hostile.items():
        for what, array in replacements.items():
            with case(f"{name}: {what}"), pytest.raises(ModelFileError, match="model"):
                mahala.load(rewritten(path, arrays={f"model.{name}": array}))
    mahala.load(path)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_no_entries_outside_of_the_matrix(labelled, tmp_path, shape):
    X, _ = labelled
    path = tmp_path / "model.safetensors"
    rng = np.random.default_rng(0)
    triplets = Triplets(X[:, : shape[0]], *rng.integers(0, 90, (3, 50)), items=X[:, : shape[1]])
    mahala.SORS(init="zero", storage="sparse").fit(triplets).save(path)
    for change in ({"n_features_in": shape[0] - 1}, {"n_item_features": shape[1] - 1}):
        with case(change), pytest.raises(ModelFileError, match=r"outside of a matrix|different features"):
            mahala.load(rewritten(path, change))
