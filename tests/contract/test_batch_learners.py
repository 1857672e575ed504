"""What every learner from all the data promises beside what every learner does."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone

import mahala
from contract.learners import as_array, case, dense, draw, every_batch_learner, fitted_to, rewritten, same_model, short
from mahala import Pairs, Triplets
from mahala.support.model_files import ModelFileError
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


def iterates(learner):
    return "callback" in learner.get_params()


def watched(learner, callback, **params):
    return clone(learner).set_params(callback=callback, **params)


@every_batch_learner
def test_what_a_fit_leaves(learner, labelled):
    X, _ = labelled
    fitted = fitted_to(learner, labelled)
    assert np.isfinite(fitted.metric_.matrix).all()
    assert fitted.metric_.is_psd
    assert fitted.stop_reason_ in STOP_REASONS
    assert len(fitted.objectives_) == fitted.n_iter_ >= 1
    assert fitted.objective_ == fitted.objectives_[-1]
    np.testing.assert_array_equal(fitted.get_mahalanobis_matrix(), fitted.metric_.matrix)
    np.testing.assert_allclose(
        fitted.components_.T @ fitted.components_, fitted.metric_.matrix, atol=1e-9 * fitted.metric_.matrix.max()
    )
    Z = fitted.transform(X)
    expected = fitted.metric_.pairwise(X)
    np.testing.assert_allclose(
        np.linalg.norm(Z[:, None] - Z, axis=2), expected, atol=1e-6 * expected.max(initial=1e-300)
    )
    assert fitted.get_feature_names_out().shape == (Z.shape[1],)
    if hasattr(fitted, "feature_importances_"):  # the features, scaled, in their order
        weights = fitted.feature_importances_
        assert weights.shape == (5,)
        assert (weights >= 0).all()
        np.testing.assert_allclose(Z, X * np.sqrt(weights))
        np.testing.assert_allclose(fitted.metric_.matrix, np.diag(weights))


@every_batch_learner
def test_callbacks_see_every_iteration_and_may_end_it(learner, labelled):
    if not iterates(learner):
        pytest.skip("has no iterations")
    X, y = labelled
    seen = []
    fitted = watched(learner, seen.append).fit(X, y)
    assert [iteration.number for iteration in seen] == list(range(1, len(seen) + 1))
    assert fitted.n_iter_ <= len(seen)  # a model may be one of an earlier iteration
    np.testing.assert_array_equal([iteration.objective for iteration in seen][: fitted.n_iter_], fitted.objectives_)
    last = seen[fitted.n_iter_ - 1].metric.matrix
    np.testing.assert_array_equal(last, fitted.metric_.matrix)
    same_model(fitted, fitted_to(learner, labelled))  # to be watched changes nothing
    stopped = watched(learner, lambda iteration: iteration.number == 1).fit(X, y)
    assert stopped.stop_reason_ == "callback"
    assert stopped.n_iter_ == 1
    np.testing.assert_array_equal(stopped.metric_.matrix, seen[0].metric.matrix)
    with pytest.raises(ValueError, match="callback must be a function or None"):
        watched(learner, 1).fit(X, y)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="signals cannot be raised here")
@every_batch_learner
def test_ctrl_c_leaves_a_usable_model(learner, labelled, tmp_path):
    if not iterates(learner):
        pytest.skip("has no iterations")
    X, y = labelled

    def interrupt(iteration):
        if iteration.number == 2:
            signal.raise_signal(signal.SIGINT)

    interrupted = watched(learner, interrupt)
    try:
        interrupted.fit(X, y)
    except KeyboardInterrupt:
        assert interrupted.stop_reason_ == "interrupted"
        assert interrupted.n_iter_ == 2
    assert np.isfinite(interrupted.transform(X)).all()
    interrupted.save(tmp_path / "model.safetensors")
    same_model(mahala.load(tmp_path / "model.safetensors"), interrupted)


@every_batch_learner
def test_an_error_leaves_the_learner_as_it_was(learner, labelled):
    if not iterates(learner):
        pytest.skip("has no iterations")
    X, y = labelled

    def fail(iteration):
        raise RuntimeError("no")

    fitted = fitted_to(learner, labelled)
    before = fitted.transform(X)
    fitted.set_params(callback=fail)
    with pytest.raises(RuntimeError, match="no"):
        fitted.fit(X[:, :3], y)
    np.testing.assert_array_equal(fitted.transform(X), before)
    fresh = watched(learner, fail)
    with pytest.raises(RuntimeError, match="no"):
        fresh.fit(X, y)
    assert not hasattr(fresh, "n_features_in_")


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
def test_saved_and_loaded(learner, labelled, tmp_path):
    X, _ = labelled
    fitted = fitted_to(learner, labelled)
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    loaded = mahala.load(path)
    same_model(loaded, fitted)
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(loaded.objectives_, fitted.objectives_)
    assert (loaded.stop_reason_, loaded.n_iter_) == (fitted.stop_reason_, fitted.n_iter_)
    assert loaded.get_params() == fitted.get_params()
    if iterates(learner):  # a callback is no state: it is left out
        fitted.set_params(callback=print).save(path)
        assert mahala.load(path).callback is None


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
        fitted = clone(learner)
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
    kind = learner._learns_from
    for other in (Pairs, Triplets):
        if other is not kind and not isinstance(learner, mahala.LogisticMetric):  # which learns from all of them
            with pytest.raises(TypeError, match=f"learns from .*, got {other.__name__}"):
                clone(learner).fit(other.from_labels(X, y, 20, random_state=0))
    fitted = fitted_to(learner, labelled)
    assert 0.5 < fitted.score(Pairs.from_labels(X, y, 300, random_state=0)) <= 1.0
    assert 0.5 < fitted.score(Triplets.from_labels(X, y, 300, random_state=0)) <= 1.0
    for wrong in (Pairs.from_labels(X, y, 20, random_state=0), Triplets.from_labels(X, y, 20, random_state=0)):
        with pytest.raises(TypeError, match="transform takes rows"):
            fitted.transform(wrong)
    if kind is None:
        return
    comparisons = draw(learner, X, y, 300)
    by_comparisons = clone(learner).fit(comparisons)
    assert by_comparisons.score(comparisons) > 0.6
    with pytest.raises(ValueError, match="must not be empty"):
        clone(learner).fit(comparisons[:0])
    array, _ = as_array(comparisons)
    # In an array nothing says which rows are the same, and that is something some learners go by.
    by_array = clone(learner).fit(array, getattr(comparisons, "y", None))
    assert by_array.score(comparisons) > 0.6
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


@every_batch_learner
def test_verbose_shows_a_bar_and_nothing_else_is_printed(learner, labelled, capsys):
    if not iterates(learner):
        pytest.skip("has no iterations")
    for verbose in (False, True):
        short(learner).set_params(verbose=verbose).fit(*labelled)
        out, err = capsys.readouterr()
        assert out == ""
        assert (type(learner).__name__ in err) if verbose else not err


@pytest.mark.filterwarnings("ignore:.* under which all rows are at distance zero")
@every_batch_learner
@examples(6)
@given(case=labelled_rows())
def test_degenerate_rows_never_break_it(learner, case):
    X, codes = case
    fitted = clone(learner)
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


@every_batch_learner
def test_far_from_the_origin(learner, labelled):
    """Distances do not change where all rows move alike; what rounding does then shall not matter."""
    X, y = labelled
    near, far = fitted_to(learner, labelled), clone(learner).fit(X + 1e6, y)
    assert far.score(X, y) == pytest.approx(near.score(X, y), abs=0.06)


@every_batch_learner
def test_parameters_that_make_no_sense(learner, labelled):
    wrong = {"max_iter": [0, 1.5, "many"], "tol": [-1.0, np.nan, "low"], "warm_start": ["yes"], "verbose": ["loud"]}
    for name, values in wrong.items():
        for value in values:
            if name in learner.get_params():
                with case((name, value)), pytest.raises(ValueError, match=f"{name} must be"):
                    clone(learner).set_params(**{name: value}).fit(*labelled)
