"""What every learner from all the data promises beside what every learner does."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.neighbors import NearestNeighbors

import mahala
from contract.learners import (
    ALL,
    case,
    every_batch_learner,
    every_representative,
    fitted_to,
    parametrize,
    rewritten,
    short,
)
from mahala import Pairs, Triplets
from mahala.support.model_files import ModelFileError
from mahala.testing import dense, same_model
from strategies import examples, labelled_rows

STOP_REASONS = {
    "converged",
    "max_iter",
    "precision",
    "callback",
    "interrupted",
    "closed form",
    "early stopping",
    "separated",
}


# What is said where rows hold nothing to learn from.
NOTHING_TO_LEARN = re.compile("class|differ|all the same|does not vary|same mean|holds out")


every_iteration = parametrize([learner for learner in ALL if "callback" in learner.get_params()])


@every_batch_learner
def test_what_a_fit_leaves(learner, labelled):
    X, _ = labelled
    fitted = fitted_to(learner, labelled)
    assert fitted.stop_reason_ in STOP_REASONS
    np.testing.assert_array_equal(fitted.get_mahalanobis_matrix(), fitted.metric_.matrix)
    np.testing.assert_allclose(
        fitted.components_.T @ fitted.components_, fitted.metric_.matrix, atol=1e-9 * fitted.metric_.matrix.max()
    )
    if hasattr(fitted, "feature_importances_"):  # the features, scaled, in their order
        weights = fitted.feature_importances_
        assert weights.shape == (5,)
        assert (weights >= 0).all()
        np.testing.assert_allclose(fitted.transform(X), X * np.sqrt(weights))
        np.testing.assert_allclose(fitted.metric_.matrix, np.diag(weights))


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals cannot be raised here")
@every_iteration
def test_ctrl_c_leaves_a_usable_model(learner, labelled, tmp_path):
    X, y = labelled

    def interrupt(iteration):
        if iteration.number == 2:
            signal.raise_signal(signal.SIGINT)

    interrupted = clone(learner).set_params(callback=interrupt)
    try:
        interrupted.fit(X, y)
    except KeyboardInterrupt:
        assert interrupted.stop_reason_ == "interrupted"
        assert interrupted.n_iter_ == 2
    assert np.isfinite(interrupted.transform(X)).all()
    interrupted.save(tmp_path / "model.safetensors")
    same_model(mahala.load(tmp_path / "model.safetensors"), interrupted)


@every_batch_learner
def test_the_unit_of_the_features_does_not_matter(learner):
    """Rows in another unit have the same neighbours, and nothing but what a learner says of them may differ."""
    rng, X = np.random.default_rng(0), load_wine().data[::3]
    X = X / X.std(axis=0) * rng.uniform(0.5, 2.0, size=13)
    y = X @ rng.normal(size=13) if learner._learns_numbers else load_wine().target[::3]
    # The identity as a prior, and the size of a sparse matrix, are in the units of the features.
    unitless = {"LSML": {"prior": "covariance"}, "SDML": {"prior": "covariance", "sparsity": 0.0}}
    learner = clone(learner).set_params(**unitless.get(type(learner).__name__, {}))
    expected = neighbors(clone(learner).fit(X, y).transform(X))
    for unit in (1e3, 1e-3):
        found = neighbors(clone(learner).fit(unit * X, y).transform(unit * X))
        shared = [len(set(a) & set(b)) / 3.0 for a, b in zip(expected, found, strict=True)]
        assert np.mean(shared) > 0.98, unit


def neighbors(Z):
    """The three nearest other rows of each row."""
    return NearestNeighbors(n_neighbors=3).fit(Z).kneighbors(return_distance=False)


@every_batch_learner
def test_a_warm_start_goes_on(learner, labelled, tmp_path):
    if "warm_start" not in learner.get_params():
        pytest.skip("has nothing to go on from")
    X, y = labelled
    first, again = (fitted_to(learner, labelled).set_params(warm_start=True) for _ in range(2))
    again.fit(X, y)
    assert again.objective_ <= first.objective_ + 1e-6 * abs(first.objective_)
    first.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    loaded.fit(X, y)
    np.testing.assert_allclose(loaded.metric_.matrix, again.metric_.matrix, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="features"):
        first.fit(X[:, :3], y)
    cold = fitted_to(learner, labelled)
    cold.fit(X[:, :3], y)
    assert cold.n_features_in_ == 3


@every_batch_learner
@pytest.mark.filterwarnings("error", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_at_the_limits_leave_a_model_that_can_be_saved(learner, labelled, tmp_path):
    """Features of every scale that float64 has; what is too small counts as zero."""
    X, y = labelled
    for scales, dtype in (
        ([1e-160], float),
        ([1e-44], float),
        ([1e44], float),
        ([1e-300, 1e-100, 1e-44, 1.0, 1e44], float),
        ([1e-20, 1e-10, 1e-3, 1e10, 1e20], float),
        ([1e-44], np.float32),
        ([1e-20, 1e-10, 1e-3, 1e10, 1e20], np.float32),
    ):
        rows = np.clip(X * scales, -1e37, 1e37).astype(dtype)
        fitted = short(learner)
        with case((scales, dtype)):
            try:
                fitted.fit(rows, y)
            except ValueError as error:
                assert re.search(f"{NOTHING_TO_LEARN.pattern}|within a factor", str(error))  # noqa: PT017
                continue
            assert fitted.metric_.is_psd
            assert np.isfinite(fitted.transform(rows.astype(np.float64))).all()
            fitted.save(tmp_path / "model.safetensors")
            same_model(mahala.load(tmp_path / "model.safetensors"), fitted)


@every_batch_learner
def test_hostile_files(learner, labelled, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted = fitted_to(learner, labelled)
    fitted.save(path)
    form = next(key for key in ("L", "M", "w") if key in fitted._model)
    right = fitted._model[form]
    attempts = [
        ({"stop_reason": 1}, {}),
        ({"seed": -1}, {}),
        ({"n_features_in": 4}, {}),
        ({}, {f"model.{form}": np.full_like(right, np.nan)}),
        ({}, {f"model.{form}": right.astype(np.int64)}),
        ({}, {f"model.{form}": right[..., :-1].copy()}),
        ({}, {f"model.{form}": None}),
        ({}, {f"model.{'M' if form == 'L' else 'L'}": np.eye(5)}),
        ({}, {"objectives": np.empty(0)}),
        ({}, {"objectives": np.ones((2, 2))}),
    ]
    if form != "L":
        attempts.append(({}, {f"model.{form}": -np.abs(right) - (np.eye(5) if form == "M" else 1.0)}))
    for header, arrays in attempts:
        with case((header, list(arrays))), pytest.raises(ModelFileError, match="model"):
            mahala.load(rewritten(path, header, arrays))


@every_batch_learner
def test_comparisons(learner, labelled):
    X, y = labelled
    fitted = fitted_to(learner, labelled)
    assert 0.5 < fitted.score(Pairs.from_labels(X, y, 300, random_state=0)) <= 1.0
    assert 0.5 < fitted.score(Triplets.from_labels(X, y, 300, random_state=0)) <= 1.0
    for wrong in (Pairs.from_labels(X, y, 20, random_state=0), Triplets.from_labels(X, y, 20, random_state=0)):
        with pytest.raises(TypeError, match="transform takes rows"):
            fitted.transform(wrong)
    kind = learner._learns_from
    if kind is Pairs:
        with pytest.raises(ValueError, match="y is needed"):
            clone(learner).fit(Pairs(X, [0], [1]))
    elif kind is Triplets:
        with pytest.raises(ValueError, match="items must be None"):
            clone(learner).fit(Triplets(X, [0], [1], [2], items=X))


@every_batch_learner
def test_float32_stays_float32(learner, labelled):
    X, y = labelled
    fitted = clone(learner).fit(X.astype(np.float32), y)
    assert fitted.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted.transform(X).dtype == np.float64
    expected = fitted_to(learner, labelled)
    assert fitted.score(X, y) == pytest.approx(expected.score(X, y), abs=0.06)
    # Beyond what squares of float32 can be, the numbers are taken as float64.
    for scale in (1e-25, 1e25):
        far = short(learner).fit((scale * X).astype(np.float32), y)
        assert np.isfinite(far.metric_.matrix).all()


@every_iteration
def test_verbose_shows_a_bar_and_nothing_else_is_printed(learner, labelled, capsys):
    for verbose in (False, True):
        short(learner).set_params(verbose=verbose).fit(*labelled)
        out, err = capsys.readouterr()
        assert out == ""
        assert (type(learner).__name__ in err) if verbose else not err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_batch_learner
@examples(6)
@given(case=labelled_rows())
def test_degenerate_rows_never_break_it(learner, case):
    X, codes = case
    fitted = short(learner)
    if fitted.get_params().get("n_components") is not None:
        fitted.set_params(n_components=1)
    try:
        fitted.fit(X, codes)
    except ValueError as error:
        if not NOTHING_TO_LEARN.search(str(error)):
            raise
        return
    assert np.isfinite(fitted.metric_.matrix).all()
    assert fitted.metric_.is_psd
    assert np.isfinite(dense(fitted.transform(X))).all()


@every_representative
def test_parameters_that_make_no_sense(learner, labelled):
    wrong = {"max_iter": [0, 1.5, "many"], "tol": [-1.0, np.nan, "low"], "warm_start": ["yes"], "verbose": ["loud"]}
    for name, values in wrong.items():
        for value in values:
            if name in learner.get_params():
                with case((name, value)), pytest.raises(ValueError, match=f"{name} must be"):
                    clone(learner).set_params(**{name: value}).fit(*labelled)
