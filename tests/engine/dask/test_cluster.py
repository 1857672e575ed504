import os
import signal
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

import mahala
import mahala_search
from mahala.batch.descent import first_components
from mahala.batch.run import Run
from mahala.engine.cores import Cores
from mahala.engine.dask.cluster import DaskCluster
from mahala.metric import Scales
from mahala.support.parameters import config_context

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mahala[dask]'")
da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'mahala[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mahala[dask]'")

X, Y = load_digits(return_X_y=True)
X, Y = X[:300, 2:40], Y[:300]

# One of those that need the same sums.
LEARNERS = [
    mahala.LDA(shrinkage=0.1),
    mahala.PCA(0.9, whiten=True),
    mahala.NCA(12, max_iter=2, random_state=0),
    mahala.GML(diagonal=True, max_iter=2),
    mahala.LMNN(2, n_components=5, max_iter=2, random_state=0),
    mahala.BoostMetric(max_iter=2),
    mahala.ITML(prior="covariance", max_iter=2, random_state=0),
    mahala.batch.Relief(50, random_state=0),
    mahala.batch.XQDA(3),
]


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes with a thread each, forked by a server that has imported what they need."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "mahala.engine.dask.cluster"])
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture
def never_gathered(monkeypatch):
    """Let NumPy not convert Dask arrays, which would gather them."""

    def gather(self, *args, **kwargs):
        raise AssertionError("a Dask array was gathered")

    monkeypatch.setattr(da.Array, "__array__", gather)


def rows(dtype=np.float64, chunks=(130, 20)):
    return da.from_array(X.astype(dtype), chunks=chunks), da.from_array(Y, chunks=100)


@pytest.mark.parametrize(
    ("dtype", "scale", "tol", "workers_use"),
    [
        (np.float64, 0.01, 1e-10, ""),
        (np.float32, 1.0, 5e-3, "torch-cpu"),  # squared norms of 1e4 times the precision of float32
    ],
)
def test_the_sums_are_those_of_the_cores(dtype, scale, tol, workers_use):
    """Squared distances round relative to the squared norms, so rows are centred."""
    if workers_use:
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'mahala[gpu]'")
    L = (np.random.default_rng(0).normal(size=(6, X.shape[1])) * scale).astype(dtype)
    engine, cores = DaskCluster(workers_use), Cores()
    local = (X - X.mean(axis=0)).astype(dtype)
    placed = engine.place(da.from_array(local, chunks=(130, -1)))
    Z, expected = engine.map(placed, L), cores.map(local, L)
    rounding = 100.0 * np.finfo(dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(engine.fetch(Z), expected, rtol=0.0, atol=rounding)
    sums = [
        (engine.softmax(Z, Y), cores.softmax(expected, Y)),
        (engine.within(Z, Y), cores.within(expected, Y)),
        (engine.between(Z, Y, (1.0, -2.0, 1.0, 1.0)), cores.between(expected, Y, (1.0, -2.0, 1.0, 1.0))),
        (engine.between(Z, Y, (0.0, 1.0, 0.0, np.inf)), cores.between(expected, Y, (0.0, 1.0, 0.0, np.inf))),
    ]
    for (value, pull), (right, right_pull) in sums:
        assert value == pytest.approx(right, rel=tol)
        gradient = cores.gradient(right_pull, local)
        for found, exact in ((engine.fetch(pull), right_pull), (engine.gradient(pull, placed), gradient)):
            np.testing.assert_allclose(found, exact, rtol=0.0, atol=tol * max(1e-300, float(np.abs(exact).max())))


@pytest.mark.parametrize("most_formed", [256, 2])
def test_the_leading_direction_of_edges(most_formed, monkeypatch):
    monkeypatch.setattr("mahala.engine.edges.LAPACK_DIMENSION", most_formed)
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 300, size=(2, 500))
    weights = rng.normal(size=500)
    found = DaskCluster().edge_graph(rows()[0].rechunk({1: -1}), left, right)(weights)
    expected = Cores().edge_graph(X, left, right)(weights)
    assert abs(found @ expected) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.filterwarnings("ignore:.* found a metric mostly along one direction")  # after so few iterations
@pytest.mark.usefixtures("never_gathered")
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:30])
def test_a_learner_learns_the_same_from_rows_of_dask(learner):
    """In each of two iterations."""
    expected = learner.fit(X, Y).metric_.pairwise(X[:20])
    objectives = learner.objectives_
    with dask.config.set(scheduler="synchronous"):
        found = learner.fit(*rows())
    assert isinstance(found.metric_.matrix, np.ndarray)
    np.testing.assert_allclose(found.metric_.pairwise(X[:20]), expected, rtol=1e-7, atol=1e-9 * expected.max())
    np.testing.assert_allclose(found.objectives_, objectives, rtol=1e-9, atol=1e-9 * np.abs(objectives).max())


@pytest.mark.usefixtures("never_gathered")
@pytest.mark.parametrize(
    ("init", "shape"), [("lda", (600, 40)), ("random", (600, 40)), ("pca", (520, 600)), ("pca", (1100, 1010))]
)
def test_a_start_is_the_same_from_rows_of_dask(init, shape):
    """Also for sizes at which scikit-learn's PCA would find few directions by a randomised solver."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=shape) + rng.normal(size=(3, shape[1]))[np.arange(shape[0]) % 3]
    found, expected = (
        first_components(init, 4, rows, np.arange(shape[0]) % 3, Run(rng=np.random.default_rng(0)))
        for rows in (da.from_array(A, chunks=(130, -1)), A)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("never_gathered")
def test_transform_of_dask_rows_is_a_lazy_dask_array():
    learner = mahala.NCA(4, max_iter=2, random_state=0).fit(X, Y)
    asked = []
    D = rows(np.float32)[0].map_blocks(lambda block: asked.append(1) or block, meta=np.empty((0, 0), dtype=np.float32))
    for made in (learner.transform(D), learner.metric_.transform(D)):
        assert isinstance(made, da.Array)
        assert made.dtype == np.float32
        assert made.shape == (300, 4)
        assert not asked
    np.testing.assert_allclose(learner.transform(D).compute(), learner.transform(X.astype(np.float32)), rtol=1e-6)
    assert asked


@pytest.mark.usefixtures("never_gathered")
def test_data_frames_of_dask_are_rows_with_names():
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    table = frames.from_pandas(frame, npartitions=4)
    learner = mahala.RCA().fit(table, frames.from_pandas(pandas.Series(Y), npartitions=4))
    expected = mahala.RCA().fit(frame, Y)
    np.testing.assert_allclose(learner.metric_.matrix, expected.metric_.matrix, rtol=1e-8, atol=1e-12)
    assert learner.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_allclose(learner.transform(table).compute(), learner.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        learner.transform(table[table.columns[::-1]])


@pytest.mark.usefixtures("never_gathered")
def test_neighbours_and_retrieval_are_those_of_numpy_rows():
    D, y = rows()
    metric = mahala.RCA().fit(X, Y).metric_
    for given in (None, metric):
        expected = mahala.knn_error(given, X, Y)
        np.testing.assert_array_equal(mahala.knn_error(given, D, y).error, expected.error)
        expected = mahala.knn_error(given, X[:100], Y[:100], X[100:], Y[100:])
        np.testing.assert_array_equal(mahala.knn_error(given, X[:100], Y[:100], D[100:], y[100:]).error, expected.error)
    assert mahala.RCA().fit(X, Y).score(D, y) == mahala.RCA().fit(X, Y).score(X, Y)
    assert mahala.evaluation.mean_average_precision(metric, D, y) == pytest.approx(
        mahala.evaluation.mean_average_precision(metric, X, Y), rel=1e-9
    )
    np.testing.assert_allclose(
        mahala.evaluation.precision_at_k(metric, D[:90], y[:90], D, y).precision,
        mahala.evaluation.precision_at_k(metric, X[:90], Y[:90], X, Y).precision,
    )
    bilinear = mahala.BilinearMetric(np.random.default_rng(0).normal(size=(X.shape[1],) * 2))
    scaled = mahala.MahalanobisMetric(np.eye(X.shape[1]), steps=[Scales(np.geomspace(0.1, 10.0, X.shape[1]))])
    for given in (metric, bilinear, scaled):
        np.testing.assert_array_equal(given.rank(X[:5], D, k=7), given.rank(X[:5], X, k=7))
        np.testing.assert_array_equal(given.rank(X[0], D, k=200), given.rank(X[0], X, k=200))


@pytest.mark.usefixtures("never_gathered")
def test_what_does_not_run_on_dask_says_what_to_do():
    D, y = rows()
    for learner in (mahala.batch.MDM(), mahala.batch.Simba()):
        with pytest.raises(TypeError, match="does not learn from this collection of chunks: give it NumPy rows"):
            learner.fit(D, y)
    with pytest.raises(ValueError, match="solver must be"):
        mahala.GML(solver="vsgd").fit(D, y)
    with pytest.raises(ValueError, match="shrinkage must be None or a number with rows of Dask"):
        mahala.LDA(shrinkage="auto").fit(D, y)
    with pytest.raises(TypeError, match=r"queries is of Dask, whose rows are not gathered here"):
        mahala_search.evaluate_ranking(D, X, [(0, 0, 1)])
    with pytest.raises(ValueError, match="metric must be a Mahalanobis metric if rows are in chunks"):
        mahala.evaluation.mean_average_precision(None, D, y)
    with pytest.raises(ValueError, match="k must be from 1 to 300"):
        mahala.MahalanobisMetric.euclidean(X.shape[1]).rank(X[0], D)


def test_bad_rows_of_dask_are_named():
    D, y = rows()
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        mahala.RCA().fit(da.where(D == 5.0, np.nan, D), y)
    with pytest.raises(ValueError, match="X has values as large as"):
        mahala.RCA().fit(D * 1e60, y)
    with pytest.raises(ValueError, match="X must hold real numbers"):
        mahala.RCA().fit(D.astype(complex), y)
    with pytest.raises(ValueError, match="y must be 1-D with a label for each of the 300 rows"):
        mahala.RCA().fit(D, y[:10])
    with pytest.raises(ValueError, match="38 features"):
        mahala.RCA().fit(D, y).transform(D[:, :5])
    unknown = D[da.from_array(Y != 3, chunks=70)]
    np.testing.assert_allclose(
        mahala.RCA().fit(unknown, Y[Y != 3]).metric_.matrix, mahala.RCA().fit(X[Y != 3], Y[Y != 3]).metric_.matrix
    )


# The tests from here on have a cluster, which later ones would find as well.


@pytest.mark.usefixtures("client", "never_gathered")
def test_a_learner_learns_the_same_on_a_cluster_every_time():
    learner = mahala.NCA(4, max_iter=2, random_state=0)
    expected = learner.fit(X, Y).components_
    found = learner.fit(*rows()).components_
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(learner.fit(*rows()).components_, found)


def test_a_client_as_the_engine_computes_the_sums_of_numpy_rows(client):
    learner = mahala.NCA(4, max_iter=2, random_state=0)
    expected, errors = learner.fit(X, Y).components_, mahala.knn_error(None, X, Y)
    with config_context(engine=client):
        found = learner.fit(X, Y).components_
        np.testing.assert_array_equal(mahala.knn_error(None, X, Y).error, errors.error)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_a_worker_that_is_killed_is_replaced(client):
    learner = mahala.NCA(4, max_iter=4, random_state=0)
    expected = learner.fit(X, Y).components_
    killed = []

    def kill(iteration):
        if iteration.number == 2:
            killed.extend(client.run(os.getpid).values())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                os.kill(killed[0], signal.SIGKILL)

    found = learner.set_params(callback=kill).fit(*rows()).components_
    assert learner.n_iter_ == 4
    client.wait_for_workers(2)
    assert killed[0] not in client.run(os.getpid).values()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("learner", [mahala.LDA(), mahala.RCA(), mahala.GML()], ids=repr)
def test_weights_of_rows_of_dask_are_refused(learner):
    with pytest.raises(ValueError, match="sample_weight must be None with rows of Dask"):
        learner.fit(*rows(), sample_weight=np.ones(300))


def test_weights_are_refused_by_the_sums_of_dask():
    with config_context(engine="workers:cpu"), pytest.raises(ValueError, match="None with an engine of Dask"):
        mahala.GML().fit(X, Y, sample_weight=np.ones(300))
