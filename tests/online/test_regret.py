"""What is proven of the online learners, as inequalities that every stream must satisfy.

U is any matrix to compare with; where a bound is about a separable stream, it is one that has no loss on it. The
derivations are short and stand beside the tests, since some are for other starts, or sharper, than those of the papers.
Each bound is also tested on a stream on which it leaves little room, so that a learner that lost twice as much, or a
bound of half the size, would fail.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import mahala
from mahala import BilinearMetric, Metric, Triplets

ROUNDING = 1.0 + 1e-9
each_seed = pytest.mark.parametrize("seed", [0, 1])
# The storages follow the seeds.
each_stream = pytest.mark.parametrize(("seed", "init"), [(0, "identity"), (1, "zero")])
each_start = pytest.mark.parametrize("init", ["identity", "zero"])


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def separable_triplets(seed, n=60, d=5):
    """Triplets that a sparse matrix U orders with a margin of at least 1: of many the clearest, in their order."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5)
    rows = rng.normal(size=(4 * n, 3, d))
    scores = np.sum(U * gradients(rows), axis=(1, 2))
    rows[scores < 0, 1:] = rows[scores < 0, 2:0:-1]
    clear = np.abs(scores) / np.sqrt(np.sum(gradients(rows) ** 2, axis=(1, 2)))
    chosen = np.sort(np.argsort(clear)[-n:])
    return rows[chosen], U / np.abs(scores[chosen]).min()


def one_direction(n, length=0.5):
    """The same triplet again and again, in one dimension: x = 1 and q = length."""
    return np.tile([[1.0], [length], [0.0]], (n, 1, 1)), np.array([[1.0 / length]])


def run(learner, rows):
    """The models before each step and after the last one."""
    starts = {"identity": np.eye(rows.shape[2]), "zero": np.zeros((rows.shape[2],) * 2)}
    models = [learner.init.matrix if isinstance(learner.init, Metric) else starts[learner.init]]
    for row in rows:
        learner.learn_one(*row)
        models.append(dense(learner.metric_.matrix))
    return np.array(models)


def gradients(rows):
    """x qᵀ of each triplet: what a step adds to M, and the gradient of the loss but for its sign."""
    return np.einsum("ti,tj->tij", rows[:, 0], rows[:, 1] - rows[:, 2])


def hinge(models, G):
    """The loss of each step, under one model or the model of that step."""
    return np.maximum(0.0, 1.0 - np.sum(models * G, axis=(1, 2)))


def square(A):
    return float(np.sum(A * A))


def norm_1(M, off_diagonal):
    """r(M), of one matrix or of each: the sum of |M_ij|, without the diagonal where that is exempt."""
    return np.sum(np.abs(M) * (1.0 - np.eye(M.shape[-1]) * off_diagonal), axis=(-2, -1))


def comparators(U, seed):
    rng = np.random.default_rng(seed)
    return [U, 0.5 * U, np.zeros_like(U), np.eye(len(U)), rng.normal(size=U.shape)]


# Gradient steps


def sors_regrets(learner, rows, comparators, eta, lam, off_diagonal):
    """The regret of (M_t) against each U, and its bound.

    A step is the minimum of η⟨G_t, M⟩ + ½‖M - M_t‖² + ηλ r(M), G_t a gradient of l_t at M_t, 0 where l_t = 0. At that
    minimum some R in ∂r(M_t+1) makes M_t+1 - M_t + ηG_t + ηλR zero. Its inner product with M_t+1 - U, with l_t(M_t) -
    l_t(U) ≤ ⟨G_t, M_t - U⟩ and η⟨G_t, M_t - M_t+1⟩ ≤ ½η²‖G_t‖² + ½‖M_t - M_t+1‖², gives

        η (l_t(M_t) + λ r(M_t+1) - l_t(U) - λ r(U)) ≤ ½‖M_t - U‖² - ½‖M_t+1 - U‖² + ½η²‖G_t‖².

    In the sum over t all r(M_t+1) become r(M_t) at the cost of r(M_1) - r(M_T+1), which is d where M_1 = I and r
    counts the diagonal, and 0 for the paper's M_1 = 0:

        Σ (l_t + λ r)(M_t) - Σ (l_t + λ r)(U) ≤ ‖M_1 - U‖² / 2η + η/2 Σ‖G_t‖² + λ (r(M_1) - r(M_T+1)).
    """
    M, G = run(learner, rows), gradients(rows)
    losses, r = hinge(M[:-1], G), norm_1(M, off_diagonal)
    np.testing.assert_allclose(learner.history_.loss, losses, atol=1e-10 * losses.max())
    squares = np.sum(G**2, axis=(1, 2))
    for U in comparators:
        regret = np.sum(losses + lam * r[:-1]) - np.sum(hinge(U, G) + lam * norm_1(U, off_diagonal))
        bound = square(M[0] - U) / (2 * eta) + eta / 2 * squares[losses > 0].sum() + lam * (r[0] - r[-1])
        # The paper's form.
        assert bound <= square(M[0] - U) / (2 * eta) + eta / 2 * squares.max() * len(rows) + lam * r[0]
        yield regret, bound


@each_stream
@pytest.mark.parametrize("eta", [0.003, 0.05])
def test_ogd(seed, init, eta):
    rows, U = separable_triplets(seed)
    for regret, bound in sors_regrets(mahala.OGD(eta, init=init), rows, comparators(U, seed), eta, 0.0, False):
        assert regret <= bound * ROUNDING


@each_stream
@pytest.mark.parametrize(
    ("penalty", "eta", "lam"), [("l1", 0.003, 0.1), ("offdiagonal", 0.05, 0.02), ("l1", 0.05, 1.0)]
)
def test_sors(seed, init, penalty, eta, lam):
    rows, U = separable_triplets(seed)
    learner = mahala.SORS(eta, lam=lam, penalty=penalty, init=init, storage="sparse" if seed else "dense")
    for regret, bound in sors_regrets(learner, rows, comparators(U, seed), eta, lam, penalty == "offdiagonal"):
        assert regret <= bound * ROUNDING


@each_start
@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_gradient_steps_all_one_way_are_the_worst_case(init, lam):
    """Up to where M = U the inequalities above are equalities but for what the last step goes too far."""
    eta = 0.02
    distance, speed = 2.0 - (init == "identity"), eta * (0.5 - lam)
    rows, U = one_direction(int(distance / speed))
    for learner in [mahala.SORS(eta, lam=lam, init=init)] + [mahala.OGD(eta, init=init)] * (lam == 0.0):
        [(regret, bound)] = sors_regrets(learner, rows, [U], eta, lam, False)
        assert 0.95 * bound < regret <= bound * ROUNDING


def adasors_regrets(learner, rows, comparators, eta, lam, delta, off_diagonal):
    """The regret of (M_t) against each U, and its bound: Theorem 2 of the 2015 paper, with all that δ and M_1 add.

    With the norm ‖A‖_Σ² = Σ_ij Σ_t,ij A_ij², Σ_t = δ + s_t, s_t,ij = ‖G_1:t,ij‖₂, in place of ‖A‖² a step is that of
    SORS, and the inequality of a step above becomes

        η (l_t(M_t) + λ r(M_t+1) - l_t(U) - λ r(U)) ≤ ½‖M_t - U‖²_Σt - ½‖M_t+1 - U‖²_Σt + ½η² Σ_ij G_t,ij² / Σ_t,ij.

    Summed, the first two leave ½ Σ_ij ((δ + s_1)(M_1 - U)² + Σ_t>1 (s_t - s_t-1)(M_t - U)²) ≤ ½ δ‖M_1 - U‖² + ½ D² Σ_ij
    s_T,ij with D the largest entry of any |M_t - U|; and Σ_t g_t² / ‖g_1:t‖₂ ≤ 2‖g_1:T‖₂ for any numbers g. So

        Σ (l_t + λ r)(M_t) - Σ (l_t + λ r)(U) ≤ (D²/2η + η) Σ_ij ‖G_1:T,ij‖₂ + δ‖M_1 - U‖²/2η + λ (r(M_1) - r(M_T+1)).
    """
    M, G = run(learner, rows), gradients(rows)
    losses, r = hinge(M[:-1], G), norm_1(M, off_diagonal)
    sums = np.sqrt(np.sum(G[losses > 0] ** 2, axis=0)).sum()
    for U in comparators:
        regret = np.sum(losses + lam * r[:-1]) - np.sum(hinge(U, G) + lam * norm_1(U, off_diagonal))
        D = np.abs(M[:-1] - U).max()
        yield regret, (D**2 / (2 * eta) + eta) * sums + delta * square(M[0] - U) / (2 * eta) + lam * (r[0] - r[-1])


@each_stream
@pytest.mark.parametrize("penalty", ["l1", "offdiagonal"])
@pytest.mark.parametrize(("eta", "lam", "delta"), [(0.1, 0.01, 0.1), (1.0, 0.1, 1e-6), (0.1, 0.3, 10.0)])
def test_adasors(seed, init, penalty, eta, lam, delta):
    rows, U = separable_triplets(seed)
    learner = mahala.AdaSORS(
        eta, lam=lam, delta=delta, penalty=penalty, init=init, storage="sparse" if seed else "dense"
    )
    regrets = adasors_regrets(learner, rows, comparators(U, seed), eta, lam, delta, penalty == "offdiagonal")
    for regret, bound in regrets:
        assert regret <= bound * ROUNDING


@each_start
def test_adaptive_steps_all_one_way(init):
    """Where M moves from M_1 to U by steps of η/√t, the largest share of the bound is lost after three quarters of the
    way, and it is 3/8: D counts the first step's distance throughout. Where δ is large, steps are of one length, and
    what it adds to the bound is all of it."""
    distance = 2.0 - (init == "identity")
    eta = 0.03 * distance
    rows, U = one_direction(int((0.75 * distance / (2 * eta)) ** 2))
    [(regret, bound)] = adasors_regrets(
        mahala.AdaSORS(eta, lam=0.0, delta=1e-12, init=init), rows, [U], eta, 0.0, 1e-12, False
    )
    assert 0.35 * bound < regret <= bound * ROUNDING
    eta, delta = 1.0, 120.0
    rows, U = one_direction(int(distance * delta / 0.5))
    [(regret, bound)] = adasors_regrets(
        mahala.AdaSORS(eta, lam=0.0, delta=delta, init=init), rows, [U], eta, 0.0, delta, False
    )
    assert 0.85 * bound < regret <= bound * ROUNDING


# Passive-aggressive steps


def pa_sums(learner, rows, U):
    """What the steps of OASIS have gained on U, and all there was to gain.

    With N = ‖x‖²‖q‖², l = 1 - ⟨M_t, x qᵀ⟩ where there is a loss, and ⟨U, x qᵀ⟩ ≥ 1, a step of length τ gains

        ‖M_t - U‖² - ‖M_t+1 - U‖² = 2τ⟨U - M_t, x qᵀ⟩ - τ²N ≥ τ (2l - τN),

    and all steps together no more than ‖M_1 - U‖². With τ = min(C, l/N) that is at least τl.
    """
    M, G = run(learner, rows), gradients(rows)
    N = np.sum(G**2, axis=(1, 2))
    losses, tau = hinge(M[:-1], G), learner.history_.tau
    np.testing.assert_allclose(tau, np.minimum(learner.C, losses / N), rtol=1e-8, atol=1e-12)
    return np.sum(tau * (2 * losses - tau * N)), square(M[0] - U), N.max()


@each_stream
def test_oasis_without_a_limit(seed, init):
    """τ = l/N: Σ l²/N ≤ ‖M_1 - U‖², so the squared losses are bounded for ever."""
    rows, U = separable_triplets(seed)
    learner = mahala.OASIS(C=1e9, init=init)
    gained, bound, largest = pa_sums(learner, rows, U)
    assert gained <= bound * ROUNDING
    assert learner.squared_loss_ <= bound * largest * ROUNDING
    assert learner.squared_loss_ > 0.0


@each_stream
@pytest.mark.parametrize("C", [1e-4, 0.01, 0.1])
def test_oasis(seed, init, C):
    """A mistake has l ≥ 1 and so gains at least min(C, 1/N): there are at most max(N, 1/C) ‖M_1 - U‖² of them."""
    rows, U = separable_triplets(seed)
    learner = mahala.OASIS(C, init=init)
    gained, bound, largest = pa_sums(learner, rows, U)
    assert gained <= bound * ROUNDING
    assert learner.history_.tau @ learner.history_.loss <= bound * ROUNDING
    assert learner.n_mistakes_ <= max(largest, 1 / C) * bound


@each_start
def test_passive_aggressive_steps_in_orthogonal_directions_are_the_worst_case(init):
    """Each entry of M is made right once, so every inequality is an equality."""
    i, j = np.divmod(np.arange(16), 4)
    rows = np.stack([np.eye(4)[i], 0.5 * np.eye(4)[j], np.zeros((16, 4))], axis=1)
    U = np.full((4, 4), 2.0)
    learner = mahala.OASIS(C=1e9, init=init)
    gained, bound, largest = pa_sums(learner, rows, U)
    assert gained == pytest.approx(bound)
    assert learner.squared_loss_ == pytest.approx(bound * largest)


def test_mistakes_of_short_steps():
    """From -1 to 1 by steps of C, half of the way on the wrong side of zero: a quarter of the bound."""
    C = 0.002
    rows, U = one_direction(1000, length=1.0)
    learner = mahala.OASIS(C, init=BilinearMetric([[-1.0]]))
    gained, bound, largest = pa_sums(learner, rows, U)
    assert 0.99 * bound < gained <= bound * ROUNDING
    assert 0.99 * bound / 4 < learner.n_mistakes_ / max(largest, 1 / C) <= bound


# Steps by confidence


def aroma_sums(learner, rows, U):
    """What the steps of AROMA have gained on U, all there was to gain, and how much of that came about on the way.

    In the norm ‖A‖_t² = tr(Aᵀ Λ⁻¹ A Γ⁻¹) of the covariances before step t, M_t+1 - M_t = τ Λx (Γq)ᵀ, τ = l/(s + r), s =
    (xᵀΛx)(qᵀΓq), and ⟨U, x qᵀ⟩ ≥ 1 give, as for OASIS,

        ‖M_t - U‖_t² - ‖M_t+1 - U‖_t² ≥ τ (2l - τs) = l² (s + 2r)/(s + r)²,

    which for a mistake is at least 1/(s + r). The norms grow with confidence, unlike AROW's not by one direction only:
    Λ⁻¹ and Γ⁻¹ both do, so nothing cancels that growth, and there is no bound in terms of ‖M_1 - U‖ and log det alone.
    What is left is

        Σ l² (s + 2r)/(s + r)² ≤ ‖M_1 - U‖² + Σ (‖M_t+1 - U‖²_t+1 - ‖M_t+1 - U‖²_t)
                               ≤ ‖M_1 - U‖² + D² (tr Λ_T⁻¹ tr Γ_T⁻¹ - d e)

    with D the largest ‖M_t - U‖, since Λ⁻¹ ⊗ Γ⁻¹ only grows and its trace is tr Λ⁻¹ tr Γ⁻¹.
    """
    M, G = run(learner, rows), gradients(rows)
    d, e = U.shape
    x, q, r = rows[:, 0], rows[:, 1] - rows[:, 2], learner.r
    only = np.eye if learner.covariance == "diagonal" else lambda n: np.ones((n, n))
    inverse_left, inverse_right = np.eye(d), np.eye(e)
    gained, growth = 0.0, 0.0
    for t in np.flatnonzero(hinge(M[:-1], G)):
        left, right = np.linalg.inv(inverse_left), np.linalg.inv(inverse_right)
        sx, sq = x[t] @ left @ x[t], q[t] @ right @ q[t]
        loss, tau = learner.history_.loss[t], learner.history_.tau[t]
        assert tau == pytest.approx(loss / (sx * sq + r))
        gained += tau * (2 * loss - tau * sx * sq)
        rest = M[t + 1] - U
        growth -= np.trace(rest.T @ inverse_left @ rest @ inverse_right)
        inverse_left = inverse_left + sq / (r * e) * np.outer(x[t], x[t]) * only(d)
        inverse_right = inverse_right + sx / (r * d) * np.outer(q[t], q[t]) * only(e)
        growth += np.trace(rest.T @ inverse_left @ rest @ inverse_right)
    largest = max(square(model - U) for model in M)
    traces = np.trace(inverse_left) * np.trace(inverse_right) - d * e
    return gained, square(M[0] - U), growth, largest * traces


@each_stream
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("r", [0.1, 1.0, 100.0])
def test_aroma(seed, init, covariance, r):
    rows, U = separable_triplets(seed)
    learner = mahala.AROMA(r, covariance=covariance, init=init)
    gained, first, growth, most = aroma_sums(learner, rows, U)
    assert gained <= (first + growth) * ROUNDING
    assert 0.0 <= growth <= most * ROUNDING
    N = np.sum(gradients(rows) ** 2, axis=(1, 2)).max()
    assert learner.n_mistakes_ <= (N + r) * (first + growth)


@each_start
def test_confident_steps_in_orthogonal_directions_are_the_worst_case(init):
    rows = np.stack([np.eye(4), 0.5 * np.eye(4), np.zeros((4, 4))], axis=1)
    gained, first, growth, _ = aroma_sums(mahala.AROMA(0.01, init=init), rows, 2.0 * np.eye(4))
    assert growth < 0.1 * first
    assert 0.9 * (first + growth) < gained <= first + growth


@each_seed
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_mistakes_of_aroma_become_rare(seed, covariance):
    """No theorem says so; on a separable stream that comes again and again they do not stop soon, but become fewer."""
    rows, _ = separable_triplets(seed, n=100)
    triplets = Triplets.from_array(rows)
    learner = mahala.AROMA(1.0, covariance=covariance)
    mistakes = []
    for _ in range(64):
        learner.partial_fit(triplets)
        mistakes.append(learner.n_mistakes_)
    a_pass = np.diff(mistakes, prepend=0)
    assert a_pass[0] > 10
    assert a_pass[32:].mean() <= a_pass[16:32].mean() <= a_pass[4:16].mean() < a_pass[0] / 2
    assert a_pass[32:].mean() < a_pass[0] / 5


# Learners from pairs


def separable_pairs(seed, similar, dissimilar, n=150, d=4):
    """Differences whose squared distances under some positive definite U are those given, similar or dissimilar."""
    rng = np.random.default_rng(seed)
    root = np.eye(d) + 0.5 * rng.normal(size=(d, d))
    U = root @ root.T
    V, y = rng.normal(size=(n, d)), rng.choice([-1, 1], size=n)
    wanted = np.where(y > 0, similar(rng, n), dissimilar(rng, n))
    V *= np.sqrt(wanted / np.einsum("ti,ij,tj->t", V, U, V))[:, None]
    return V, y, U


def run_pairs(learner, V, y):
    """The matrices before each step and after the last one."""
    models, zero = [np.eye(V.shape[1])], np.zeros(V.shape[1])
    for v, label in zip(V, y, strict=True):
        learner.learn_one(v, zero, label)
        models.append(learner.metric_.matrix)
    return np.array(models)


def logdet(A, B):
    """D(A, B) = tr AB⁻¹ - log det AB⁻¹ - d."""
    ratio = A @ np.linalg.inv(B)
    return np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(A)


def lego_sums(eta, targets, V, y, U):
    """The squared losses of LEGO, and their bound where U has none.

    A step is the minimum of D(M, M_t) + η/2 (vᵀMv - y)², a Bregman divergence and a convex function, so for any U

        D(U, M_t+1) + D(M_t+1, M_t) + η/2 (vᵀM_t+1v - y)² ≤ D(U, M_t) + η/2 (vᵀUv - y)².

    With ŷ and ȳ the distances before and after, D(M_t+1, M_t) = ȳ/ŷ - log(ȳ/ŷ) - 1 ≥ (ȳ - ŷ)² / 2B² where both are at
    most B, as the second derivative of -log is at least 1/B² there; and (ȳ - ŷ)²/2B² + η/2 (ȳ - y)² is at least
    ½ (ŷ - y)² / (B² + 1/η), whatever ȳ. In the sum over t

        Σ (ŷ_t - y_t)² ≤ 2 (B² + 1/η) D(U, I).
    """
    learner = mahala.LEGO(eta, similar_target=targets[0], dissimilar_target=targets[1])
    M = run_pairs(learner, V, y)
    before, after = (np.einsum("ti,tij,tj->t", V, models, V) for models in (M[:-1], M[1:]))
    target = np.where(y > 0, *targets)
    # No step was shortened: each is the minimum.
    np.testing.assert_allclose(after * (1 + eta * (after - target) * before), before, rtol=1e-9)
    moved = np.array([logdet(*pair) for pair in zip(M[1:], M[:-1], strict=True)])
    proximal = np.sum(moved + eta / 2 * (after - target) ** 2)
    assert proximal + logdet(U, M[-1]) <= logdet(U, M[0]) * ROUNDING
    B = max(before.max(), after.max())
    assert learner.squared_loss_ == pytest.approx(np.sum((before - target) ** 2))
    return learner.squared_loss_, 2 * (B**2 + 1 / eta) * logdet(U, np.eye(len(U)))


@each_seed
@pytest.mark.parametrize("eta", [0.01, 0.3, 10.0])
def test_lego(seed, eta):
    targets = 0.5, 2.0
    V, y, U = separable_pairs(seed, lambda rng, n: np.full(n, 0.5), lambda rng, n: np.full(n, 2.0))
    losses, bound = lego_sums(eta, targets, V, y, U)
    assert 0.0 < losses <= bound


def test_lego_in_one_dimension_is_the_worst_case():
    """A long step all the way to a target nearby; and many short ones."""
    near = 1.05
    losses, bound = lego_sums(1e6, (near, 2.0), np.ones((3, 1)), np.ones(3), np.array([[near]]))
    assert 0.9 * bound < losses <= bound
    losses, bound = lego_sums(0.05, (near, 2.0), np.ones((400, 1)), np.ones(400), np.array([[near]]))
    assert 0.45 * bound < losses <= bound


def rdml_sums(lam, V, y, U):
    """What RDML has lost in its mistakes, and the bound of it where U makes none.

    A pair with l = y (vᵀMv - 1) ≥ 0 moves M by -λy v vᵀ, unless M would not stay definite. With γ_t = y (1 - vᵀUv) ≥ 0

        ‖M_t - U‖² - ‖M_t+1 - U‖² = 2λy ⟨v vᵀ, M_t - U⟩ - λ²‖v‖⁴ = 2λ (l_t + γ_t) - λ²‖v‖⁴,

    so over all steps that moved M: Σ (l_t + γ_t) ≤ ‖I - U‖²/2λ + λ/2 Σ ‖v‖⁴.
    """
    learner = mahala.online.RDML(lam)
    M = run_pairs(learner, V, y)
    history = learner.history_
    assert set(history.tau) <= {0.0, lam}  # no step was shortened
    moved = history.moved
    margins = y * (1.0 - np.einsum("ti,ij,tj->t", V, U, V))
    fourth = np.sum(V**2, axis=1) ** 2
    assert margins.min() >= 0.0
    bound = square(M[0] - U) / (2 * lam) + lam / 2 * fourth[moved].sum()
    return history.loss[moved].sum() + margins[moved].sum(), bound, margins.min(), fourth.max(), learner.n_mistakes_


@each_seed
@pytest.mark.parametrize("lam", [0.0005, 0.003])
def test_rdml(seed, lam):
    """Each step that is a mistake costs at least the margin γ of U: at most ‖I - U‖² / λ(2γ - λ max‖v‖⁴) of them."""
    V, y, U = separable_pairs(seed, lambda rng, n: 0.8 * rng.random(n), lambda rng, n: 1.2 + rng.random(n))
    lost, bound, margin, largest, mistakes = rdml_sums(lam, V, y, U)
    assert 0.0 < lost <= bound * ROUNDING
    assert 0 < mistakes <= square(np.eye(len(U)) - U) / (lam * (2 * margin - lam * largest))


def test_rdml_all_one_way_is_the_worst_case():
    lam, n = 0.01, 200
    V, y = np.full((n, 1), np.sqrt(0.5)), np.full(n, -1)
    lost, bound, *_ = rdml_sums(lam, V, y, np.array([[2.0]]))
    assert 0.95 * bound < lost <= bound * ROUNDING
