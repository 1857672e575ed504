"""SDML: sparse metric learning by a penalised LogDet divergence (Qi, Tang, Zha, Chua, Zhang, 2009)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg import lapack

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.logdet import Prior, prior_components
from mahala.batch.pair_costs import as_pairs
from mahala.batch.run import IterationParams, Model, Run
from mahala.comparisons import Pairs
from mahala.compiled.sums.lmnn import add_pull
from mahala.compiled.threads import transposed_product
from mahala.learner import LabelledRows
from mahala.support.arrays import BoolArray, FloatArray, RealArray, check_matrices
from mahala.support.parameters import Count, NonNegative, Positive, Seed
from mahala.support.states import Array

# The largest balance of "auto".
LARGEST_BALANCE = 0.5
# Added to the diagonal of a singular P, with features scaled to P_ii = 1, so that no weight is infinite.
RIDGE = 1e-10
# An M with larger entries, in these units, is out of reach of the precision of float64.
LARGEST = 1e12
# A step is halved until it gains this share of what the slope of the objective promises, or is shorter than the other.
ENOUGH, SHORTEST_STEP = 1e-3, 1e-10
# A Newton direction is computed until this share of the squared residual is left, with so many products at most.
RESIDUAL, MOST_PRODUCTS = 1e-4, 30


@dataclass(eq=False, repr=False)
class SDML(IterationParams, BatchLearner):
    r"""Sparse metric learning: the metric nearest to a prior that is small on similar pairs, with few entries in M.

    SDML minimises D(M, M₀) + η (Σ d_M² over similar pairs - Σ d_M² over dissimilar pairs) + λ Σ_{i≠j} |M_ij| for M ≻ 0.
    D is the LogDet divergence from a prior metric. This is the graphical lasso of P = M₀⁻¹ + η Σ ± v vᵀ, which may be
    indefinite. M is of float64.

    Parameters
    ----------
    sparsity : float, default=0.01
        The λ of the penalty.
    balance : "auto" or float, default="auto"
        The η of the pairs. If dissimilar pairs outweigh the others the objective has no minimum, which is an error;
        "auto" is half of the largest η with a positive definite P, at most 0.5.
    prior : "identity", "covariance" or MahalanobisMetric, default="identity"
        M₀, positive definite: Euclidean distances, the inverse of the rows' covariance, or a metric. Features of weight
        zero in M₀ have weight zero in M.
    n_pairs : int or "auto", default="auto"
        Number of pairs drawn from labelled rows; "auto" is 40 c (c - 1) for c classes.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-9
        The fit ends when the objective is at most this much above its minimum, by the duality gap.
    warm_start : bool, default=False
        Whether `fit` starts from the previous M.
    callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    balance_ : float, the η that was used
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    G.-J. Qi, J. Tang, Z.-J. Zha, T.-S. Chua, H.-J. Zhang: An efficient sparse metric learning in high-dimensional space
    via l1-penalized log-determinant regularization. Proceedings of the 26th International Conference on Machine
    Learning (ICML), 2009, 841-848.

    Examples
    --------
    >>> from mahala.batch import SDML
    >>> from sklearn.datasets import load_iris
    >>> learner = SDML(sparsity=0.1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> int((learner.get_mahalanobis_matrix() != 0.0).sum()), learner.stop_reason_
    (8, 'converged')
    """

    _learns_from = Pairs
    _test_settings = ({"sparsity": 0.1},)
    _MORE = (Array("model.balance", dtype=np.float64, shape=(1,), least=0.0),)

    sparsity: NonNegative = 0.01
    _: KW_ONLY
    balance: Literal["auto"] | Positive = "auto"
    prior: Prior = "identity"
    n_pairs: Literal["auto"] | Count = "auto"
    max_iter: Count = 1000
    tol: NonNegative = 1e-9
    random_state: Seed = None

    @property
    def balance_(self) -> float:
        """The weight of the pairs."""
        return float(self._learned("balance")[0])

    def _learn(self, data: LabelledRows | Pairs, run: Run) -> str:
        check_matrices(4, data.X.shape[1], data.X.shape[1])
        weighted, inverse = _prior_inverse(self.prior, data.X)
        data = as_pairs(data, self.n_pairs, self._rng)
        assert data.similar is not None, "fit requires labels"
        X = data.X[:, weighted].astype(np.float64)
        pull = np.zeros_like(X)
        add_pull(X, data.left, data.right, np.where(data.similar, 1.0, -1.0), pull)
        pairs = transposed_product(X, pull)
        root = np.linalg.cholesky(inverse)
        relative = np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, 0.5 * (pairs + pairs.T)).T))[0]
        largest = -1.0 / relative if relative < 0.0 else np.inf
        balance = min(0.5 * largest, LARGEST_BALANCE) if isinstance(self.balance, str) else float(self.balance)
        constant = -2.0 * float(np.log(root.diagonal()).sum()) - len(inverse)
        within = np.ix_(weighted, weighted)

        def to_model(M: FloatArray) -> Model:
            matrix = np.zeros((len(weighted), len(weighted)))
            matrix[within] = M
            return {"M": matrix, "balance": np.array([balance])}

        warm = run.warm
        start = None if warm is None else warm["M"][within]
        run.first = lambda: to_model(np.linalg.inv(inverse).astype(np.float64))
        try:
            lasso = _Lasso(inverse + balance * pairs, float(self.sparsity))
            return lasso.solve(start, run, to_model, constant)
        except _UnboundedError as error:
            reason = "the objective has no minimum, because dissimilar pairs differ too much"
            advice = f"below {largest:.3g} it always has one, which balance='auto' ensures"
            raise ValueError(f"balance must be smaller for these pairs, got {balance:g}: {reason}; {advice}") from error


def _prior_inverse(prior: Prior, X: RealArray) -> tuple[BoolArray, FloatArray]:
    """Return which features have a weight in M₀, and M₀⁻¹ for these."""
    d, components = X.shape[1], prior_components(prior, X)
    if components is None:
        return np.ones(d, dtype=bool), np.eye(d)
    weighted: BoolArray = np.any(components, axis=0)
    lengths = np.linalg.norm(components[:, weighted], axis=0)
    scaled = components[:, weighted] / lengths  # so that features may have any scale
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    if values[0] <= len(values) * np.finfo(np.float64).eps * values[-1]:
        advice = "if X has features that depend on others, leave these out or use prior='identity'"
        raise ValueError(f"prior must be positive definite, but some combination of features has no weight; {advice}")
    return weighted, (vectors / values) @ vectors.T / np.outer(lengths, lengths)


class _UnboundedError(ArithmeticError):
    """The objective has no minimum."""


class _Lasso:
    """The graphical lasso tr(P M) - log |M| + λ Σ_{i≠j} |M_ij|, by Newton steps; P may be indefinite.

    The steps are in units of the features in which P_ii = 1, where the penalty differs by entry.
    """

    def __init__(self, P: FloatArray, sparsity: float) -> None:
        diagonal = P.diagonal()
        if diagonal.min() <= 0.0:
            raise _UnboundedError
        scale = 1.0 / np.sqrt(diagonal)
        self._units = np.outer(scale, scale)
        self._P = 0.5 * (P + P.T) * self._units
        np.fill_diagonal(self._P, 1.0)
        if abs(np.linalg.eigvalsh(self._P)[0]) < RIDGE:
            np.fill_diagonal(self._P, 1.0 + RIDGE)
        self._penalty = sparsity * self._units
        np.fill_diagonal(self._penalty, 0.0)
        self._constant = -2.0 * float(np.log(scale).sum())

    def solve(self, start: RealArray | None, run: Run, to_model: Callable[[FloatArray], Model], constant: float) -> str:
        """Lower the objective until it is at most `run.tol` above its minimum; return the stop reason."""
        # The minimum for a large penalty, for none, and an earlier one.
        starts = [np.eye(len(self._P)), self._value(self._P)[1], *([] if start is None else [start / self._units])]
        M = min(starts, key=lambda M: self._value(M)[0])
        value, W = self._value(M)
        reason = "max_iter"
        for _ in range(run.max_iter):
            before = value
            M, value, W = self._step(M, value, W)
            if run.step(value + self._constant + constant, partial(to_model, M * self._units)):
                return "callback"
            gap = self._gap(value, W)
            if gap <= run.tol * max(1.0, abs(value)):
                return "converged"
            if value == before or np.abs(M).max() > LARGEST:
                reason = "precision"
                break
        if np.isinf(gap) and np.isinf(self._value(self._P)[0]):  # an indefinite P, and no bound from below
            raise _UnboundedError
        return reason

    def _value(self, M: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective, infinite unless M is positive definite, and M⁻¹."""
        root, failed = lapack.dpotrf(M, lower=1)
        if failed:
            return np.inf, M
        W = np.tril(lapack.dpotri(root, lower=1)[0])
        W += np.tril(W, -1).T
        penalised = float(np.sum(self._penalty * np.abs(M)))
        return float(np.sum(self._P * M)) - 2.0 * float(np.log(root.diagonal()).sum()) + penalised, W

    def _step(self, M: FloatArray, value: float, W: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Return M after a step that lowers the objective, or M itself, and what `_value` returns for it.

        Entries keep their signs, or become 0; those that are 0 take the sign that lowers the objective, if any. Within
        these signs the objective is smooth, and the direction is that of Newton (Olsen et al., 2012).
        """
        slope = self._P - W
        sign = np.where(M != 0.0, np.sign(M), -np.sign(slope) * (np.abs(slope) > self._penalty))
        free = sign != 0.0
        gradient = np.where(free, slope + self._penalty * sign, 0.0)
        np.fill_diagonal(gradient, slope.diagonal())
        np.fill_diagonal(free, True)
        D = _newton_direction(M, W, gradient, free)
        diagonal = np.eye(len(M), dtype=bool)
        share = 1.0
        while share > SHORTEST_STEP:
            moved = M + share * D
            moved[(moved * sign < 0.0) & ~diagonal] = 0.0
            new_value, inverse = self._value(moved)
            if new_value <= value + ENOUGH * float(np.sum(gradient * (moved - M))):
                return moved, new_value, inverse
            share *= 0.5
        return M, value, W

    def _gap(self, value: float, W: FloatArray) -> float:
        """Return by how much the objective is above the dual one, log |P + U| + d, of a U within the penalty."""
        U = np.clip(W - self._P, -self._penalty, self._penalty)
        root, failed = lapack.dpotrf(self._P + U, lower=1)
        return np.inf if failed else value - 2.0 * float(np.log(root.diagonal()).sum()) - len(W)


def _newton_direction(M: FloatArray, W: FloatArray, gradient: FloatArray, free: BoolArray) -> FloatArray:
    """Return D with W D W = -gradient in the free entries and D = 0 in others, by conjugate gradients.

    With W = M⁻¹ the solution is -M gradient M if all entries are free, which preconditions the iterations.
    """
    D, residual = np.zeros_like(M), -gradient
    direction, previous = np.zeros_like(M), 1.0
    first = 0.0
    for _ in range(MOST_PRODUCTS):
        preconditioned = np.where(free, M @ residual @ M, 0.0)
        size = float(np.sum(residual * preconditioned))
        first = first or size
        if size <= RESIDUAL * first:
            break
        direction = preconditioned + size / previous * direction
        previous = size
        product = np.where(free, W @ direction @ W, 0.0)
        length = size / float(np.sum(direction * product))
        D += length * direction
        residual = residual - length * product
    return 0.5 * (D + D.T)  # else rounding adds up over the steps
