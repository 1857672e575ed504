"""The similarity learners against the papers' pseudo-code, in every storage."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone

import mahala
from mahala import BilinearMetric, Triplets
from mahala.online.state.dense import fit_gram
from mahala.online.state.similarity import SimilarityState
from mahala.online.state.sparse import SparseState
from reference import online_triplets as reference
from strategies import examples

pytestmark = pytest.mark.usefixtures("as_published")

# Step lengths with few digits: where the values are whole numbers all sums are then exact, and ties are ties.
ETA, LAM, DELTA, C, R = 0.125, 0.0625, 0.25, 0.0625, 2.0
CASES = {
    "OGD": (mahala.OGD(ETA), lambda t, M, m=1.0: reference.ogd(t, M, ETA, m)),
    "OASIS": (mahala.OASIS(C), lambda t, M, m=1.0: reference.oasis(t, M, C, m)),
    "SORS-I": (mahala.SORS(ETA, lam=LAM), lambda t, M, m=1.0: reference.sors(t, M, ETA, LAM, False, m)),
    "SORS-II": (
        mahala.SORS(ETA, lam=LAM, penalty="offdiagonal"),
        lambda t, M, m=1.0: reference.sors(t, M, ETA, LAM, True, m),
    ),
    "AdaSORS-I": (
        mahala.AdaSORS(ETA, lam=LAM, delta=DELTA),
        lambda t, M, m=1.0: reference.adasors(t, M, ETA, LAM, DELTA, False, m),
    ),
    "AdaSORS-II": (
        mahala.AdaSORS(ETA, lam=LAM, delta=DELTA, penalty="offdiagonal"),
        lambda t, M, m=1.0: reference.adasors(t, M, ETA, LAM, DELTA, True, m),
    ),
    "AROMA": (mahala.AROMA(R), lambda t, M, m=1.0: reference.aroma(t, M, R, False, m)),
    "AROMA diagonal": (mahala.AROMA(R, covariance="diagonal"), lambda t, M, m=1.0: reference.aroma(t, M, R, True, m)),
}
STORAGES = {name: ("dense", "sparse", "gram") if name in ("OGD", "OASIS") else ("dense", "sparse") for name in CASES}
STORAGES["AROMA"] = ("dense",)
BOTH = [(name, storage) for name in CASES for storage in STORAGES[name]]
every_case = pytest.mark.parametrize(("name", "storage"), BOTH)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def spelled_out(triplets):
    """The triplets as dense vectors."""
    items = triplets.X if triplets.items is None else triplets.items
    X, Y = dense(triplets.X).astype(float), dense(items).astype(float)
    return [(X[a], Y[p], Y[n]) for a, p, n in zip(triplets.anchor, triplets.positive, triplets.negative, strict=True)]


@st.composite
def triplet_streams(draw, max_n=80, max_d=150):
    """Repeated, overlapping and degenerate triplets over rows with zeros, duplicates and few directions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 12)), draw(st.sampled_from([1, 2, 5, 63, 64, 65, max_d]))
    X = rng.normal(size=(n, d))
    kind = draw(st.sampled_from(["normal", "integers", "duplicates", "low rank"]))
    if kind == "integers":
        X = rng.integers(-1, 2, size=(n, d)).astype(float)
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 3), size=n)]
    elif kind == "low rank":
        X = rng.normal(size=(n, 1)) @ rng.normal(size=(1, d))
    X = X * (rng.random(X.shape) < draw(st.sampled_from([0.05, 0.5, 1.0]))) / draw(st.sampled_from([1.0, 8.0]))
    X[rng.random(n) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    rows = rng.integers(0, n, size=(3, draw(st.integers(1, max_n))))
    return Triplets(sp.csr_matrix(X) if draw(st.booleans()) else X, *rows)


def assume_no_ties(learner, losses):
    """At a tie rounding decides whether AROMA's covariances shrink; others do not move there, unless it is inexact.

    That is so in the learner or in the reference, whose losses these are.
    """
    for p in (np.abs(learner.history_.p), np.asarray(losses)):
        assume(not ((p > 0.0) & (p < 1e-12)).any())
    assume(not isinstance(learner, mahala.AROMA) or not (learner.history_.p == 0.0).any())


def agree(learner, expected, average):
    M, mean, losses = expected
    want = mean if average else M
    got = dense(learner.metric_.matrix)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * max(1.0, np.abs(want).max()))
    np.testing.assert_allclose(learner.history_.loss, losses, rtol=1e-10, atol=1e-10)


@every_case
@examples(7)
@given(triplets=triplet_streams(), average=st.booleans(), margin=st.sampled_from([1.0, 0.125]))
def test_equals_the_papers_algorithm(name, storage, triplets, average, margin):
    learner, expected = CASES[name]
    changed = {"storage": storage, "average": average, "margin": margin}
    fitted = type(learner)(**learner.get_params() | changed).fit(triplets)
    found = expected(spelled_out(triplets), np.eye(triplets.n_features), margin)
    assume_no_ties(fitted, found[2])
    agree(fitted, found, average)


AUTO = [mahala.OASIS("auto"), mahala.OGD("auto"), mahala.SORS("auto"), mahala.AdaSORS("auto"), mahala.AROMA("auto")]


@pytest.mark.parametrize("learner", AUTO, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("sparse", [False, True])
def test_automatic_margins_and_steps_are_on_the_scale_of_the_similarities(learner, sparse, tmp_path):
    rng = np.random.default_rng(0)
    X, numbers = rng.normal(size=(40, 6)), rng.integers(0, 40, (3, 300))
    triplets = Triplets(sp.csr_matrix(X) if sparse else X, *numbers)
    x, q = X[numbers[0]], X[numbers[1]] - X[numbers[2]]
    gaps = abs(np.einsum("ij,ij->i", x, q))
    sizes = np.linalg.norm(x, axis=1) * np.linalg.norm(X[numbers[1]], axis=1)
    stream = type(learner)(**learner.get_params() | {"margin": "auto"}).partial_fit(triplets)
    gap = np.sort(gaps[:100])[49]  # the lower one of the two in the middle
    assert stream.margin_ == pytest.approx(gap)
    steps = {mahala.OASIS: reference.oasis, mahala.OGD: reference.ogd}
    if type(learner) in steps:
        M = np.eye(6)
        for t, triplet in enumerate(spelled_out(triplets)):
            n = min(t + 1, 100)
            g, s = np.sort(gaps[:n])[(n - 1) // 2], np.sort(sizes[:n])[(n - 1) // 2]
            M = steps[type(learner)]([triplet], M, g**2 / s**3, g)[0]
        np.testing.assert_allclose(dense(stream.metric_.matrix), M, atol=1e-9)
    # Vectors that are ten times as long: the same similarities, up to their scale.
    longer = type(learner)(**stream.get_params()).fit(Triplets(10 * X, *numbers))
    assert longer.margin_ == pytest.approx(100 * gap)
    if not isinstance(learner, mahala.SORS):  # whose thresholds have a scale of their own
        np.testing.assert_array_equal(longer.history_.predicted, stream.history_.predicted)
    stream.save(tmp_path / "stream.safetensors")
    resumed = mahala.load(tmp_path / "stream.safetensors")
    for either in stream, resumed:
        either.partial_fit(Triplets(3 * X, *numbers))  # the scales stay those of the first comparisons
    assert resumed.margin_ == stream.margin_ == pytest.approx(gap)
    np.testing.assert_array_equal(dense(resumed.metric_.matrix), dense(stream.metric_.matrix))


def test_automatic_margins_without_a_scale_are_the_papers():
    zero = Triplets(np.zeros((3, 2)), [0], [1], [2])
    assert mahala.OASIS("auto", margin="auto").fit(zero).margin_ == 1.0
    other = Triplets(np.ones((1, 2)), [0], [0], [1], items=np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"margin='auto' compares inner products .* got 2 and 3; give a number"):
        mahala.OASIS(margin="auto", init="zero").fit(other)
    with pytest.raises(ValueError, match="margin must be 'auto' or a positive number up to"):
        mahala.OASIS(margin=0.0).fit(zero)


@pytest.mark.parametrize(("name", "storage"), [case for case in BOTH if case[1] != "gram"])
@examples(7)
@given(triplets=triplet_streams(), average=st.booleans(), data=st.data())
def test_equals_it_in_any_chunks_and_through_any_file(name, storage, triplets, average, data, tmp_path_factory):
    """The first steps may be NumPy's, the others are a kernel's."""
    n_first = data.draw(st.sampled_from([0, 20, 80]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mahala.online.state.dense.most_steps", lambda work: n_first)
        patch.setattr("mahala.online.aroma.are_few", lambda n_steps, work: n_steps <= n_first)
        _equals_it(name, storage, triplets, average, data, tmp_path_factory)


def _equals_it(name, storage, triplets, average, data, tmp_path_factory):
    learner, expected = CASES[name]
    changed = {"storage": storage, "average": average, "margin": 0.125}
    stream = type(learner)(**learner.get_params() | changed)
    cuts = sorted(data.draw(st.lists(st.integers(1, max(1, len(triplets) - 1)), max_size=4, unique=True)))
    for part in np.split(np.arange(len(triplets)), cuts):
        if len(part):
            stream.partial_fit(triplets[part])
            how = data.draw(st.sampled_from(["go on", "pickle", "file", "settle"]))
            if how == "pickle":
                stream = pickle.loads(pickle.dumps(stream))
            elif how == "file":
                path = tmp_path_factory.mktemp("state") / "stream.safetensors"
                stream.save(path)
                stream = mahala.load(path)
            elif how == "settle":
                stream._model.settle()
    found = expected(spelled_out(triplets), np.eye(triplets.n_features), 0.125)
    assume_no_ties(stream, found[2])
    agree(stream, found, average)


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith("-II")])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("shape", "average"), [((4, 9), False), ((70, 3), True)])
def test_queries_and_items_may_have_different_features(name, storage, shape, average):
    learner, expected = CASES[name]
    if storage not in STORAGES[name]:
        pytest.skip(f"{name} has no storage {storage!r}")
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, shape[0])), sp.random(30, shape[1], 0.4, format="csr", random_state=1)
    triplets = Triplets(X, rng.integers(0, 20, 60), *rng.integers(0, 30, (2, 60)), items=Y)
    learner = type(learner)(**learner.get_params() | {"storage": storage, "average": average, "init": "zero"})
    agree(learner.fit(triplets), expected(spelled_out(triplets), np.zeros(shape)), average)
    with pytest.raises(ValueError, match="init='identity' needs"):
        type(learner)(**learner.get_params() | {"init": "identity"}).fit(triplets)
    with pytest.raises(ValueError, match=f"items have {shape[1]} features|triplets have"):
        learner.partial_fit(Triplets(Y, [0], [1], [2], items=Y))
    scores = learner.margins(triplets)
    M = dense(learner.metric_.matrix)
    np.testing.assert_allclose(scores, [x @ M @ (p - n) for x, p, n in spelled_out(triplets)], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("average", "sparse_start"), [(False, True), (True, False)])
def test_starts_from_any_metric(name, storage, average, sparse_start):
    learner, expected = CASES[name]
    if storage not in STORAGES[name]:
        pytest.skip(f"{name} has no storage {storage!r}")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(15, 70)) * (rng.random((15, 70)) < 0.3)
    start = rng.normal(size=(70, 70)) * (rng.random((70, 70)) < 0.2)
    triplets = Triplets(X, *rng.integers(0, 15, (3, 50)))
    metric = BilinearMetric(sp.csr_array(start) if sparse_start else start)
    learner = type(learner)(**learner.get_params() | {"storage": storage, "average": average, "init": metric})
    agree(learner.fit(triplets), expected(spelled_out(triplets), start), average)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("average", [False, True])
def test_parameters_may_change_in_a_stream(storage, average):
    """Thresholds that have come together under the old parameters are the old ones."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(12, 8)) * (rng.random((12, 8)) < 0.4)
    triplets = Triplets(X, *rng.integers(0, 12, (3, 80)))
    first, second = spelled_out(triplets[:40]), spelled_out(triplets[40:])
    stream = mahala.SORS(0.1, lam=0.05, storage=storage, average=average).partial_fit(triplets[:40])
    stream.set_params(eta=0.2, lam=0.01).partial_fit(triplets[40:])
    M, mean, _ = reference.sors(first, np.eye(8), 0.1, 0.05, False)
    M, mean_2, _ = reference.sors(second, M, 0.2, 0.01, False)
    want = (mean + mean_2) / 2 if average else M
    np.testing.assert_allclose(dense(stream.metric_.matrix), want, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="penalty cannot change"):
        stream.set_params(penalty="offdiagonal").partial_fit(triplets)


# Kernels of dense storage take seconds to compile for float32, and SORS has one of its own only without a mean.
@pytest.mark.parametrize(
    ("name", "storage"),
    [
        *((name, "sparse") for name in ("OGD", "OASIS", "SORS-I", "AdaSORS-I", "AROMA diagonal")),
        *((name, "dense") for name in ("OGD", "OASIS", "AdaSORS-I", "AROMA diagonal")),
    ],
)
def test_float32_is_close(name, storage):
    learner, expected = CASES[name]
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 90)) * (rng.random((30, 90)) < 0.3)
    triplets = Triplets(X / np.linalg.norm(X, axis=1, keepdims=True), *rng.integers(0, 30, (3, 150)))
    learner = type(learner)(**learner.get_params() | {"storage": storage, "dtype": "float32"}).fit(triplets)
    M, _, _ = expected(spelled_out(triplets), np.eye(90))
    np.testing.assert_allclose(dense(learner.metric_.matrix), M, rtol=0, atol=1e-4 * np.abs(M).max())


@pytest.mark.parametrize(
    ("learner", "storage"),
    [
        *((learner, "sparse") for learner in (mahala.OGD(1e-3), mahala.SORS(1e-3, lam=1e-4), mahala.AdaSORS(1e-3))),
        *((learner, "dense") for learner in (mahala.OGD(1e-3), mahala.SORS(1e-3, lam=1e-4))),
    ],
    ids=repr,
)
def test_sums_in_float32_lose_no_terms(learner, storage):
    """A sum of 2^27, as after as many steps, plus 1 is 2^27 in float32: the terms of 400 steps would be lost."""
    rng = np.random.default_rng(8)
    X, numbers = 1.0 + rng.random((9, 4)), rng.integers(0, 9, (3, 400))
    sums = []
    for dtype in ("float32", "float64"):
        params = {"dtype": dtype, "average": True, "storage": storage}
        stream = clone(learner).set_params(**params).partial_fit(Triplets(X, *numbers[:, :20]))
        model = stream._model
        header, arrays = model.get_state()
        S = arrays["planes"][:, -1] if "planes" in arrays else arrays["payload"].reshape(-1, model.layout[0])[:, -1]
        S += 2.0**27
        model.set_state(header, arrays)
        stream.partial_fit(Triplets(X, *numbers))
        sums.append(dense(model.matrix()).astype(float) * model.n_steps - 2.0**27)
    assert np.diag(sums[1]).min() > 390
    # In float32 the sums of before are rounded to multiples of 16, and so are those that a sparse metric is made of.
    np.testing.assert_allclose(*sums, rtol=0, atol=16.0)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_aroma_in_float32_loses_no_small_steps(storage):
    """Float32 has no number between 1 and 1 + 1.2e-7: rounded to the nearest, M would not change in steps of 5e-8."""
    rng = np.random.default_rng(8)
    X = np.concatenate([rng.random((5, 2)), 1.0 + rng.random((5, 2))])
    positive, negative = rng.integers(5, 10, 20_000), rng.integers(0, 5, 20_000)
    triplets = Triplets(X, positive, positive, negative)
    changes = []
    for dtype in ("float32", "float64"):
        stream = mahala.AROMA(1e8, covariance="diagonal", margin=5.0, storage=storage, dtype=dtype)
        changes.append(dense(stream.partial_fit(triplets).metric_.matrix).astype(float) - np.eye(2))
    np.testing.assert_allclose(*changes, rtol=0, atol=0.1 * np.diag(changes[1]).min())


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_adagrad_in_float32_loses_no_small_gradients(storage):
    """After some ten million steps H is 2^13, and a step adds 3e-4 at most: less than half of float32's precision."""
    rng = np.random.default_rng(8)
    triplets = Triplets(1.5 * rng.random((9, 2)), *rng.integers(0, 9, (3, 20_000)))

    def sums(arrays):
        return arrays["planes"][:, 2] if "planes" in arrays else arrays["payload"].reshape(-1, 3)[:, 2]

    growths = []
    for dtype in ("float32", "float64"):
        stream = mahala.AdaSORS(1e-3, margin=100.0, storage=storage, dtype=dtype).partial_fit(triplets[:20])
        header, arrays = stream._model.get_state()
        sums(arrays)[:] = 2.0**13
        stream._model.set_state(header, arrays)
        H = sums(stream.partial_fit(triplets)._model.get_state()[1])
        growths.append(H.astype(float) - 2.0**13)
    np.testing.assert_allclose(*growths, rtol=0.2)


def test_the_clock_of_float32_starts_again_before_it_loses_steps(monkeypatch):
    """Whole numbers in float32 are exact up to 2^24; here, to be quick, a clock that must start again every 8 steps."""
    rng = np.random.default_rng(7)
    triplets = Triplets(rng.normal(size=(9, 6)), *rng.integers(0, 9, (3, 100)))
    finfo = np.finfo

    class Short:
        def __init__(self, dtype):
            self.nmant = 2

    monkeypatch.setattr("mahala.online.state.similarity.np.finfo", Short)
    settled = []
    monkeypatch.setattr(SimilarityState, "settle", _counting(SimilarityState.settle, settled))
    learners = [
        mahala.SORS(0.1, lam=0.05, storage=storage, average=a).fit(triplets)
        for storage in ("dense", "sparse")
        for a in (False, True)
    ]
    monkeypatch.setattr("mahala.online.state.similarity.np.finfo", finfo)
    assert len(settled) == 4 * (100 // 7)
    M, mean, _ = reference.sors(spelled_out(triplets), np.eye(6), 0.1, 0.05, False)
    for learner in learners:
        want = mean if learner.average else M
        np.testing.assert_allclose(dense(learner.metric_.matrix), want, rtol=0, atol=1e-12)


def _counting(function, calls):
    def counted(self):
        calls.append(self)
        function(self)

    return counted


def sparse_text(n=60, d=4000, nnz=15, seed=0):
    """Rows with few of many features, frequent ones more often, as words are."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.3, size=(n, nnz)) - 1, d - 1)
    X = sp.csr_matrix((rng.random(n * nnz), columns.ravel(), np.arange(0, n * nnz + 1, nnz)), shape=(n, d))
    X.sum_duplicates()
    return X, rng.integers(0, 3, size=n)


@pytest.mark.parametrize("name", ["OASIS", "SORS-II", "AdaSORS-I", "AROMA diagonal"])
def test_known_and_open_streams_are_the_same(name):
    """With the room that a known stream reserves, and with room made step by step as the store fills."""
    learner, _ = CASES[name]
    X, y = sparse_text(d=1000)
    triplets = Triplets.from_labels(X, y, 400, random_state=0)

    def make(**kw):
        return type(learner)(**learner.get_params() | {"storage": "sparse"} | kw)

    known, opened, full = make().fit(triplets), make(), make(storage="dense").fit(triplets)
    for start in range(0, 400, 23):
        opened.partial_fit(triplets[start : start + 23])
    assert sp.issparse(known.metric_.matrix)
    for other in (opened, full):
        difference = abs(known.metric_.matrix - sp.csr_array(other.metric_.matrix))
        assert difference.max() < 1e-12
    assert known.sparsity_ == pytest.approx(full.sparsity_, abs=1e-6)
    assert known._model.store.tails[2] >= opened._model.store.tails[2]


def test_small_rooms_grow(monkeypatch):
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_PAYLOAD", 4)
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_TABLE", 4)
    X, y = sparse_text(d=1000, seed=1)
    triplets = Triplets.from_labels(X, y, 150, random_state=0)
    opened = mahala.AdaSORS(0.1, lam=0.01, storage="sparse").partial_fit(triplets)
    known = mahala.AdaSORS(0.1, lam=0.01, storage="dense").fit(triplets)
    assert abs(opened.metric_.matrix - sp.csr_array(known.metric_.matrix)).max() < 1e-12


def test_memory_is_refused_in_words():
    X, y = sparse_text()
    with pytest.raises(MemoryError, match=r"GiB.*max_memory"):
        mahala.SORS(max_memory=10_000, n_triplets=1000).fit(X, y)
    with pytest.raises(MemoryError, match=r"full matrix of 4000 × 4000.*max_memory"):
        mahala.SORS(max_memory=1e6, storage="dense", n_triplets=1000).fit(X, y)
    with pytest.raises(MemoryError, match="covariance='diagonal'"):
        mahala.AROMA(max_memory=1e6, n_triplets=1000).fit(X, y)


def test_a_stream_that_runs_out_of_memory_stands_at_its_last_step(monkeypatch):
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_PAYLOAD", 64)
    X, y = sparse_text()
    triplets = Triplets.from_labels(X, y, 3000, random_state=0)
    learner = mahala.OASIS(storage="sparse", max_memory=200_000)
    with pytest.raises(MemoryError, match="max_memory"):
        learner.partial_fit(triplets[:1]).partial_fit(triplets[1:])
    n = learner.n_steps_
    assert 0 < n < 3000
    assert len(learner.history_) == n
    expected = mahala.OASIS(storage="sparse").partial_fit(triplets[:n])
    assert abs(learner.metric_.matrix - expected.metric_.matrix).max() < 1e-12
    learner.set_params(max_memory=None).partial_fit(triplets[n:])
    expected.partial_fit(triplets[n:])
    assert abs(learner.metric_.matrix - expected.metric_.matrix).max() < 1e-12


def test_sors_forgets_zeros_rather_than_run_out_of_memory(monkeypatch):
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_PAYLOAD", 64)
    X, y = sparse_text()
    triplets = Triplets.from_labels(X, y, 3000, random_state=0)
    dropped = []
    drop = SparseState._drop_zeros
    monkeypatch.setattr(SparseState, "_drop_zeros", lambda self: dropped.append(drop(self)) or dropped[-1])
    learner = mahala.SORS(0.1, lam=0.5, storage="sparse", max_memory=200_000).partial_fit(triplets)
    assert dropped
    assert all(dropped)
    expected = mahala.SORS(0.1, lam=0.5, storage="dense").partial_fit(triplets)
    assert abs(learner.metric_.matrix - sp.csr_array(expected.metric_.matrix)).max() < 1e-12


def test_a_million_features_cost_what_is_touched():
    X, y = sparse_text()
    wide = sp.csr_matrix((X.data, X.indices.astype(np.int64) * 250, X.indptr), shape=(60, 1_000_000))
    narrow = mahala.SORS(n_triplets=300, random_state=0, storage="sparse").fit(X, y)
    learner = mahala.SORS(n_triplets=300, random_state=0).fit(wide, y)
    M, expected = learner.metric_.matrix, narrow.metric_.matrix
    assert M.shape == (1_000_000, 1_000_000)
    assert abs(M[::250][:, ::250] - expected).max() == 0.0
    assert M.nnz == expected.nnz + 1_000_000 - 4000
    before = learner.n_steps_
    learner.learn_one(wide[0], wide[1], wide[2])
    assert learner.n_steps_ == before + 1


@pytest.mark.parametrize("name", CASES)
def test_auto_storage_is_one_of_the_storages(name):
    learner, _ = CASES[name]
    X, y = sparse_text(d=500)
    triplets = Triplets.from_labels(X, y, 500, random_state=0)
    auto = type(learner)(**learner.get_params()).fit(triplets)
    forced = type(learner)(**learner.get_params() | {"storage": STORAGES[name][0]}).fit(triplets)
    np.testing.assert_allclose(dense(auto.metric_.matrix), dense(forced.metric_.matrix), atol=1e-12)


@pytest.mark.parametrize("average", [False, True])
def test_a_gram_fit_goes_on_as_a_stream(average, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 40)), np.arange(20) % 3
    triplets = Triplets.from_labels(X, y, 500, random_state=0)
    used = []
    monkeypatch.setattr("mahala.online.state.dense.most_steps", lambda work: 0)
    monkeypatch.setattr("mahala.online.similarity_learner.fit_gram", lambda *args: used.append(args) or fit_gram(*args))
    by_gram = mahala.OASIS(0.1, average=average).fit(triplets).partial_fit(triplets[:100])
    assert used
    plain = mahala.OASIS(0.1, storage="dense", average=average).fit(triplets).partial_fit(triplets[:100])
    np.testing.assert_allclose(by_gram.metric_.matrix, plain.metric_.matrix, rtol=0, atol=1e-10)


def test_sums_that_cancel_are_zero_through_inner_products_too():
    W = sp.random(6, 4000, 0.01, format="csr", random_state=0)
    triplets = Triplets(W, [0, 0, 1], [1, 2, 3], [2, 1, 4])
    for average in (False, True):
        gram, plain = (
            mahala.OGD(0.1, average=average, storage=storage).fit(triplets) for storage in ("gram", "sparse")
        )
        assert abs(gram.metric_.matrix - plain.metric_.matrix).max() < 1e-12
    rng = np.random.default_rng(1)
    X = (rng.random((40, 300)) < 0.2).astype(float)
    X[:, :30] = 1.0  # features that no difference has
    triplets = Triplets(X, *rng.integers(0, 40, (3, 300)))
    gram, plain = (mahala.OASIS(init="zero", storage=storage).fit(triplets) for storage in ("gram", "dense"))
    assert gram.sparsity_ == plain.sparsity_ > 0.1


def test_what_was_fitted_within_max_memory_can_be_copied_and_loaded(tmp_path, monkeypatch):
    """Blocks of 33 columns leave room: a copy needs as much as the fit reserved, and no more."""
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_PAYLOAD", 64)
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_TABLE", 16)
    rng = np.random.default_rng(0)
    columns = np.concatenate([np.arange(64 * block, 64 * block + 33) for block in range(10)])
    X = sp.csr_matrix((rng.random(30 * len(columns)), np.tile(columns, 30), np.arange(31) * len(columns)), (30, 640))
    triplets = Triplets(X, *rng.integers(0, 30, (3, 50)))
    learner = mahala.SORS(0.1, lam=2e-5, init="zero", storage="sparse")
    model = learner.fit(triplets)._model
    needed = model.store.payload.nbytes + model.store.table.nbytes
    limited = mahala.SORS(0.1, lam=2e-5, init="zero", storage="sparse", max_memory=needed).fit(triplets)
    limited.save(tmp_path / "model.safetensors")
    for other in (mahala.load(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(limited))):
        assert abs(other.metric_.matrix - learner.metric_.matrix).max() == 0.0
        assert other._model.clock == 50
    with pytest.raises(MemoryError, match="max_memory"):
        mahala.SORS(0.1, lam=2e-5, init="zero", storage="sparse", max_memory=needed - 1).fit(triplets)


@pytest.mark.parametrize(
    "learner", [mahala.OASIS(init="zero"), mahala.SORS(1.0), mahala.AdaSORS(average=True)], ids=repr
)
def test_what_a_stream_holds_within_a_small_limit_is_loaded_and_the_limit_raised(learner, tmp_path):
    X, y = sparse_text()
    triplets = Triplets.from_labels(X, y, 3000, random_state=0)
    stream = clone(learner).set_params(storage="sparse", max_memory=2e5)
    with pytest.raises(MemoryError, match="max_memory"):
        stream.partial_fit(triplets[:1]).partial_fit(triplets[1:])
    assert stream._model.store.payload.nbytes + stream._model.store.table.nbytes <= 2e5
    path = tmp_path / "model.safetensors"
    stream.save(path)
    loaded = mahala.load(path).set_params(max_memory=1e9).partial_fit(triplets[stream.n_steps_ :])
    whole = clone(learner).set_params(storage="sparse").partial_fit(triplets)
    assert abs(loaded.metric_.matrix - whole.metric_.matrix).max() < 1e-12


def test_a_learner_whose_limit_was_lowered_is_loaded(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 30))
    learner = mahala.OASIS(storage="dense").partial_fit(Triplets(X, [0], [1], [2])).set_params(max_memory=1.0)
    learner.save(tmp_path / "model.safetensors")
    assert mahala.load(tmp_path / "model.safetensors").max_memory == 1.0


def test_a_full_store_keeps_its_entries_when_memory_runs_out(monkeypatch):
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_PAYLOAD", 64)
    monkeypatch.setattr("mahala.online.state.sparse.FIRST_TABLE", 1024)
    X, y = sparse_text()
    triplets = Triplets.from_labels(X, y, 3000, random_state=0)
    learner = mahala.SORS(0.1, lam=1e-9, storage="sparse", max_memory=150_000).partial_fit(triplets[:1])
    with pytest.raises(MemoryError, match="max_memory"):
        learner.partial_fit(triplets[1:])
    expected = mahala.SORS(0.1, lam=1e-9, storage="sparse").partial_fit(triplets[: learner.n_steps_])
    assert 1 < learner.n_steps_ < 3000
    assert abs(learner.metric_.matrix - expected.metric_.matrix).max() < 1e-12


def test_max_memory_counts_for_streams_and_starts_too():
    X, y = sparse_text()
    triplets = Triplets.from_labels(X, y, 50, random_state=0)
    learner = mahala.SORS(max_memory=1e8).partial_fit(triplets)  # a full matrix would take more
    assert sp.issparse(learner.metric_.matrix)
    start = BilinearMetric(np.ones((300, 300)))
    with pytest.raises(MemoryError, match="max_memory"):
        mahala.OASIS(init=start, storage="sparse", max_memory=10_000).fit(Triplets(X[:, :300], [0], [1], [2]))


def test_wide_dense_rows_become_sparse_a_part_at_a_time(monkeypatch):
    """A sparse store takes dense rows in parts, so that their sparse copy fits into bounded memory."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40)) * (rng.random((60, 40)) < 0.2)
    triplets = mahala.Triplets(X, *rng.integers(0, 60, size=(3, 300)))
    whole = mahala.OASIS(storage="sparse", random_state=0).fit(triplets).metric_
    monkeypatch.setattr("mahala.online.state.similarity.BLOCK_BYTES", 8)
    monkeypatch.setattr("mahala.online.state.similarity.block_size", lambda width: 3 * 64)
    parts = mahala.OASIS(storage="sparse", random_state=0).fit(triplets).metric_
    np.testing.assert_allclose(parts.matrix.toarray(), whole.matrix.toarray(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("scale", [1e-12, 1e-80])
def test_gradients_whose_squares_vanish_give_finite_steps(dtype, storage, scale):
    X = scale * np.random.default_rng(0).normal(size=(9, 4))
    learner = mahala.AdaSORS(delta=1e-300, lam=0.01, dtype=dtype, storage=storage, n_triplets=20, random_state=0)
    matrix = learner.fit(X, np.arange(9) % 3).metric_.matrix
    assert np.isfinite(matrix.toarray() if sp.issparse(matrix) else matrix).all()


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (mahala.OASIS, None),
        (mahala.OASIS, 1e40),
        (mahala.OGD, 1e-160),
        (mahala.SORS, None),
        (mahala.AdaSORS, 1e-160),
        (mahala.AROMA, 1e40),
    ],
)
def test_scales_are_the_same_for_every_chunking_and_survive_an_odd_first_line(kind, first):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    X = rng.normal(size=(40, 6)) + 2.0 * np.eye(6)[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    triplets = Triplets.from_labels(X, y, 250, random_state=0)
    lines = np.stack([X[triplets.anchor], X[triplets.positive], X[triplets.negative]], axis=1)
    if first is not None:
        lines = np.concatenate([first * rng.normal(size=(1, 3, 6)), lines])
    whole, parts, singles = (kind("auto", margin="auto", shrinkage=0) for _ in range(3))
    whole.fit(Triplets.from_array(lines))
    for part in np.array_split(lines, 9):
        parts.partial_fit(Triplets.from_array(part))
    for line in lines:
        singles.learn_one(*line)
    for other in (parts, singles):
        assert (other.margin_, other._size) == (whole.margin_, whole._size)
        np.testing.assert_allclose(other.metric_.matrix, whole.metric_.matrix, rtol=1e-12, atol=1e-13)
    # AdaGrad and confidences remember one huge row, wherever it comes.
    if first is not None and kind not in (mahala.AdaSORS, mahala.AROMA):
        clean = kind("auto", margin="auto", shrinkage=0).fit(triplets)
        assert whole.score(triplets) > clean.score(triplets) - 0.05
        assert clean.score(triplets) > 0.6
