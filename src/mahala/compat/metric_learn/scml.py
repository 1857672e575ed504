"""metric-learn's SCML and SCML_Supervised."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

import mahala.batch as native
from mahala.comparisons import Triplets
from mahala.compat.metric_learn._initial import components_from_metric
from mahala.compat.metric_learn._util import warn_of_unused
from mahala.compat.metric_learn.base_metric import (
    MahalanobisMixin,
    PointsLearner,
    _TripletsClassifierMixin,
    with_params,
)
from mahala.support.arrays import Array, FloatArray

Bases = Literal["auto", "lda", "triplet_diffs"] | FloatArray


class _BaseSCML(MahalanobisMixin):
    _authorized_basis: tuple[str, ...] = ("triplet_diffs",)

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if not isinstance(value := getattr(self, name), int):
                raise ValueError(f"{name} should be an integer, instead it is of type {type(value)}")
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")

    def _basis_of(self, n_features: int, default: int) -> tuple[Bases, int]:
        """Return the bases, by name or as an array, and how many there are."""
        if isinstance(self.basis, np.ndarray):
            bases = check_array(self.basis, copy=True)
            if bases.shape[1] != n_features:
                raise ValueError(
                    f"The dimensionality ({bases.shape[1]}) of the provided bases must match the dimensionality of the "
                    f"data ({n_features})."
                )
            return bases, len(bases)
        if self.basis not in self._authorized_basis:
            options = "', '".join(self._authorized_basis)
            raise ValueError(
                f"`basis` must be one of the options '{options}' or an array of shape (n_basis, n_features)."
            )
        if self.n_basis is None:
            message = f"As no value for `n_basis` was selected, the number of basis will be set to n_basis= {default}"
            warnings.warn(message, stacklevel=4)
            return self.basis, default
        self._check_counts("n_basis")
        return self.basis, self.n_basis

    def _learn(self, data: Triplets | FloatArray, y: Array | None, bases: Bases, n_bases: int, **more: Any) -> Self:
        warn_of_unused(self, "the minimum is found without draws", "gamma", "batch_size", "output_iter")
        learner = native.SCML(
            self.beta, bases=bases, n_bases=n_bases, max_iter=self.max_iter, verbose=self.verbose,
            random_state=self.random_state, **more,
        )  # fmt: skip
        learner.fit(data, y)
        return self._store(learner, components_from_metric(learner.get_mahalanobis_matrix()))


@with_params(beta=1e-5, basis="triplet_diffs", n_basis=None, gamma=5e-3, max_iter=10000, output_iter=500,
             batch_size=10, verbose=False, preprocessor=None, random_state=None)  # fmt: skip
class SCML(_BaseSCML, _TripletsClassifierMixin):
    """Sparse compositional metric learning, see :class:`mahala.batch.SCML`."""

    def fit(self, triplets: ArrayLike) -> Self:
        """Learn from triplets whose first point is to be nearer to the second than to the third."""
        self._check_counts("max_iter", "output_iter", "batch_size")
        tuples = self._prepare_inputs(triplets, type_of_inputs="tuples")
        n, _, d = tuples.shape
        bases, n_bases = self._basis_of(d, 80 * d)
        if isinstance(bases, str) and d > n:
            raise ValueError(
                f"Number of features ({d}) is greater than the number of triplets({n}).\nConsider using dimensionality "
                "reduction or using another basis generation scheme."
            )
        return self._learn(Triplets.from_array(tuples), None, bases, n_bases)


@with_params(k_genuine=3, k_impostor=10, beta=1e-5, basis="lda", n_basis=None, gamma=5e-3, max_iter=10000,
             output_iter=500, batch_size=10, verbose=False, preprocessor=None, random_state=None)  # fmt: skip
class SCML_Supervised(PointsLearner, _BaseSCML):
    """SCML from triplets of near rows of the same and of other classes."""

    _authorized_basis = ("triplet_diffs", "lda")

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points with class labels."""
        points, labels = self._points(X, y)
        self._check_counts("max_iter", "output_iter", "batch_size", "k_genuine", "k_impostor")
        n, d = points.shape
        n_classes = len(np.unique(labels))
        most = 2 * n * min(n_classes - 1, d)
        bases, n_bases = self._basis_of(d, min(20 * d, most - 1) if self.basis == "lda" else 80 * d)
        if isinstance(bases, str) and n_bases < n_classes:
            message = "The number of basis is less than the number of classes, which may lead to poor discriminative"
            warnings.warn(f"{message} performance.", stacklevel=2)
        if isinstance(bases, str) and bases == "lda" and n_bases >= most:
            raise ValueError(
                f"Not enough samples to generate {n_bases} LDA bases, n_basisshould be smaller than {most}"
            )
        labelled = np.flatnonzero(np.asarray(labels) >= 0)  # points without a label have a negative one
        neighbors = {"n_neighbors": self.k_genuine, "n_impostors": self.k_impostor}
        return self._learn(points[labelled], labels[labelled], bases, n_bases, **neighbors)
