"""What every online learner promises beside what every learner does."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from contextlib import nullcontext, suppress
from itertools import product

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import mahala
from contract.learners import (
    ALL,
    NAMES,
    TRIPLET_LEARNERS,
    case,
    every_online_learner,
    every_stream,
    parametrize,
    rewritten,
)
from mahala import Pairs
from mahala.online.similarity_learner import SimilarityLearner
from mahala.support.model_files import ModelFileError
from mahala.support.validation import LARGEST_VALUE
from mahala.testing import as_array, dense, draw, feed_one_by_one, models_agree, same_model, same_record


def _sums_in_order(learner):
    """Whether a step depends on the numbers of the steps before alone, not on where a chunk ended."""
    if isinstance(learner, mahala.AROMA):
        return learner.covariance == "diagonal"
    return isinstance(learner, SimilarityLearner)


@pytest.mark.parametrize("n_first", [80, 32, 0])
@parametrize([learner for learner in TRIPLET_LEARNERS if _sums_in_order(learner) and learner.storage != "gram"])
def test_chunks_do_not_change_a_bit(learner, n_first, labelled, monkeypatch):
    """docs/reliability.md says of which learners. The first steps may be NumPy's, the others are a kernel's."""
    monkeypatch.setattr("mahala.online.state.dense.most_steps", lambda work: n_first)
    comparisons = draw(learner, *labelled, n=80)
    whole, single, chunks = (clone(learner) for _ in range(3))
    whole.partial_fit(comparisons)
    feed_one_by_one(single, comparisons)
    for part in np.array_split(np.arange(len(comparisons)), [1, 2, 20, 21, 60]):
        chunks.partial_fit(comparisons[part])
    for other in (single, chunks):
        same_model(other, whole)
        np.testing.assert_array_equal(other.history_.p, whole.history_.p)
        np.testing.assert_array_equal(other.history_.tau, whole.history_.tau)


@every_online_learner
def test_comparisons_and_arrays_are_the_same_to_it(learner, labelled):
    comparisons = draw(learner, *labelled)
    array, y = as_array(comparisons)
    whole = clone(learner).fit(comparisons)
    for given in (array, array.tolist()):
        other = clone(learner).fit(given, y)
        models_agree(other, whole, comparisons)
        np.testing.assert_allclose(other.margins(given), whole.margins(comparisons), rtol=1e-6, atol=1e-5)
        assert other.score(given, y) == whole.score(comparisons)


@every_online_learner
def test_an_interrupted_fit_leaves_the_learner_as_it_was(learner, labelled, monkeypatch):
    comparisons = draw(learner, *labelled)
    fitted = clone(learner).fit(comparisons)
    twin = copy.deepcopy(fitted)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fitted), "_note", interrupted)
    for given in (comparisons[:20], draw(learner, labelled[0][:, :3], labelled[1])):
        with pytest.raises(KeyboardInterrupt):
            fitted.fit(given)
    monkeypatch.undo()
    same_model(fitted, twin)
    same_record(fitted, twin)
    assert fitted.n_features_in_ == 5


@every_stream
def test_a_model_in_a_read_only_map_goes_on(learner, labelled, tmp_path):
    comparisons = draw(learner, *labelled)
    start = clone(learner).partial_fit(comparisons[:50])
    joblib.dump(start, tmp_path / "model.joblib")
    for more in (5, 100):
        resumed, expected = joblib.load(tmp_path / "model.joblib", mmap_mode="r"), copy.deepcopy(start)
        same_model(resumed, expected)
        for each in (resumed, expected):
            each.partial_fit(comparisons[50 : 50 + more])
        same_model(resumed, expected)
        same_record(resumed, expected)
        assert len(resumed.history_) == 50 + more


@every_stream
def test_a_record_may_begin_or_end_in_a_stream(learner, labelled, tmp_path):
    comparisons = draw(learner, *labelled)
    for record in (True, False):
        stream = clone(learner).set_params(record=record).partial_fit(comparisons[:50])
        stream.set_params(record=not record).partial_fit(comparisons[50:])
        if record:
            with pytest.raises(AttributeError, match="record=True"):
                _ = stream.history_
        stream.save(tmp_path / "model.safetensors")
        loaded = mahala.load(tmp_path / "model.safetensors").set_params(record=True)
        assert len(loaded.history_) == (50 if record else 100)
        assert loaded.n_steps_ == 150


@pytest.mark.parametrize("learner", [mahala.PA("I"), mahala.SORS()], ids=repr)
def test_a_record_holds_the_last_steps_only(learner, labelled, tmp_path):
    comparisons = draw(learner, *labelled)
    whole, single, chunks = (clone(learner).set_params(record=record) for record in (True, 20, 20))
    whole.partial_fit(comparisons)
    feed_one_by_one(single, comparisons)
    for start in range(0, 150, 30):
        chunks.partial_fit(comparisons[start : start + 30])
    for stream in (single, chunks):
        assert (len(stream.history_), stream.history_.n_dropped, stream.n_steps_) == (20, 130, 150)
        assert stream._records.nbytes <= 18 * 64
        np.testing.assert_allclose(stream.history_.p, whole.history_.p[-20:], rtol=1e-7, atol=1e-10)
        assert stream.loss_ == pytest.approx(whole.loss_, rel=1e-7)
    chunks.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    same_record(loaded, chunks)
    assert loaded.history_.n_dropped == 130


@every_online_learner
def test_comparisons_of_a_frame_keep_its_names(learner, labelled):
    X, y = labelled
    frame = pl.DataFrame if isinstance(learner, SimilarityLearner) else pd.DataFrame
    table = frame(dict(zip(NAMES, X.T, strict=True)))
    comparisons = pickle.loads(pickle.dumps(draw(learner, table, y, 50)))[10:]
    fitted = clone(learner).fit(comparisons)
    assert list(fitted.feature_names_in_) == NAMES
    fitted.transform(table)  # a warning would be an error
    if getattr(learner, "kernel", None) is None:
        assert {name for name, _ in fitted.metric_.explain(X[0], X[1]).top(5)} == set(NAMES)
    other = frame(dict(zip(reversed(NAMES), X.T, strict=True)))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_comparisons(draw(learner, other, y, 5))
    with pytest.raises(ValueError, match=r"feature names|storage='gram'"):
        fitted.partial_fit(draw(learner, other, y, 5))


@every_online_learner
def test_no_comparisons_and_those_of_the_other_kind(learner, labelled):
    comparisons = draw(learner, *labelled)
    kind = type(comparisons).__name__.lower()
    with pytest.raises(ValueError, match=f"{kind} must not be empty: 0 {kind} given"):
        clone(learner).fit(comparisons[:0])
    fitted = clone(learner).fit(comparisons)
    assert fitted.predict_comparisons(comparisons[:0]).shape == (0,)
    other = mahala.Triplets if isinstance(comparisons, Pairs) else Pairs
    wrong = other.from_labels(*labelled, 10, random_state=0)
    with pytest.raises(TypeError, match=f"learns from {kind} or labelled rows, got {other.__name__}"):
        clone(learner).fit(wrong)
    if isinstance(comparisons, Pairs):  # a distance orders triplets, too
        assert fitted.predict_comparisons(wrong).shape == (10,)
    else:
        with pytest.raises(TypeError, match="comparisons must be Triplets, got Pairs"):
            fitted.predict_comparisons(wrong)
    for given in (comparisons, wrong):
        with pytest.raises(TypeError, match=f"transform takes rows, got {type(given).__name__}"):
            fitted.transform(given)


BAD_STATE = {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}, "has_uint32": 0, "uinteger": 0}


ONE_OF_A_KIND = list({type(learner): learner for learner in ALL}.values())
HOSTILE_HEADERS = [
    ("learner", "os"),
    ("learner", "Pairs"),
    ("learner", None),
    ("params", {"unknown": 1}),
    ("params", {"random_state": 0, "record": True, "max_memory": "all"}),
    ("params", []),
    ("n_features_in", 3),
    ("n_features_in", 0),
    ("n_features_in", -1),
    ("n_features_in", np.inf),
    ("n_features_in", 10**30),
    ("feature_names_in", "abcde"),
    ("feature_names_in", ["a"]),
    ("random_state", {}),
    ("random_state", BAD_STATE),
]


@every_stream
def test_hostile_files(learner, labelled, tmp_path):
    path = tmp_path / "model.safetensors"
    clone(learner).partial_fit(draw(learner, *labelled)).save(path)
    # What the base class reads is the same for every state; the number of features is not.
    headers = [pair for pair in HOSTILE_HEADERS if learner in ONE_OF_A_KIND or pair[0] == "n_features_in"]
    for key, value in headers:
        hostile = rewritten(path, {key: value})
        with case((key, value)), pytest.raises(ModelFileError, match="model"):
            mahala.load(hostile)
    for name, array in (
        ("history.p", np.ones(3)),
        ("history.p", np.ones(150, dtype=np.float32)),
        ("history.tau", np.ones((150, 1))),
        ("history.y", np.ones(150)),
        ("history.predicted", np.ones(149, dtype=np.int8)),
        ("history.ranks", np.ones(2, dtype=np.int64)),
    ):
        hostile = rewritten(path, arrays={name: array})
        with case((name, array.shape)), pytest.raises(ModelFileError, match="history"):
            mahala.load(hostile)
    # A header cannot ask for more memory than the file has bytes for.
    for changes in ({"n_features_in": 20_000}, {"n_features_in": 20_000, "n_item_features": 20_000}):
        tracemalloc.start()
        with suppress(ModelFileError):  # a sparse model may have so many features
            mahala.load(rewritten(path, changes))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2e7


def extreme_rows(kind, rng):
    """Rows at the limits of what is accepted: all of them, some of them, or each number at a scale of its own."""
    top, low = np.log10(LARGEST_VALUE) - 0.1, -320.0
    exponents = {
        "large": np.full((60, 3), top),
        "small": np.full((60, 3), rng.uniform(low, -40.0)),
        "bursts": np.where(rng.random((60, 1)) < 0.2, top, 0.0) + np.zeros((60, 3)),
        "rows": rng.uniform(low, top, (60, 1)) + np.zeros((60, 3)),
        "numbers": rng.uniform(low, top, (60, 3)),
    }[kind]
    return rng.choice([-1.0, 1.0], (60, 3)) * rng.uniform(0.1, 1.0, (60, 3)) * 10.0**exponents


@every_stream
@pytest.mark.filterwarnings("error")
def test_numbers_at_the_limits_leave_a_model_that_can_be_saved(learner, tmp_path):
    rng = np.random.default_rng(5)
    kinds = [("large", True), ("small", False), *product(("bursts", "rows", "numbers"), (True, False))]
    for kind, single in kinds:
        X = extreme_rows(kind, rng)
        stream, comparisons = clone(learner), draw(learner, X, np.arange(60) % 3, 25)
        try:
            if single:
                feed_one_by_one(stream, comparisons)
            else:
                stream.partial_fit(comparisons)
        except ValueError as error:
            assert "kernel" in str(error)  # whose values may overflow  # noqa: PT017
            continue
        assert np.isfinite(dense(stream.metric_.matrix)).all()
        assert getattr(stream.metric_, "is_psd", True)
        assert np.isfinite(dense(stream.transform(X))).all()
        stream.save(tmp_path / "model.safetensors")
        assert mahala.load(tmp_path / "model.safetensors").n_skipped_ == stream.n_skipped_


@pytest.mark.parametrize("learner", [mahala.PA(), mahala.POLA()], ids=repr)
def test_a_number_whose_sixth_power_overflows_is_refused(learner, tmp_path):
    stream = clone(learner)
    for large in (7.6e51, LARGEST_VALUE):
        for similar in (False, True):
            with pytest.raises(ValueError, match="x has values") if large > LARGEST_VALUE else nullcontext():
                stream.learn_one([large, 1.0], [0.0, 0.0], similar)
    stream.save(tmp_path / "model.safetensors")
    assert stream.n_steps_ == 2


@pytest.mark.parametrize("learner", [mahala.OGD(1.0), mahala.OGD(1.0, storage="sparse"), mahala.SORS(1.0)], ids=repr)
def test_steps_that_would_overflow_are_counted(learner, tmp_path):
    X = 1e30 * np.eye(3)
    one, chunk = clone(learner), clone(learner)
    for _ in range(3):
        one.learn_one(X[0], X[1], X[2])
    one.learn_one(np.eye(3)[0], np.eye(3)[1], np.eye(3)[2])
    chunk.partial_fit(mahala.Triplets(np.vstack([X, np.eye(3)]), [0, 0, 0, 3], [1, 1, 1, 4], [2, 2, 2, 5]))
    assert (one.n_steps_, one.n_skipped_, one.n_updates_) == (4, 3, 1)
    assert (chunk.n_steps_, chunk.n_skipped_, chunk.n_updates_) == (4, 3, 1)
    path = tmp_path / "model.safetensors"
    one.save(path)
    assert mahala.load(path).n_skipped_ == 3
