"""Learners that several threads use: readers see the model of a whole number of steps, and writers wait."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

import mahala
import mahala_search
from contract.learners import PAIR_LEARNERS, TRIPLET_LEARNERS, parametrize
from mahala import Pairs, Triplets

N_THREADS, N_STEPS = 3, 15


@pytest.fixture(autouse=True)
def _fast_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*tasks):
    """Run the tasks in threads; raise what any of them raised."""
    errors = []

    def guarded(task):
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# One of each kind of model: what several threads may meet is its state.
MODELS = {
    (
        type(learner),
        getattr(learner, "storage", getattr(learner, "psd", None)),
        getattr(learner, "kernel", None),
    ): learner
    for learner in (*PAIR_LEARNERS, *TRIPLET_LEARNERS)
    if getattr(learner, "storage", None) != "gram"
}


@parametrize(list(MODELS.values()))
def test_writers_wait_and_readers_see_whole_steps(learner, labelled):
    X, y = labelled
    is_pair = not hasattr(learner, "average")
    comparisons = (Pairs if is_pair else Triplets).from_labels(X, y, N_STEPS, random_state=0)
    stream = clone(learner).partial_fit(comparisons)
    roles = ("left", "right") if is_pair else ("anchor", "positive", "negative")
    rows = list(zip(*(X[getattr(comparisons, role)] for role in roles), strict=True))
    labels = comparisons.similar.tolist() if is_pair else [None] * N_STEPS

    def write():
        for row, label in zip(rows, labels, strict=True):
            stream.learn_one(*row, *([label] if is_pair else []))

    def read():
        for _ in range(4):
            assert np.isfinite(np.asarray(stream.metric_.pairwise(X[:3]))).all()
            stream.to_parts()
            for copied in (copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))):
                assert copied._model.n_steps == copied.n_steps_
            if stream.record:
                history = stream.history_
                assert len(history.p) == len(history.y)

    together(*[write] * N_THREADS, read, read)
    assert stream.n_steps_ == (N_THREADS + 1) * N_STEPS
    assert stream._model.n_steps == stream.n_steps_


def test_an_adapter_is_shared():
    rng = np.random.default_rng(0)
    adapter, queries, items = mahala_search.QueryAdapter(), rng.normal(size=(20, 8)), rng.normal(size=(50, 8))

    def write():
        own = np.random.default_rng(threading.get_ident())
        for at in range(N_STEPS):
            adapter.learn_one(queries[at % 20], items[own.integers(0, 50, 4)], [1, 0, 0, 0], query_id=at % 20)

    def read():
        for at in range(N_STEPS):
            assert np.isfinite(adapter.embed(queries[at % 20], query_id=at % 20)).all()

    together(*[write] * N_THREADS, read, read)
    assert adapter.n_impressions_ == N_THREADS * N_STEPS


def test_two_threads_may_begin_the_same_stream():
    X = np.random.default_rng(0).normal(size=(30, 4))
    for _ in range(5):
        stream = mahala.OASIS()
        together(*[lambda own=stream: own.learn_one(X[0], X[1], X[2])] * 4)
        assert stream.n_steps_ == 4


def test_what_is_saved_beside_a_writer_is_the_model_of_whole_steps(tmp_path):
    rng = np.random.default_rng(0)
    X, path = rng.normal(size=(60, 5)), tmp_path / "m.safetensors"
    saved = []

    def learner():
        return mahala.LEGO(record=False, similar_target=1.0, dissimilar_target=3.0, random_state=0)

    stream = learner()
    stream.learn_one(X[0], X[1], True)

    def write():
        for at in range(1, 30):
            stream.learn_one(X[2 * at], X[2 * at + 1], at % 2 == 0)

    def save():
        for _ in range(5):
            stream.save(path)
            saved.append(mahala.load(path))

    together(write, save)
    for found in saved:
        expected = learner()
        for at in range(found.n_steps_):
            expected.learn_one(X[2 * at], X[2 * at + 1], at % 2 == 0)
        np.testing.assert_array_equal(found.metric_.matrix, expected.metric_.matrix)
