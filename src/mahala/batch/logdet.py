"""Minimisation of a LogDet divergence plus a convex loss of distances, with a bound on what is left to gain."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg import lapack

from mahala.batch.descent import descend
from mahala.batch.run import Model, Run
from mahala.batch.whitening import constant, covariances, whiten_within
from mahala.compiled.sums.lmnn import add_pull, squared_distances
from mahala.compiled.threads import product, transposed_product
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray, RealArray, check_matrices

Prior = Literal["identity", "covariance"] | MahalanobisMetric

# Smallest eigenvalue of a prior's covariance, as a share of the largest, with features in units of their deviation.
FLOOR = 1e-6
# Smallest length of a direction of L, as a share of the largest.
SHORTEST = 1e-6
# The first step of a descent has length 1; in units in which L has this one, it changes little.
UNIT = 4.0


def prior_components(prior: Prior, X: RealArray) -> FloatArray | None:
    """Return L₀ with M₀ = L₀ᵀL₀, or None for the identity."""
    if isinstance(prior, MahalanobisMetric):
        prior = prior.in_features(X.shape[1], "prior")
        if prior.n_components == 0 or not prior.is_psd:
            raise ValueError("prior must be a metric with positive eigenvalues and no negative ones")
        return prior.components
    if prior == "identity" or constant(X).all():
        return None
    scatter = covariances(X, np.zeros(len(X), dtype=np.intp))
    return scatter.in_features(whiten_within(scatter.total, scatter.total, FLOOR)[0])


class LogDetProblem(ABC):
    """D(M, M₀) + loss of the squared distances of pairs, as a function of L with M = LᵀL, and its duality gap.

    D is the LogDet divergence, and the loss is convex and smooth. X are centred rows in coordinates in which the prior,
    `prior` maps to them, is the identity. The descent is in the span of the rows if they are fewer than the features:
    outside it M is M₀. A subclass defines `_loss`, and sets `_basis` and `_first`, the lengths of L's directions in the
    units of the descent and at its start.
    """

    _basis: FloatArray
    _first: FloatArray

    def __init__(self, X: FloatArray, prior: FloatArray | None, left: IndexArray, right: IndexArray) -> None:
        check_matrices(4, X.shape[1], X.shape[1])
        span = None
        if 1 < len(X) <= X.shape[1]:
            span = np.linalg.qr((X[1:] - X[0]).T)[0]
            X = product(X, span)
        variances, axes = np.linalg.eigh(transposed_product(X, X))
        self._variances: FloatArray = variances.clip(min=0.0)
        self._X, self._left, self._right = product(X, axes), left, right
        self._axes = axes if span is None else product(span, axes)
        self._prior_map = prior
        self._prior = self._axes.T if prior is None else product(self._axes.T, prior)
        self._outside: FloatArray | None = None  # what M₀ is outside the span
        if span is not None:
            self._outside = -transposed_product(self._prior, self._prior)
            self._outside += np.eye(len(span)) if prior is None else transposed_product(prior, prior)
        self._limited = False
        self._more: Model = {}  # what a model has beside M

    @abstractmethod
    def _loss(self, distances: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its derivatives with respect to the squared distances of the pairs."""

    def solve(self, run: Run) -> str:
        """Lower the objective until it is at most `run.tol` times itself above its minimum; return the stop reason."""
        tol, run.tol = run.tol, 0.0  # the gap ends the descent, and no small gain

        def solved() -> bool:
            return self._gap() <= tol * self._value and not self._limited

        start = self._start(None if run.warm is None else run.warm["M"])
        reason = descend(self, start, run, to_model=self._to_model, solved=solved)
        return {"solved": "converged", "converged": "precision"}.get(reason, reason)

    def _start(self, warm: RealArray | None) -> FloatArray:
        """Return the first variables, for the first lengths or a learned M."""
        L: FloatArray = np.diag(self._first)
        if warm is not None:
            back = self._axes if self._prior_map is None else product(np.linalg.pinv(self._prior_map), self._axes)
            M = transposed_product(back, product(warm, back))
            components = MahalanobisMetric(0.5 * (M + M.T)).components
            if components.shape == L.shape and np.linalg.cond(components) < 1.0 / SHORTEST:
                L = components
        return np.asarray(L / self._basis)

    def __call__(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        L = variables * self._basis
        factor, pivots, _ = lapack.dgetrf(L)
        diagonal = np.abs(factor.diagonal())
        if not diagonal.all():
            return np.inf, np.zeros_like(variables)
        self._inverse = lapack.dgetri(factor, pivots)[0]
        Z = product(self._X, L.T)
        distances = squared_distances(Z, self._left, self._right)
        loss, slopes = self._loss(distances)
        pull = np.zeros_like(Z)
        add_pull(Z, self._left, self._right, slopes, pull)
        self._half = L + transposed_product(pull, self._X)
        self._conjugate = float(slopes @ distances) - loss
        self._value = float(np.square(L).sum()) - 2.0 * float(np.log(diagonal).sum()) - len(L) + loss
        return self._value, 2.0 * (self._half - self._inverse.T) * self._basis

    def _gap(self) -> float:
        """Return by how much the objective at the last model is above a lower bound of its minimum.

        The bound is the dual objective log |I + G| - loss*(slopes), where G is the gradient of the loss, Σ slope v vᵀ,
        and loss* its convex conjugate.
        """
        precision = self._inverse @ self._half  # L⁻¹ (L + L G)
        try:
            root = np.linalg.cholesky(0.5 * (precision + precision.T))
        except np.linalg.LinAlgError:
            return np.inf
        return self._value - 2.0 * float(np.log(root.diagonal()).sum()) + self._conjugate

    def _to_model(self, variables: FloatArray) -> Callable[[], Model]:
        """Return a function that returns the model, in which no direction is much shorter than others."""
        L = variables * self._basis
        # Outside the span all lengths are 1.
        sizes = (max(float(np.linalg.norm(A)), float(self._outside is not None)) for A in (L, self._inverse))
        self._limited = math.prod(sizes) > 1.0 / SHORTEST
        if self._limited:
            _, lengths, axes = np.linalg.svd(L)
            L = np.maximum(lengths, SHORTEST * max(lengths[0], float(self._outside is not None)))[:, None] * axes
        return partial(self._in_features, L)

    def _in_features(self, L: FloatArray) -> Model:
        """Return the model of an L in the coordinates of the descent."""
        largest = float(np.linalg.norm(L, 2)) if self._outside is not None else 0.0
        L = product(L, self._prior)
        M = transposed_product(L, L)
        if self._outside is not None:
            M += max(1.0, SHORTEST * largest) ** 2 * self._outside
        return {"M": 0.5 * (M + M.T)} | self._more
