"""SCML: sparse compositional metric learning (Shi, Bellet, Sha, 2014)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.descent import descend
from mahala.batch.lda import discriminants
from mahala.batch.run import IterationParams, Model, Run
from mahala.batch.triplets import edges_of_triplets, label_triplets
from mahala.batch.whitening import check_varies, constant, covariances, major_features
from mahala.comparisons import Triplets
from mahala.compiled.sums.lmnn import add_pull, squared_distances
from mahala.compiled.threads import product, transposed_product
from mahala.learner import LabelledRows
from mahala.support.arrays import FloatArray, IndexArray
from mahala.support.parameters import Count, NonNegative, Positive, Seed
from mahala.support.states import Array
from mahala.support.tags import TagSets

# Widths of the parabola that smooths the hinges, one after the other, as long as that matters.
SMOOTHINGS = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# Rows of each class around a centre of "lda": at two scales, for few features and for more than the last number.
FEW_FEATURES = 50
NEAR_ROWS, NEAR_ROWS_OF_MANY = (10, 20), (20, 50)
# Smaller eigenvalues, as a share of the largest, are rounding.
ROUNDING = 1e-10


@dataclass(eq=False, repr=False)
class SCML(IterationParams, BatchLearner):
    r"""Sparse compositional metric learning: M = Σ w_k b_k b_kᵀ, a sum of few of many given directions.

    From triplets (a, p, n) SCML minimises mean max(0, 1 + d_M(a, p) - d_M(a, n)) + β Σ w_k for weights w ≥ 0. Here d_M
    is a squared distance. The bases b_k are directions that separate the classes in local regions. The problem is a
    linear program; most weights are zero at its minimum.

    Parameters
    ----------
    beta : float, default=1e-5
        The β of the penalty.
    bases : "auto", "lda", "triplet_diffs" or array of shape (n_bases, n_features), default="auto"
        "lda" has the discriminants of rows around the centres of clusters, which need class labels; "triplet_diffs" the
        directions in which anchors of some random triplets differ more from their far than from their near rows.
        "auto" is "lda" for rows with labels, "triplet_diffs" for triplets.
    n_bases : int or "auto", default="auto"
        Number of bases to construct; "auto" is 20 for each feature.
    n_neighbors, n_impostors : int, default=3 and 10
        Numbers of nearest rows of its class and of other classes with which each row forms triplets, given labels.
    max_iter : int, default=2000
        Maximum number of iterations.
    tol : float, default=1e-3
        The fit ends when the smoothing of the hinges is at most this share of the objective. With each smoothing, it
        ends when an iteration gains less than a hundredth of this share.
    warm_start : bool, default=False
        Whether `fit` starts from the previous sum, whose bases are added to the others.
    callback, verbose, random_state : see :class:`mahala.NCA`

    Attributes
    ----------
    bases_, basis_weights_ : arrays, the bases with a positive weight, and the weights
    metric_, components_, objective_, objectives_, n_iter_, stop_reason_ : see :class:`mahala.NCA`

    References
    ----------
    Y. Shi, A. Bellet, F. Sha: Sparse compositional metric learning. Proceedings of the 28th AAAI Conference on
    Artificial Intelligence, 2014, 2078-2084.

    Examples
    --------
    >>> from mahala.batch import SCML
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> learner = SCML(random_state=0).fit(X[::2], y[::2])
    >>> round(learner.score(X[1::2], y[1::2]), 2)
    0.98
    """

    _learns_from = Triplets
    _test_settings = ({"n_bases": 12, "beta": 1e-60, "max_iter": 20},)  # such that rows may have any unit
    _takes_chunks = False
    _MORE = (
        Array("model.bases", dtype=np.float64, shape=lambda learner: (None, learner.n_features_in_)),
        Array("model.basis_weights", dtype=np.float64, shape=(None,), least=0.0),
    )

    beta: Positive = 1e-5
    _: KW_ONLY
    bases: Literal["auto", "lda", "triplet_diffs"] | np.ndarray = "auto"
    n_bases: Literal["auto"] | Count = "auto"
    n_neighbors: Count = 3
    n_impostors: Count = 10
    max_iter: Count = 2000
    tol: NonNegative = 1e-3
    random_state: Seed = None

    @property
    def bases_(self) -> FloatArray:
        """The bases with a positive weight, one per row."""
        return self._learned("bases")

    @property
    def basis_weights_(self) -> FloatArray:
        """The weight of each basis in `bases_`."""
        return self._learned("basis_weights")

    def _learn(self, data: LabelledRows | Triplets, run: Run) -> str:
        check_varies(data.X)
        X = data.X.astype(np.float64) - data.X.mean(axis=0, dtype=np.float64)
        codes = None if isinstance(data, Triplets) or isinstance(data.labels, TagSets) else data.labels
        scale = 2.0 * float(np.square(X).sum()) / len(X)
        X /= np.sqrt(scale)
        triplets = (
            data.over(X)
            if isinstance(data, Triplets)
            else label_triplets(X, data.labels, self.n_neighbors, self.n_impostors)
        )
        bases, warm = self._first_bases(triplets, codes), run.warm
        start = np.zeros(len(bases))
        if warm is not None:
            bases = np.vstack([warm["bases"], bases])
            start = np.concatenate([warm["basis_weights"] * scale, start])
        problem = _Problem(triplets, bases, float(self.beta) / scale)
        reason = problem.solve(start, run, scale)
        if reason != "callback" and not run.model["basis_weights"].any():
            size = f"rows that differ by {np.sqrt(scale):.3g} in the mean"
            raise ValueError(f"beta must be smaller for {size}, got {self.beta:g}: all weights are zero")
        return reason

    def _first_bases(self, triplets: Triplets, codes: IndexArray | None) -> FloatArray:
        """Return the bases, one per row and of length 1 unless they are given."""
        d = triplets.X.shape[1]
        if isinstance(self.bases, np.ndarray):
            bases = self.bases.astype(np.float64) if self.bases.dtype.kind in "biuf" else np.array(np.nan)
            if bases.ndim != 2 or bases.shape[1] != d or not len(bases) or not np.isfinite(bases).all():
                wanted = f"an array of finite numbers of shape (n_bases, {d})"
                raise ValueError(f"bases must be {wanted}, got one of {bases.dtype} and shape {self.bases.shape}")
            return bases
        n_bases = 20 * d if isinstance(self.n_bases, str) else int(self.n_bases)
        if self.bases == "lda" and codes is None:
            raise ValueError(
                "bases must be 'triplet_diffs' or an array with triplets and with tags: 'lda' needs class labels"
            )
        if self.bases == "triplet_diffs" or codes is None:
            return _triplet_differences(triplets, n_bases, self._rng)
        return _local_discriminants(major_features(triplets.X), codes, n_bases, self._rng)


class _Problem:
    """SCML's objective with smoothed hinges, as a function of the weights.

    Distances are those of edges between rows, mapped by L with M = LᵀL: nothing has a number for each pair of a triplet
    and a basis.
    """

    def __init__(self, triplets: Triplets, bases: FloatArray, beta: float) -> None:
        ends = triplets.anchor, triplets.positive, triplets.negative
        self._left, self._right, self._near, self._far = edges_of_triplets(len(triplets.X), *ends)
        self._X, self._bases, self._beta = triplets.X, bases, beta
        # The descent is over weights times the squared length of the rows along their bases, whose scale is the same.
        lengths = np.square(product(triplets.X, bases.T)).sum(axis=0)
        self._unit = np.divide(1.0, lengths, out=np.ones(len(bases)), where=lengths > 0.0)

    def solve(self, start: FloatArray, run: Run, scale: float) -> str:
        """Lower the objective with smoothed hinges, which come nearer to the plain ones; return the stop reason."""
        weights, tol, run.tol = start / self._unit, run.tol, 0.01 * run.tol

        def to_model(variables: FloatArray) -> Model:
            nonlocal weights
            weights = variables
            used = variables > 0.0
            bases, active = self._bases[used], (variables * self._unit)[used] / scale
            return {"L": _map(bases, active), "bases": bases, "basis_weights": active}

        for self._smoothing in SMOOTHINGS:
            more: Any = {"to_model": to_model, "report": lambda _: self._value, "bounds": [(0.0, None)] * len(start)}
            reason = descend(self, weights, run, **more)
            # The smoothed objective is never above the plain one, so its minimum bounds that of the plain one.
            smoothed, _ = self(weights)
            if reason == "callback" or len(run.objectives) >= run.max_iter:
                return reason
            if self._value - smoothed <= tol * self._value:
                return "converged"
        return "precision"

    def __call__(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Return the smoothed objective and its gradient; the plain one is kept."""
        weights = variables * self._unit
        used = weights > 0.0
        L = _map(self._bases[used], weights[used])
        squared = squared_distances(product(self._X, L.T), self._left, self._right)
        hinges = np.maximum(1.0 + squared[self._near] - squared[self._far], 0.0)
        n = len(hinges)
        duals = np.minimum(hinges / self._smoothing, 1.0) / n
        m = len(squared)
        slopes = (np.bincount(self._near, duals, m) - np.bincount(self._far, duals, m)).astype(np.float64)
        pull = np.zeros_like(self._X)
        add_pull(self._X, self._left, self._right, slopes, pull)
        scatter = transposed_product(self._X, pull)
        gradient = np.einsum("ij,ij->i", self._bases @ scatter, self._bases)
        penalty = self._beta * float(weights.sum())
        self._value = float(hinges.sum()) / n + penalty
        width = self._smoothing
        rounded = np.where(hinges < width, hinges**2 / (2.0 * width), hinges - width / 2.0)
        return float(rounded.sum()) / n + penalty, (gradient + self._beta) * self._unit


def _map(bases: FloatArray, weights: FloatArray) -> FloatArray:
    """Return L, of at most as many rows as features, with LᵀL = Σ w b bᵀ."""
    L = np.sqrt(weights)[:, None] * bases
    return L if len(L) <= L.shape[1] else np.linalg.qr(L)[1]


def _triplet_differences(triplets: Triplets, n_bases: int, rng: np.random.Generator) -> FloatArray:
    """Return directions in which anchors of random triplets differ more from their far than from their near rows."""
    X, d = triplets.X, triplets.X.shape[1]
    near, far = X[triplets.anchor] - X[triplets.positive], X[triplets.anchor] - X[triplets.negative]
    parts: list[FloatArray] = []
    for _ in range(2 * n_bases):  # each time one direction at least, but for triplets that are never in order
        chosen = rng.choice(len(near), size=min(d, len(near)), replace=False)
        values, vectors = np.linalg.eigh(far[chosen].T @ far[chosen] - near[chosen].T @ near[chosen])
        parts.append(vectors.T[values > ROUNDING * np.abs(values).max()])
        if sum(map(len, parts)) >= n_bases:
            break
    bases = np.concatenate(parts)[:n_bases]
    if not len(bases):
        problem = "the far rows of triplets must differ from their anchors in some direction more than the near ones"
        raise ValueError(problem)
    return bases


def _local_discriminants(X: FloatArray, codes: IndexArray, n_bases: int, rng: np.random.Generator) -> FloatArray:
    """Return the directions that separate the classes among the rows around the centres of clusters."""
    n_classes, d = int(codes.max()) + 1, X.shape[1]
    n_regions = -(-n_bases // (2 * min(n_classes - 1, d)))
    centres = np.unique(X, axis=0)
    if len(centres) > n_regions:
        centres = KMeans(n_regions, n_init=1, random_state=int(rng.integers(2**31))).fit(X).cluster_centers_
    sizes = NEAR_ROWS if d <= FEW_FEATURES else NEAR_ROWS_OF_MANY
    around = []  # for each class the rows that are nearest to each centre, the nearest first
    for code in range(n_classes):
        rows = np.flatnonzero(codes == code)
        distances = np.square(X[rows]).sum(axis=1) - 2.0 * centres @ X[rows].T
        around.append(rows[np.argsort(distances, axis=1)[:, : sizes[-1]]])
    parts = []
    for size in sizes:
        for region in range(len(centres)):
            rows = np.concatenate([nearest[region, :size] for nearest in around])
            parts.append(_discriminants(X[rows], codes[rows]))
    bases = np.concatenate(parts)[:n_bases]
    if not len(bases):
        raise ValueError("X has no region in which classes differ and rows of a class do, too; use other bases")
    return bases


def _discriminants(X: FloatArray, codes: IndexArray) -> FloatArray:
    """Return Fisher's discriminant directions, of length 1; none if rows of no class differ."""
    if constant(X).all() or np.bincount(codes).max() < 2:
        return np.empty((0, X.shape[1]))
    scatter = covariances(X, codes)
    L, _ = discriminants(scatter, scatter.within)
    return np.asarray(L / np.linalg.norm(L, axis=1, keepdims=True))
