"""metric-learn's SCML and SCML_Supervised."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils import check_array

import mahala.batch as native
from mahala.comparisons import Triplets
from mahala.compat.metric_learn._initial import components_from_metric
from mahala.compat.metric_learn._util import warn_of_unused
from mahala.compat.metric_learn.base_metric import MahalanobisMixin, PointsLearner, _TripletsClassifierMixin


class _BaseSCML(MahalanobisMixin):
    _authorized_basis: tuple[str, ...] = ("triplet_diffs",)

    def __init__(
        self,
        beta: float = 1e-5,
        basis: Any = "triplet_diffs",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(preprocessor)
        self.beta, self.basis, self.n_basis, self.gamma = beta, basis, n_basis, gamma
        self.max_iter, self.output_iter, self.batch_size = max_iter, output_iter, batch_size
        self.verbose, self.random_state = verbose, random_state

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if not isinstance(value := getattr(self, name), int):
                raise ValueError(f"{name} should be an integer, instead it is of type {type(value)}")
        if self.output_iter > self.max_iter:
            raise ValueError("The value of output_iter must be equal or smaller than max_iter.")

    def _basis_of(self, n_features: int, default: int) -> tuple[Any, int]:
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

    def _learn(self, given: Any, y: Any, bases: Any, n_bases: int, **more: Any) -> Self:
        warn_of_unused(self, "the minimum is found without draws", gamma=5e-3, batch_size=10, output_iter=500)
        learner = native.SCML(
            self.beta, bases=bases, n_bases=n_bases, max_iter=self.max_iter, verbose=self.verbose,
            random_state=self.random_state, **more,
        )  # fmt: skip
        self.learner_, self.n_iter_ = learner.fit(given, y), max(learner.n_iter_, 1)
        self.components_ = components_from_metric(learner.get_mahalanobis_matrix())
        return self


class SCML(_BaseSCML, _TripletsClassifierMixin):
    """Sparse compositional metric learning, see :class:`mahala.batch.SCML`."""

    def fit(self, triplets: Any) -> Self:
        """Learn from triplets whose first point is to be nearer to the second than to the third."""
        self._check_counts("max_iter", "output_iter", "batch_size")
        triplets = self._prepare_inputs(triplets, type_of_inputs="tuples")
        n, _, d = triplets.shape
        bases, n_bases = self._basis_of(d, 80 * d)
        if isinstance(bases, str) and d > n:
            raise ValueError(
                f"Number of features ({d}) is greater than the number of triplets({n}).\nConsider using dimensionality "
                "reduction or using another basis generation scheme."
            )
        return self._learn(Triplets.from_array(triplets), None, bases, n_bases)


class SCML_Supervised(PointsLearner, _BaseSCML):
    """SCML from triplets of near rows of the same and of other classes."""

    _authorized_basis = ("triplet_diffs", "lda")

    def __init__(
        self,
        k_genuine: int = 3,
        k_impostor: int = 10,
        beta: float = 1e-5,
        basis: Any = "lda",
        n_basis: int | None = None,
        gamma: float = 5e-3,
        max_iter: int = 10000,
        output_iter: int = 500,
        batch_size: int = 10,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            beta, basis, n_basis, gamma, max_iter, output_iter, batch_size, verbose, preprocessor, random_state
        )
        self.k_genuine, self.k_impostor = k_genuine, k_impostor

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from points with class labels."""
        X, y = self._prepare_inputs(X, y, needs_y=True, ensure_min_samples=2)
        self._check_counts("max_iter", "output_iter", "batch_size", "k_genuine", "k_impostor")
        n, d = X.shape
        n_classes = len(np.unique(y))
        most = 2 * n * min(n_classes - 1, d)
        bases, n_bases = self._basis_of(d, min(20 * d, most - 1) if self.basis == "lda" else 80 * d)
        if isinstance(bases, str) and n_bases < n_classes:
            message = "The number of basis is less than the number of classes, which may lead to poor discriminative"
            warnings.warn(f"{message} performance.", stacklevel=2)
        if isinstance(bases, str) and bases == "lda" and n_bases >= most:
            raise ValueError(
                f"Not enough samples to generate {n_bases} LDA bases, n_basisshould be smaller than {most}"
            )
        labelled = np.flatnonzero(np.asarray(y) >= 0)  # points without a label have a negative one
        neighbors = {"n_neighbors": self.k_genuine, "n_impostors": self.k_impostor}
        return self._learn(X[labelled], y[labelled], bases, n_bases, **neighbors)
