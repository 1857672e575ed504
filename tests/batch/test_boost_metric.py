"""BoostMetric against the paper's algorithm with every matrix formed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from mahala import Triplets
from mahala.batch.boost_metric import BoostMetric
from mahala.batch.triplets import TripletEdges, label_triplets
from mahala.compiled.sums.edges import best_step, log_loss, weights
from reference.boosting import bisection, boost, exponential_objective, left_side, matrices, scale
from strategies import triplet_sets

V = 1e-7


def columns(triplets):
    return triplets.anchor, triplets.positive, triplets.negative


@given(st.integers(0, 2**32 - 1), st.integers(2, 50), st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from([1e-7, 0.1]))
def test_best_step_is_the_root_of_equation_8(seed, n, spread, v):
    rng = np.random.default_rng(seed)
    margins, gains = spread * rng.normal(size=n) * 10, spread * rng.normal(size=n)
    u = weights(margins)
    assert u == pytest.approx(np.exp(-margins - log_loss(margins)))
    gains += 2 * v + 0.01 * spread - u @ gains  # the mean gain is above v, as an eigenvalue that is accepted
    longest = 36.0 / max(gains.min(), v)
    w = best_step(margins, gains, v, longest)
    assert 0.0 < w <= longest
    if gains.min() > v or left_side(gains, -margins, v, longest) > 0:
        assert w == longest
    else:
        assert w == pytest.approx(bisection(gains, -margins, v, longest), rel=1e-6)
        assert left_side(gains, -margins, v, w * (1 - 1e-6)) > 0 > left_side(gains, -margins, v, w * (1 + 1e-6))


def test_weights_do_not_overflow():
    margins = np.array([-1e6, 1e6, 0.0])
    assert log_loss(margins) == 1e6
    assert weights(margins).tolist() == [1.0, 0.0, 0.0]
    # Weights of exp(±1e6): the step is where the one loss has come down to the other.
    assert best_step(margins[:2], np.array([1.0, -1.0]), 0.0, 1e9) == pytest.approx(1e6)


@pytest.mark.parametrize(("dtype", "n_iter", "rel"), [(np.float64, 40, 1e-6), (np.float32, 10, 1e-3)])
def test_run_equals_the_papers(labelled, dtype, n_iter, rel):
    X, y = labelled[0].astype(dtype), labelled[1]
    triplets = label_triplets(X, y, 3)
    s = scale(X, *columns(triplets))
    learner = BoostMetric(max_iter=n_iter, tol=0.0).fit(X, y)
    A = matrices(X, *columns(triplets))
    found = boost(A / s, V, n_iter)[: learner.n_iter_]
    assert len(found) >= min(n_iter, 10)
    # The last steps, before it converges, are as small as rounding.
    assert learner.weights_ * s == pytest.approx([w for w, _ in found], rel=rel, abs=1e-9)
    L = learner._model["L"]
    for row, (w, direction) in zip(L, found, strict=True):
        assert abs(row @ direction) == pytest.approx(np.sqrt(w / s), rel=rel, abs=1e-9)
    for objective, metric in zip(learner.objectives_, learner.staged_metrics(), strict=True):
        assert objective == pytest.approx(exponential_objective(A, metric.matrix, V * s), rel=rel)
    assert learner.metric_at(3).matrix == pytest.approx(L[:3].T @ L[:3])
    assert learner.metric_at(len(L)).matrix == pytest.approx(learner.metric_.matrix)


@pytest.mark.filterwarnings("ignore:.* under which all rows are at distance zero")
@given(triplet_sets(), st.sampled_from([1e-7, 1e-2]))
def test_objective_of_any_triplets(triplets, v):
    learner = BoostMetric(lam=v, max_iter=15, shrinkage=0).fit(triplets)
    A, s = matrices(triplets.X, *columns(triplets)), TripletEdges(triplets).scale
    margins = np.abs(np.einsum("rij,ij->r", A, learner.metric_.matrix)).max()
    expected = exponential_objective(A, learner.metric_.matrix, v * s)
    slack = (1e-6 if triplets.X.dtype == np.float64 else 1e-2) * (1.0 + margins)
    assert learner.objective_ == pytest.approx(expected, abs=slack)
    assert np.all(np.diff([np.log(len(triplets)), *learner.objectives_]) <= slack)


def test_converged_is_where_no_direction_is_worth_its_trace(labelled):
    X, y = labelled[0][:, :2], labelled[1]
    learner = BoostMetric(tol=0.0).fit(X, y)
    assert learner.stop_reason_ == "converged"
    triplets = label_triplets(X, y, 3)
    A, s = matrices(X, *columns(triplets)), scale(X, *columns(triplets))
    u = weights(np.einsum("rij,ij->r", A, learner.metric_.matrix))
    assert np.linalg.eigvalsh(np.einsum("r,rij->ij", u, A))[-1] <= s * (V + 1e-9)
    assert np.linalg.eigvalsh(A.mean(axis=0))[-1] > 1e-3 * s


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("lam", [V, 1e-2])
def test_no_other_minimiser_goes_much_lower(labelled, lam, seed):
    """From two starts of a square map, for which every local minimum is global.

    Weights are never lowered, which leaves a gap, as in the paper.
    """
    X, y = labelled[0][::2, :3], labelled[1][::2]
    learner = BoostMetric(lam=lam, tol=0.0, max_iter=2000).fit(X, y)
    triplets = label_triplets(X, y, 3)
    A, v = matrices(X, *columns(triplets)), lam * scale(X, *columns(triplets))

    def objective(l):
        return exponential_objective(A, l.reshape(3, 3).T @ l.reshape(3, 3), v)

    best = minimize(objective, np.random.default_rng(seed).normal(size=9), method="L-BFGS-B")
    assert best.fun - 1e-6 < learner.objective_ < best.fun + 2e-3


def test_one_feature_reaches_the_minimum():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 1))
    triplets = Triplets(X, *rng.integers(0, 40, size=(3, 60)))
    A = matrices(X, *columns(triplets))
    if A.mean() < 0:
        triplets = Triplets(X, triplets.anchor, triplets.negative, triplets.positive)
        A = -A
    learner = BoostMetric(tol=0.0).fit(triplets)
    s = scale(X, *columns(triplets))
    best = minimize_scalar(
        lambda m: exponential_objective(A, np.array([[m]]), V * s), bounds=(0, 1e3), method="bounded"
    )
    assert learner.stop_reason_ == "converged"
    assert learner.objective_ == pytest.approx(best.fun, rel=1e-8)
    assert learner.objective_ <= best.fun + 1e-12


def test_scale_of_x_does_not_matter(labelled):
    X, y = labelled
    expected = BoostMetric(max_iter=10).fit(X, y)
    for factor in (2.0**-140, 2.0**140):
        found = BoostMetric(max_iter=10).fit(X * factor, y)
        assert found.objectives_ == pytest.approx(expected.objectives_, rel=1e-9)
        assert found.transform(X * factor) == pytest.approx(expected.transform(X), rel=1e-6)


@pytest.mark.filterwarnings("ignore:.* under which all rows are at distance zero")
def test_stop_reasons(labelled):
    X, y = labelled
    assert BoostMetric(max_iter=3).fit(X, y).stop_reason_ == "max_iter"
    stopped = BoostMetric(callback=lambda iteration: iteration.number == 2).fit(X, y)
    assert (stopped.stop_reason_, stopped.n_iter_, len(stopped.weights_)) == ("callback", 2, 2)
    assert BoostMetric(tol=1e-2).fit(X, y).stop_reason_ == "converged"
    nothing = BoostMetric(shrinkage=0).fit(Triplets(X, [0, 1], [1, 0], [1, 0]))  # the same row is near and far
    assert (nothing.stop_reason_, nothing.n_iter_) == ("converged", 1)
    assert not nothing.metric_.matrix.any()
    assert nothing.objective_ == pytest.approx(np.log(2))


def test_separated():
    X = np.array([[0.0, 0.3], [0.1, -5.0], [10.0, 0.2], [10.1, 4.0]])
    learner = BoostMetric().fit(X, [0, 0, 1, 1])
    assert (learner.stop_reason_, learner.n_iter_) == ("separated", 1)
    triplets = label_triplets(X, np.array([0, 0, 1, 1]), 3)
    margins = np.einsum("rij,ij->r", matrices(X, *columns(triplets)), learner.metric_.matrix)
    assert margins.min() == pytest.approx(-np.log(np.finfo(float).eps))


def test_separated_by_several_directions():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 40)), np.arange(30) % 3
    learner = BoostMetric().fit(X, y)
    assert learner.stop_reason_ == "separated"
    assert learner.n_iter_ > 5
    assert learner.objective_ < np.log(np.finfo(float).eps) <= learner.objectives_[-2]


def test_early_stopping_goes_back_to_the_best(labelled):
    X, y = labelled
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, (y + 1) % 3, y)
    settings = {"validation_fraction": 0.3, "tol": 0.0, "random_state": 3}
    stopped = BoostMetric(n_iter_no_change=4, **settings).fit(X, y)
    longer = BoostMetric(n_iter_no_change=10_000, max_iter=stopped.n_iter_ + 4, **settings).fit(X, y)
    assert stopped.stop_reason_ == "early stopping"
    n = stopped.n_iter_
    assert len(stopped.objectives_) == len(stopped.validation_errors_) == len(stopped.weights_) == n
    assert stopped.objectives_ == pytest.approx(longer.objectives_[:n])
    assert stopped.metric_.matrix == pytest.approx(longer.metric_at(n).matrix)
    errors = longer.validation_errors_
    assert stopped.validation_errors_.tolist() == errors[:n].tolist()
    assert errors[n - 1] == errors.min()
    assert errors[: n - 1].min(initial=1.0) > errors[n - 1]

    triplets = label_triplets(X, y, 3)
    anchors = np.unique(triplets.anchor)
    chosen = anchors[np.random.default_rng(stopped._seed).permutation(len(anchors))[: round(0.3 * len(anchors))]]
    held_out = triplets[np.isin(triplets.anchor, chosen)]
    assert 1.0 - stopped.score(held_out) == pytest.approx(errors[n - 1])
    with pytest.raises(AttributeError, match="validation_fraction"):
        BoostMetric(max_iter=1).fit(X, y).validation_errors_  # noqa: B018


def test_early_stopping_after_a_warm_start_may_keep_the_start(labelled):
    X, y = labelled
    learner = BoostMetric(validation_fraction=0.3, n_iter_no_change=3, random_state=0, warm_start=True).fit(X, y)
    assert learner.stop_reason_ == "early stopping"
    before = learner.metric_.matrix
    learner.fit(X, y)
    assert learner.stop_reason_ == "early stopping"
    assert learner.metric_.matrix == pytest.approx(before)
    assert learner.n_iter_ == 1


def test_warm_start_goes_on(labelled):
    X, y = labelled
    whole = BoostMetric(max_iter=12).fit(X, y)
    parts = BoostMetric(max_iter=7, warm_start=True).fit(X, y)
    parts.set_params(max_iter=5).fit(X, y)
    assert parts.n_iter_ == 5
    assert parts.weights_ == pytest.approx(whole.weights_, rel=1e-6)
    assert parts.objectives_ == pytest.approx(whole.objectives_[7:], rel=1e-9)


def test_triplets_of_few_rows_of_a_large_x(labelled):
    X, y = labelled
    triplets = label_triplets(X, y, 3)
    padded = Triplets(np.vstack([np.full((50, 5), 1e6), X]), *(column + 50 for column in columns(triplets)))
    assert BoostMetric(max_iter=5).fit(padded).metric_.matrix == pytest.approx(
        BoostMetric(max_iter=5).fit(X, y).metric_.matrix
    )


def test_it_helps(dataset):
    X, y = dataset("wine")
    learner = BoostMetric(max_iter=100).fit(X[::2], y[::2])
    assert learner.score(X[1::2], y[1::2]) > 0.95
    with pytest.warns(ConvergenceWarning, match="all rows are at distance zero"):
        nothing = BoostMetric(lam=0.5, max_iter=1).fit(X[::2], y[::2])
    assert nothing.score(X[1::2], y[1::2]) < 0.8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer"),
        ({"lam": 0.0}, "lam must be a number of at least 1e-40"),
        ({"lam": 1e-50}, "lam must be a number of at least 1e-40"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a number between 0 and 1, both excluded or None"),
        ({"validation_fraction": 1e-3}, "holds out 0; at least one anchor must be held out"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer"),
        ({"max_iter": 0}, "max_iter must be an integer"),
    ],
)
def test_bad_parameters(params, message, labelled):
    with pytest.raises(ValueError, match=message):
        BoostMetric(**params).fit(*labelled)


def test_metric_at_wants_an_iteration(labelled):
    learner = BoostMetric(max_iter=3).fit(*labelled)
    for n_iter in (0, 4, 1.5):
        with pytest.raises(ValueError, match="n_iter must be an integer from 1 to 3"):
            learner.metric_at(n_iter)


def test_save_and_load(labelled, tmp_path):
    X, y = labelled
    learner = BoostMetric(max_iter=6, validation_fraction=0.2, warm_start=True, random_state=1).fit(X, y)
    learner.save(tmp_path / "learner")
    loaded = BoostMetric.load(tmp_path / "learner")
    assert loaded.validation_errors_.tolist() == learner.validation_errors_.tolist()
    assert loaded.weights_.tolist() == learner.weights_.tolist()
    assert loaded.fit(X, y).objectives_.tolist() == learner.fit(X, y).objectives_.tolist()
