"""The space in which a prior metric is the Euclidean distance."""

from typing import Literal, NamedTuple, Self

import numpy as np

from mahala.batch.whitening import covariances, whiten_varying
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, RealArray, check_matrices

Prior = Literal["identity", "covariance"] | MahalanobisMetric | None


def prior_map(prior: Prior, X: RealArray) -> FloatArray | None:
    """Return the map into the space in which the prior is the Euclidean distance; None for the identity."""
    if prior is None or prior == "identity":
        return None
    if isinstance(prior, str):
        scatter = covariances(X, np.zeros(len(X), dtype=np.intp))
        tol = max(X.shape) * float(np.finfo(X.dtype).eps)
        return scatter.in_features(whiten_varying(scatter.total, tol)[::-1])  # the largest variance first
    return prior.in_features(X.shape[1], "prior").components


class Coordinates(NamedTuple):
    """The space of the prior, in which the prior is the Euclidean distance, and the span of the rows in it.

    mean : mean of the rows
    prior : the map L₀ of the prior into its space; None for the identity
    span : orthonormal columns V that span the differences of rows; None for the whole space
    """

    mean: FloatArray
    prior: FloatArray | None
    span: FloatArray | None

    @classmethod
    def of(cls, X: RealArray, prior: Prior, n_components: int | None) -> Self:
        """Return coordinates of rows that span what the rows do."""
        if (X[0] == X).all():
            raise ValueError("X must have rows that differ, but all rows that are compared are equal")
        if n_components is None:
            check_matrices(2, X.shape[1], X.shape[1])
        coordinates = cls(X.mean(axis=0, dtype=np.float64), prior_map(prior, X), None)
        Z = coordinates.rows(X)
        n, d = Z.shape
        if prior == "covariance" or (n > d and n_components is None):
            return coordinates
        # The penalty keeps out what the rows do not span, so nothing is lost.
        _, lengths, axes = np.linalg.svd(Z.astype(np.float64), full_matrices=False)
        spanned = lengths > max(n, d) * np.finfo(X.dtype).eps * lengths.max(initial=0.0)
        return coordinates._replace(span=axes[spanned].T)

    def rows(self, X: RealArray) -> RealArray:
        """Return the coordinates of rows."""
        Z = X - self.mean
        Z = Z if self.prior is None else Z @ self.prior.T
        return (Z if self.span is None else Z @ self.span).astype(X.dtype, copy=False)

    def to_map(self, A: RealArray, full: bool) -> FloatArray:
        """Return L for a map A of coordinates; a full one leaves alone what is outside of their span."""
        A = A.astype(np.float64)
        if self.span is not None:
            V = self.span
            A = np.eye(len(V)) + V @ (A - np.eye(len(A))) @ V.T if full else A @ V.T
        return A if self.prior is None else A @ self.prior

    def matrix(self, A: RealArray) -> FloatArray:
        """Return M = LᵀL for a full map of coordinates at a cost that grows with their number, not as d³."""
        assert self.span is not None, "else L is small"
        change = A.T.astype(np.float64) @ A - np.eye(len(A))
        W = self.span.T if self.prior is None else self.span.T @ self.prior
        M = W.T @ change @ W
        return M + (np.eye(len(M)) if self.prior is None else self.prior.T @ self.prior)

    def from_map(self, L: FloatArray, full: bool) -> FloatArray:
        """Return the map A of coordinates for which `to_map` returns L."""
        A = L if self.prior is None else L @ np.linalg.pinv(self.prior)
        if self.span is None:
            return A
        return self.span.T @ A @ self.span if full else A @ self.span
