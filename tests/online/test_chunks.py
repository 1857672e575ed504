import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import mahala

X, Y = load_digits(return_X_y=True)
X, Y = X[:600] / 16.0, Y[:600]
PARTS = [(X[i : i + 150], Y[i : i + 150]) for i in range(0, 600, 150)]

LEARNERS = [
    mahala.PA("I", n_pairs=200, random_state=0),
    mahala.PA("I", psd="every", n_pairs=100, random_state=0),
    mahala.LEGO(n_pairs=100, random_state=0),
    mahala.online.RDML(n_pairs=100, random_state=0),
    mahala.OASIS(n_triplets=500, random_state=0),
    mahala.AdaSORS(n_triplets=500, random_state=0),
]


def matrix(learner):
    M = learner.metric_.matrix
    return M.toarray() if hasattr(M, "toarray") else M


def chunks():
    da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'mahala[dask]'")
    return da.from_array(X, chunks=(150, 20)), da.from_array(Y, chunks=200)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:20])
def test_chunks_of_dask_are_a_stream(learner):
    expected = clone(learner)
    for part in PARTS:
        expected.partial_fit(*part)
    rows, labels = chunks()
    found = clone(learner).partial_fit(rows, labels)
    np.testing.assert_array_equal(matrix(found), matrix(expected))
    assert found.n_steps_ == expected.n_steps_
    np.testing.assert_array_equal(matrix(found.fit(rows, labels)), matrix(expected))


def test_a_dask_array_of_comparisons_is_the_stream_of_all_of_them():
    da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'mahala[dask]'")
    rng = np.random.default_rng(0)
    pairs, similar = rng.normal(size=(500, 2, 5)), np.where(rng.random(500) < 0.5, 1, -1)
    found = mahala.PA().fit(da.from_array(pairs, chunks=(90, 1, 3)), similar)
    expected = mahala.PA().partial_fit(pairs, similar)
    np.testing.assert_allclose(found.raw_metric_.matrix, expected.raw_metric_.matrix, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="y must have a label for each of the 500 rows, got 3"):
        mahala.PA().fit(da.from_array(pairs, chunks=(90, 1, 3)), similar[:3])


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_a_bag_of_dask_is_the_stream_of_its_comparisons(kind):
    db = pytest.importorskip("dask.bag", reason="needs Dask: pip install 'mahala[dask]'")
    rng = np.random.default_rng(0)
    vectors, similar = rng.normal(size=(31, 3, 4)), rng.random(31) < 0.5
    if kind == "pairs":
        comparisons = [(x, x2, label) for (x, x2, _), label in zip(vectors.tolist(), similar.tolist(), strict=True)]
        learner, given, y = mahala.PA("I"), vectors[:, :2], np.where(similar, 1, -1)
    else:
        comparisons, learner, given, y = [tuple(own) for own in vectors], mahala.OASIS(), vectors, None
    bag = db.from_sequence(comparisons, partition_size=8)
    bag = db.concat([bag, bag.filter(lambda own: False)])  # partitions may be empty
    parts = clone(learner)
    for i in range(0, 31, 8):
        parts.partial_fit(given[i : i + 8], None if y is None else y[i : i + 8])
    expected = matrix(parts)
    np.testing.assert_allclose(expected, matrix(clone(learner).partial_fit(given, y)), rtol=1e-12)
    assert np.array_equal(matrix(clone(learner).partial_fit(bag)), expected)
    assert np.array_equal(matrix(clone(learner).fit(bag)), expected)
    with pytest.raises(ValueError, match="y must be None for a bag"):
        learner.partial_fit(bag, similar)
    with pytest.raises(ValueError, match="got 2 members"):
        learner.partial_fit(bag.map(lambda own: own[:2]))


def test_a_frame_of_dask_has_names():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe", reason="needs Dask: pip install 'mahala[dask]'")
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(64)])
    found = mahala.PA(n_pairs=50, random_state=0).fit(frames.from_pandas(frame, npartitions=2), pandas.Series(Y))
    expected = mahala.PA(n_pairs=50, random_state=0)
    for i in (0, 300):
        expected.partial_fit(frame[i : i + 300], Y[i : i + 300])
    np.testing.assert_array_equal(matrix(found), matrix(expected))
    assert found.feature_names_in_[1] == "f1"
