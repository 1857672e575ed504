"""LogisticMetric on minibatches: near the minimum of all answers, from rows of any kind, and resumed after a stop."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import mahala
from mahala import LogisticMetric, MahalanobisMetric, Pairs, Triplets
from mahala.batch.logistic import minibatches
from mahala.batch.logistic.answers import Answers, LogisticLoss
from mahala.support.model_files import ModelFileError


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X.astype(np.float32), y


def learner(**params):
    return LogisticMetric(**({"batch_size": 32, "n_pairs": 3200, "max_iter": 10, "random_state": 0} | params))


@pytest.mark.parametrize(
    ("kind", "prior"), [(Pairs, None), (Triplets, MahalanobisMetric(np.diag([1.0, 2.0, 3.0, 4.0])))]
)
def test_the_objective_is_nearly_that_of_all_answers_at_once(iris, kind, prior):
    answers = kind.from_labels(*iris, n=500, random_state=0)
    exact = LogisticMetric(prior, lam=0.01).fit(answers)
    fitted = learner(prior=prior, lam=0.01, n_pairs=60_000, batch_size=50).fit(answers)
    P = np.eye(4) if prior is None else prior.components
    given = Answers.of(answers)._replace(X=iris[0] @ P.T)
    loss = LogisticLoss(given, given.X, 0.0)
    A = fitted.components_ @ np.linalg.inv(P)
    threshold = fitted.threshold_ if kind is Pairs else 0.0
    objective = loss(given.X @ A.T, threshold)[0] + 0.01 * np.sum((A - np.eye(4)) ** 2)
    assert exact.objective_ <= objective <= 1.01 * exact.objective_
    assert fitted.lam_ == 0.01
    assert fitted.stop_reason_ == "max_iter"
    assert fitted.n_iter_ == 10


def test_rows_of_any_kind_give_the_same_map(iris, tmp_path):
    X, y = iris[0].astype(np.float16), iris[1]
    expected = learner(n_components=2).fit(X, y)
    assert expected.components_.shape == (2, 4)
    assert expected.score(X, y) > 0.9
    np.save(tmp_path / "rows.npy", X)
    kinds = [np.load(tmp_path / "rows.npy", mmap_mode="r"), X.astype(np.float32)]
    da, zarr = pytest.importorskip("dask.array"), pytest.importorskip("zarr")
    kinds += [da.from_array(X, chunks=(40, 4)), zarr.array(X, chunks=(40, 4))]
    for rows in kinds:
        np.testing.assert_array_equal(learner(n_components=2).fit(rows, y).components_, expected.components_)
    pytest.importorskip("torch")
    with mahala.config_context(engine="torch-cpu"):
        other = learner(n_components=2).fit(X, y)
    np.testing.assert_allclose(other.components_, expected.components_, rtol=1e-3)


def test_a_fit_that_was_killed_resumes_where_it_was(iris, tmp_path, monkeypatch):
    monkeypatch.setattr(minibatches, "CHECKPOINT_SECONDS", 0.0)
    path = str(tmp_path / "fit.checkpoint")
    expected = learner().fit(*iris)

    class KilledError(Exception):
        pass

    def kill(iteration):
        if iteration.number == 4:
            raise KilledError

    killed = learner(checkpoint=path, callback=kill)
    with pytest.raises(KilledError):
        killed.fit(*iris)
    with pytest.raises(ValueError, match=r"checkpoint .* belongs to another fit, with {'n_steps': 100}"):
        learner(checkpoint=path, n_pairs=3300, lam=6 / 3200).fit(*iris)
    # A seed that is not given is that of the file.
    resumed = learner(checkpoint=path, random_state=None).fit(*iris)
    np.testing.assert_array_equal(resumed.components_, expected.components_)
    np.testing.assert_array_equal(resumed.objectives_, expected.objectives_)
    assert resumed.threshold_ == expected.threshold_
    assert not (tmp_path / "fit.checkpoint").exists()
    expected.save(path)
    with pytest.raises(ModelFileError, match="not the file of an unfinished fit"):
        learner(checkpoint=path).fit(*iris)


def test_a_model_is_saved_and_learns_more(iris, tmp_path):
    X, y = iris
    first = learner(lam=1e-6).fit(X, y)
    first.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.metric_.matrix, first.metric_.matrix)
    more = loaded.set_params(n_pairs=320).partial_fit(X, y)
    anew = learner(lam=1e-6, n_pairs=320).fit(X, y)
    assert more.objectives_[0] < anew.objectives_[0]  # of the same minibatch: it did not start again
    whole = loaded.set_params(batch_size=None).partial_fit(Pairs.from_labels(X, y, 50, random_state=0))
    assert whole.n_features_in_ == 4


def test_bad_input_is_named(iris):
    X, y = iris
    with pytest.raises(ValueError, match="X contains NaN"):
        learner().fit(np.where(np.arange(4) == 1, np.float32(np.nan), X), y)
    for large in (1e30, 1e40):  # its squares, and the threshold in units of usual distances, are beyond float32
        with pytest.raises(ValueError, match="values that are too large"):
            learner().fit(np.where(np.arange(len(X))[:, None] == 1, large, X.astype(np.float64)), y)
    with pytest.raises(ValueError, match="batch_size must be 'auto', an integer of at least 1 or None"):
        learner(batch_size=0).fit(X, y)
    with pytest.raises(ValueError, match="n_components must be at most 4"):
        learner(n_components=5).fit(X, y)
    with pytest.raises(ValueError, match="X must be at least 2 rows of at least one feature"):
        learner().fit(X[0], y)
