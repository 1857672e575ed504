"""What every learner promises, whatever it learns from."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mahala
from contract.learners import (
    NAMES,
    case,
    every_kind,
    every_learner,
    every_representative,
    fitted_to,
    needs_labels,
    short,
)
from mahala import Metric
from mahala.batch.batch_learner import BatchLearner
from mahala.online.online_learner import OnlineLearner
from mahala.support.model_files import ModelFileError
from mahala.testing import dense, draw, feed_one_by_one, models_agree, tolerance


def int64_csr(X):
    X = sp.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def untidy_csr(X):
    """Every entry in two parts, in reverse order, and zeros among them."""
    n, d = X.shape
    untidy = sp.csr_matrix((n, d))
    untidy.indices = np.tile(np.arange(d)[::-1], 2 * n).astype(np.int32)
    untidy.data = np.concatenate([0.5 * X[:, ::-1], 0.5 * X[:, ::-1]], axis=1).ravel()
    untidy.indptr = np.arange(0, 2 * n * d + 1, 2 * d, dtype=np.int32)
    assert not untidy.has_canonical_format
    np.testing.assert_array_equal(untidy.toarray(), X)
    return untidy


# The same rows in many forms: of numbers that float32 holds exactly, of whole numbers, of booleans. Rows are converted
# by the base classes, so most forms are tried with one learner of each.
FEW = [("numbers", "float32"), ("numbers", "csr"), ("integers", "as they are")]
WITH_ALL = (mahala.PA, mahala.OASIS, mahala.NCA)
FORMS = {
    "numbers": (
        lambda X: np.round(8 * X) / 8,
        {
            "float32": lambda X: X.astype(np.float32),
            "fortran": np.asfortranarray,
            "csr": sp.csr_matrix,
            "csr array": sp.csr_array,
            "int64 csr": int64_csr,
            "untidy csr": untidy_csr,
            "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
            "polars": lambda X: pl.DataFrame(X, schema=NAMES),
        },
    ),
    "integers": (lambda X: np.round(8 * X).astype(np.int16), {"as they are": np.asarray, "csr": sp.csr_array}),
    "booleans": (lambda X: X > 0.5, {"as they are": np.asarray, "csr": sp.csr_matrix}),
}


@every_representative
def test_every_kind_of_input(learner, labelled):
    X, y = labelled
    learner = short(learner)
    for name, (make, forms) in FORMS.items():
        tried = [form for form in forms if (name, form) in FEW or isinstance(learner, WITH_ALL)]
        if not tried:
            continue
        plain = make(X).astype(float)
        expected, comparisons = clone(learner).fit(plain, y), draw(learner, plain, y, 50)
        Z, score = expected.transform(plain), expected.score(comparisons)
        for form in tried:
            with case(f"{name}, {form}"):
                given = forms[form](make(X))
                # Learners from all the data compute with float32 where rows are that.
                rough = form == "float32" and isinstance(learner, BatchLearner)
                got = clone(learner).fit(given, y)
                if rough:
                    assert got.transform(given).dtype == np.float32
                    assert got.score(given, y) == pytest.approx(expected.score(plain, y), abs=0.05)
                    continue
                models_agree(got, expected, comparisons)
                np.testing.assert_allclose(dense(got.transform(given)), Z, atol=1e-6 * np.abs(Z).max(initial=1.0))
                assert got.score(given, y) == pytest.approx(expected.score(plain, y))
                # Between booleans many distances tie, and rounding decides the order of those that do.
                assert got.score(draw(learner, given, y, 50)) == pytest.approx(score, abs=0.03)
                if isinstance(learner, OnlineLearner):
                    scores = expected.margins(comparisons)
                    near = 100 * tolerance(learner) * np.abs(scores).max(initial=1.0)
                    found = got.margins(draw(learner, given, y, 50))
                    np.testing.assert_allclose(found, scores, rtol=0, atol=near)
                if form in ("pandas", "polars"):
                    assert list(got.feature_names_in_) == NAMES


@pytest.mark.skipif(np.lib.NumpyVersion(scipy.__version__) < "1.16.0", reason="SciPy's minimize leaves cycles")
@every_kind
def test_memory_is_free_without_the_garbage_collector(learner):
    """In a loop of fits, what is only freed when Python looks for cycles adds up."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 80)), np.arange(40) % 3
    learner = short(learner)
    clone(learner).fit(X, y)  # compiles
    gc.freeze()  # what is there already need not be looked through
    gc.disable()
    tracemalloc.start()
    try:
        clone(learner).fit(X, y)
        left = tracemalloc.get_traced_memory()[0]
        gc.collect()
        left -= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert left < X.shape[1] ** 2 * 8


@every_representative
def test_in_a_pipeline_with_frames(learner, labelled):
    X, y = labelled
    pipeline = make_pipeline(StandardScaler(), clone(learner), KNeighborsClassifier(3))
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.6
    fitted = fitted_to(learner, labelled).set_output(transform="pandas")
    frame = fitted.transform(X)
    assert isinstance(frame, pd.DataFrame)
    kept = hasattr(fitted, "feature_importances_")  # features keep their names where they are but scaled
    names = [f"x{i}" if kept else f"{type(learner).__name__.lower()}{i}" for i in range(frame.shape[1])]
    assert list(frame.columns) == names
    assert list(frame.columns) == list(fitted.get_feature_names_out())
    np.testing.assert_array_equal(frame, fitted.set_output(transform="default").transform(X))


def bad_rows():
    X = np.arange(20.0).reshape(10, 2) / 20
    return [
        ("NaN", np.where(X[3, 1] == X, np.nan, X), "NaN; mahala.data.TablePreprocessor"),
        ("infinity", np.where(X[3, 1] == X, np.inf, X), "infinity"),
        ("too large", np.where(X[3, 1] == X, 1e150, X), "scale the features"),
        ("sparse NaN", sp.csr_array(np.where(X[3, 1] == X, np.nan, X)), "NaN"),
        ("sparse too large", sp.csr_array(np.where(X[3, 1] == X, -1e150, X)), "scale the features"),
        ("empty", X[:0], "sample"),
        ("no features", X[:, :0], "feature"),
        ("one row", X[:1], "sample"),
        ("words", np.array([["a", "b"]] * 10), "strings.*TablePreprocessor"),
        ("complex", X * 1j, "complex"),
        ("None", [[1.0, None], *X[1:].tolist()], "NaN"),
        ("an infinite category", pd.DataFrame({"a": pd.Categorical(["inf", *"123456789"]), "b": X[:, 0]}), "infinity"),
        ("dates", np.full((10, 2), "2020-01-01", dtype="M8[D]"), "real numbers"),
        ("masked", np.ma.masked_array(X, X == 0.5), "masked"),
        ("one axis", X[:, 0], "2D array"),
    ]


@every_representative
def test_bad_rows(learner):
    for name, X, message in bad_rows():
        y = np.arange(len(X) if isinstance(X, list) else X.shape[0]) % 2
        with case(name):
            with pytest.raises(ValueError, match=f"(?i){message}"):
                clone(learner).fit(X, y)
            if not isinstance(learner, OnlineLearner):
                continue
            with pytest.raises(ValueError, match=f"(?i){message}|storage='gram'"):
                clone(learner).partial_fit(X, y)


@every_representative
def test_bad_labels(learner, labelled):
    if isinstance(learner, mahala.MLKR):
        pytest.skip("learns from target values, not from classes")
    X, y = labelled
    fresh = clone(learner)
    if not needs_labels(learner):
        assert np.isfinite(fresh.fit(X).transform(X)).all()
        return
    with pytest.raises(ValueError, match="y has one class"):
        fresh.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="requires y to be passed"):
        fresh.fit(X)
    with pytest.raises(ValueError, match="label for each of the 90 rows"):
        fresh.fit(X, y[:-1])
    with pytest.raises(ValueError, match="continuous"):
        fresh.fit(X, X[:, 0])
    with suppress(ValueError), warnings.catch_warnings():  # some learn from dissimilar rows alone
        warnings.filterwarnings("ignore", "NCA learned nothing", ConvergenceWarning)
        clone(learner).fit(X[:30], np.arange(30))
    words = np.array(["ash", "beech", "oak"], dtype=object)[y]
    missing = np.where(np.arange(len(y)) == 3, np.nan, y)
    for wrong in (
        missing,
        np.ma.masked_invalid(missing),
        [np.nan if row == 3 else word for row, word in enumerate(words)],
        [None if row == 3 else word for row, word in enumerate(words)],
        pd.Series([pd.NA if row == 3 else word for row, word in enumerate(words)]),
        pl.Series([None if row == 3 else word for row, word in enumerate(words)]),
    ):
        with pytest.raises(ValueError, match="row 3"):
            fresh.fit(X, wrong)
    with pytest.raises(ValueError, match=r"random_state must be|Invalid parameter"):
        clone(learner).set_params(random_state="x").fit(X, y)
    assert not hasattr(fresh, "n_features_in_")
    with pytest.raises(NotFittedError):
        _ = fresh.metric_


@every_representative
def test_a_metric_file_says_where_it_comes_from(learner, labelled, tmp_path):
    X, y = labelled
    fitted = clone(learner).fit(pd.DataFrame(X, columns=NAMES), y)
    fitted.metric_.save(tmp_path / "metric.safetensors")
    loaded = Metric.load(tmp_path / "metric.safetensors")
    np.testing.assert_array_equal(dense(loaded.matrix), dense(fitted.metric_.matrix))
    assert sp.issparse(loaded.matrix) == sp.issparse(fitted.metric_.matrix)
    assert list(loaded.feature_names) == NAMES
    np.testing.assert_array_equal(loaded.embed(X), fitted.metric_.embed(X))
    for origin in (loaded.origin, pickle.loads(pickle.dumps(loaded)).origin):
        assert origin["learner"] == type(learner).__name__
        plain = (type(None), bool, int, float, str)
        for name, value in learner.get_params().items():
            assert origin["params"][name] == (value if isinstance(value, plain) else repr(value))


@every_learner
def test_saved_loaded_and_saved_again_is_the_same_file(learner, labelled, tmp_path):
    """Row by row, so that what a sparse model holds has come in another order than that of its features."""
    X, y = labelled
    fitted = clone(learner)
    if hasattr(fitted, "learn_one") and getattr(fitted, "storage", None) != "gram":
        some = np.random.default_rng(0).random((len(X), 300)) < 0.05
        feed_one_by_one(fitted, draw(fitted, np.resize(X, some.shape) * some, y, 40))
    else:
        fitted = fitted_to(learner, labelled)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    fitted.save(first)
    mahala.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


@every_representative
def test_files_of_another_kind(learner, labelled, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted = fitted_to(learner, labelled)
    fitted.save(path)
    assert type(type(learner).load(path)) is type(learner)
    with pytest.raises(ModelFileError, match=r"mahala\.load"):
        Metric.load(path)
    other = mahala.POLA if not isinstance(learner, mahala.POLA) else mahala.PA
    with pytest.raises(ModelFileError, match=f"not a {other.__name__}"):
        other.load(path)
    fitted.metric_.save(path)
    assert mahala.load(path).kind == fitted.metric_.kind
    with pytest.raises(ModelFileError, match="holds a metric"):
        other.load(path)
    if "random_state" not in learner.get_params():
        return
    with pytest.raises(ValueError, match="random_state"):
        clone(learner).set_params(random_state=np.random.RandomState(0)).fit(*labelled).save(path)
    assert Metric.load(path).kind == fitted.metric_.kind  # a refused write leaves the old file
