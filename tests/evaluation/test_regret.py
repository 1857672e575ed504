"""The best fixed metric against slow references, and the regret against its definition and what is proven of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize

import mahala
from mahala import Pairs, Triplets
from mahala.evaluation import regret
from mahala.evaluation.hindsight import PairLosses, TripletLosses
from mahala.online import RDML


def noisy_pairs(seed, n=150, d=3, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, d)) * [3.0, 1.0, 0.1][:d]
    left, right = rng.integers(40, size=(2, n))
    right = np.where(left == right, (right + 1) % 40, right)
    distances = np.square(X[left, 0] - X[right, 0]) / 9.0 + noise * rng.normal(size=n)
    return Pairs(X, left, right, distances < np.median(distances))


def noisy_triplets(seed, n=120, d=3, noise=1.0):
    rng = np.random.default_rng(seed)
    U, rows = rng.normal(size=(d, d)), rng.normal(size=(n, 3, d))
    scores = np.einsum("ti,ij,tj->t", rows[:, 0], U, rows[:, 1] - rows[:, 2]) + noise * rng.normal(size=n)
    rows[scores < 0, 1:] = rows[scores < 0, 2:0:-1]
    return Triplets.from_array(rows)


def least_by_linear_program(triplets, margin, lam, off_diagonal):
    """The exact minimum of Σ hinges + n λ r(U), as a linear program."""
    x, q = triplets.X[triplets.anchor], triplets.X[triplets.positive] - triplets.X[triplets.negative]
    n, d = x.shape
    G = np.einsum("ti,tj->tij", x, q).reshape(n, -1)
    costs = (n * lam * (np.ones((d, d)) - off_diagonal * np.eye(d))).ravel()
    found = linprog(
        np.concatenate([costs, costs, np.ones(n)]), np.hstack([-G, G, -np.eye(n)]), np.full(n, -margin), method="highs"
    )
    return found.fun


def least_by_penalty(V, y):
    """The minimum of Σ [1 - y (b - d)]₊² over M ⪰ 0, b ≥ 1, by Nelder and Mead over the factor of M, many times."""
    d = V.shape[1]
    entries = np.tril_indices(d)

    def total(variables):
        L = np.zeros((d, d))
        L[entries] = variables[:-1]
        distances = np.square(V @ L).sum(axis=1)
        return np.square(np.maximum(0.0, 1.0 - y * (1.0 + variables[-1] ** 2 - distances))).sum()

    options = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-10, "fatol": 1e-12, "adaptive": True}
    rng, least = np.random.default_rng(0), np.inf
    for _ in range(4):
        at = rng.normal(size=len(entries[0]) + 1)
        for _ in range(4):  # a simplex that has collapsed starts anew
            at = minimize(total, at, method="Nelder-Mead", options=options).x
        least = min(least, total(at))
    return least


@pytest.mark.parametrize("seed", [0, 1])
def test_the_best_metric_of_pairs(seed):
    pairs = noisy_pairs(seed, d=2)
    V, y = pairs.differences(), np.where(pairs.similar, 1.0, -1.0)
    losses = PairLosses(V, np.ones(len(y)), y, y, False)
    least = least_by_penalty(V, y)
    for tol in (1e-2, 1e-6):
        best = losses.best(tol)
        total = best.losses.sum()
        assert 0.0 <= best.gap <= tol * total
        assert total - best.gap <= least * (1 + 1e-9)
        assert total >= least * (1 - 1e-6)
        assert np.linalg.eigvalsh(best.matrix).min() >= -1e-12
        assert best.threshold >= 1.0
        distances = np.einsum("ti,ij,tj->t", V, best.matrix, V)
        np.testing.assert_allclose(best.losses, np.maximum(0.0, 1.0 - y * (best.threshold - distances)) ** 2)


@pytest.mark.parametrize("lam", [0.0, 0.002, 0.05])
@pytest.mark.parametrize("off_diagonal", [False, True])
def test_the_best_metric_of_triplets(lam, off_diagonal):
    triplets = noisy_triplets(0)
    penalties = lam * (np.ones((3, 3)) - off_diagonal * np.eye(3))
    rows = [triplets.X[getattr(triplets, role)] for role in ("anchor", "positive", "negative")]
    losses = TripletLosses(rows[0], rows[1] - rows[2], 2.0, penalties)
    least = least_by_linear_program(triplets, 2.0, lam, off_diagonal)
    best = losses.best(1e-4)
    total = best.losses.sum()
    assert least * (1 - 1e-9) <= total <= least * (1 + 1e-4)
    assert total - best.gap <= least * (1 + 1e-9)
    assert best.gap <= 1.1e-4 * total


@pytest.mark.parametrize(
    "learner",
    [
        mahala.POLA(gamma=1.0),
        mahala.PA("I", C=0.1),
        mahala.PA("II", C=0.1),
        mahala.PA("II", C=0.1, psd="end"),
        mahala.PA("LS", init="identity"),
        mahala.LEGO(similar_target=0.5, dissimilar_target=2.0),
        RDML(),
    ],
    ids=repr,
)
def test_pairs_step_by_step(learner):
    pairs = noisy_pairs(0)
    result = regret(learner, pairs)
    V, y = pairs.differences(), np.where(pairs.similar, 1.0, -1.0)

    def loss(M, b):
        distances = np.einsum("ti,ij,tj->t", V, M, V)
        if isinstance(learner, mahala.LEGO):
            return (distances - np.where(y > 0, 0.5, 2.0)) ** 2
        if isinstance(learner, RDML):
            return np.maximum(0.0, y * (distances - 1.0)) ** 2
        return np.maximum(0.0, 1.0 - y * (b - distances)) ** 2

    stream = type(learner)(**learner.get_params(deep=False))
    expected = []
    for t in range(len(pairs)):
        if t:
            model = getattr(stream, "raw_metric_", stream.metric_)
            expected.append(loss(model.matrix, model.threshold)[t])
        stream.partial_fit(pairs[t : t + 1])
    np.testing.assert_allclose(np.diff(result.stream), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(result.best, np.cumsum(loss(result.metric.matrix, result.metric.threshold)), rtol=1e-9)
    np.testing.assert_array_equal(result.regret, result.stream - result.best)
    assert result.gap <= 1e-3 * max(result.best[-1], 0.01 * len(y) * 4.0)
    # No other metric is better by more than the gap.
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.3):
        for _ in range(20):
            L = np.linalg.cholesky(result.metric.matrix + 1e-9 * np.eye(3)).T + scale * rng.normal(size=(3, 3))
            b = max(1.0, (result.metric.threshold or 1.0) + scale * rng.normal())
            assert loss(L.T @ L, b).sum() >= result.best[-1] - result.gap
    gamma = {"POLA": 1.0, "PA": 5.0}.get(type(learner).__name__)
    if gamma is None or getattr(learner, "variant", "II") != "II" or getattr(learner, "psd", "every") != "every":
        assert result.bound is None
        return
    assert (result.stream <= result.bound).all()
    pola = mahala.POLA(gamma=gamma).partial_fit(pairs)
    assert result.bound[-1] == pytest.approx(pola.loss_bound(result.metric, squared_loss=result.best[-1]))


def test_separable_pairs_have_the_bound_without_slack():
    pairs = noisy_pairs(0, noise=0.0)
    for learner in (mahala.POLA(), mahala.PA("hard")):
        result = regret(learner, pairs)
        assert result.best[-1] == result.gap == 0.0
        assert (result.stream <= result.bound).all()
    assert regret(mahala.POLA(), noisy_pairs(0)).bound is None


@pytest.mark.parametrize(
    "learner",
    [
        mahala.OASIS(init="identity"),
        mahala.SORS(0.02, lam=0.01, init="identity"),
        mahala.OASIS(init="zero"),
        mahala.AROMA(init="zero"),
        mahala.OGD(0.02, init="zero"),
        mahala.SORS(0.02, lam=0.01, init="zero"),
        mahala.SORS(0.02, lam=0.01, init="zero", penalty="offdiagonal", storage="sparse", average=True),
        mahala.AdaSORS(0.2, lam=0.01, init="zero", delta=3.0),
        mahala.AdaSORS(0.2, lam=0.0, init="zero", margin=2.0),
    ],
    ids=repr,
)
def test_triplets_step_by_step(learner):
    triplets = noisy_triplets(0, n=60)
    result = regret(learner, triplets)
    lam = getattr(learner, "lam", 0.0)
    exempt = lam > 0.0 and learner.penalty == "offdiagonal"
    x, q = triplets.X[triplets.anchor], triplets.X[triplets.positive] - triplets.X[triplets.negative]

    def loss(M):
        penalty = lam * np.sum(np.abs(M) * (1.0 - exempt * np.eye(3)))
        return np.maximum(0.0, learner.margin - np.einsum("ti,ij,tj->t", x, M, q)) + penalty

    stream = type(learner)(**learner.get_params(deep=False) | {"average": False})
    M, losses, matrices = np.eye(3) * (learner.init == "identity"), [], []
    for t in range(len(triplets)):
        losses.append(loss(M)[t])
        matrices.append(M)
        matrix = stream.partial_fit(triplets[t : t + 1]).metric_.matrix
        M = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_allclose(result.stream, np.cumsum(losses), rtol=1e-9)
    U = result.metric.matrix
    np.testing.assert_allclose(result.best, np.cumsum(loss(U)), rtol=1e-9)
    assert result.best[-1] <= least_by_linear_program(triplets, learner.margin, lam, exempt) * (1 + 1e-3)
    if learner.init == "identity" or not isinstance(learner, mahala.OGD | mahala.SORS):
        assert result.bound is None
        return
    assert (result.stream <= result.bound * (1 + 1e-9)).all()
    G, eta, size = np.einsum("ti,tj->tij", x, q), learner.eta, np.sum(U**2)
    if isinstance(learner, mahala.AdaSORS):
        G = G[[step > lam * np.abs(M).sum() for step, M in zip(losses, matrices, strict=True)]]  # where hinges moved M
        D = max(np.abs(M - U).max() for M in matrices)
        bound = (D**2 / (2 * eta) + eta) * np.sqrt(np.sum(G**2, axis=0)).sum() + learner.delta * size / (2 * eta)
    else:
        bound = size / (2 * eta) + eta / 2 * np.sum(G**2, axis=(1, 2)).max() * len(triplets)
    assert result.bound[-1] - result.best[-1] == pytest.approx(bound)


def test_rows_and_plot():
    result = regret(mahala.POLA(gamma=1.0), noisy_pairs(0, n=120))
    assert [row.step for row in result.rows] == [1, 2, 5, 10, 20, 50, 100, 120]
    row = result.rows[3]
    assert row[1:] == (result.stream[9], result.best[9], result.regret[9], result.bound[9])
    ax = result.plot()
    assert result.plot(ax) is ax
    stream, best, bound = ax.lines[:3]
    np.testing.assert_array_equal(stream.get_ydata(), result.stream)
    np.testing.assert_array_equal(best.get_ydata(), result.best)
    np.testing.assert_array_equal(bound.get_ydata(), result.bound)
    assert regret(mahala.PA(), noisy_pairs(0)).rows[-1].bound is None


def test_what_is_wrong_is_named():
    pairs, triplets = noisy_pairs(0), noisy_triplets(0)
    with pytest.raises(TypeError, match="learner must be an online learner, such as PA or OASIS, got NCA"):
        regret(mahala.NCA(), pairs)
    with pytest.raises(TypeError, match="comparisons must be Pairs for PA, got Triplets"):
        regret(mahala.PA(), triplets)
    with pytest.raises(TypeError, match="comparisons must be Triplets for OASIS, got Pairs"):
        regret(mahala.OASIS(), pairs)
    with pytest.raises(ValueError, match="kernel must be None for regret, got 'rbf'"):
        regret(mahala.PA(kernel="rbf"), pairs)
    with pytest.raises(ValueError, match="margin must be a number"):
        regret(mahala.OASIS(margin="auto"), triplets)
    with pytest.raises(ValueError, match="these pairs have no labels"):
        regret(mahala.PA(), Pairs(pairs.X, pairs.left, pairs.right))
    with pytest.raises(ValueError, match="comparisons must not be empty"):
        regret(mahala.PA(), pairs[:0])
    with pytest.raises(ValueError, match="tol must be"):
        regret(mahala.PA(), pairs, tol=0.0)
