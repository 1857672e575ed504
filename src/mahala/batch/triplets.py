"""What learners from triplets share: the triplets of labels, LMNN's objective, weighted sums, the base class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mahala.batch.batch_learner import BatchLearner
from mahala.batch.run import Model, matrix_of
from mahala.comparisons import Triplets
from mahala.comparisons.pairs import neighbor_pairs
from mahala.comparisons.triplets import all_triplets
from mahala.compiled.sums.lmnn import add_pull, hinges_of_triplets, squared_distances
from mahala.engine import current_engine
from mahala.engine.hinges import best_scale
from mahala.engine.inputs import computed, persisted
from mahala.engine.moments import rows_times
from mahala.engine.neighbors import class_neighbors, tag_neighbors
from mahala.learner import LabelledRows
from mahala.metric import MahalanobisMetric
from mahala.metric.shrinkage import Shrinkage, Weights, mixing_weights
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.states import Array
from mahala.support.tags import Labels, TagSets


def rows_in_shared_classes(labels: Labels) -> IndexArray:
    """Return the numbers of the rows whose class has another row; raise ValueError if there are none.

    With tags these are the rows to which another one is similar.
    """
    if isinstance(labels, TagSets):
        rows = np.sort(labels.order[labels.n_similar() > 0])
    else:
        rows = np.flatnonzero(np.bincount(labels)[labels] > 1)
    if not len(rows):
        raise ValueError("y has a different class for every row; at least one class needs two rows")
    return rows


def hits_and_misses(X: RealArray, labels: Labels, rows: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return for some rows, none alone in its class, the nearest other row of their class and of any other class."""
    if isinstance(labels, TagSets):
        hits, misses = tag_neighbors(X, labels, rows, 1, 1)
    else:
        hits, misses = current_engine().nearest_by_class(X, labels, rows, 1, 1)
    return hits[:, 0], misses[:, 0]


def target_neighbors(X: RealArray, labels: Labels, k: int) -> tuple[IndexArray, IndexArray]:
    """Return edges of rows, in their order, to their (up to) k nearest of the same class, and where a row's begin."""
    near, _ = class_neighbors(X, labels, k, 0)
    edges = np.stack(neighbor_pairs(near))
    return edges, np.concatenate([[0], np.cumsum(np.bincount(edges[0], minlength=len(labels)))])


def label_triplets(X: RealArray, labels: Labels, k: int, k_other: int | None = None) -> Triplets:
    """Return the triplets of each row with its (up to) k nearest rows of its class and k_other (or k) of others."""
    return Triplets._build(X, *all_triplets(*class_neighbors(X, labels, k, k_other or k)))


class TripletHinges:
    """LMNN's objective on given triplets, as a function of the mapped rows."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # The distinct edges (anchor, positive), which are pulled together, come first.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._edges = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: RealArray, smoothing: float) -> tuple[float, float, RealArray]:
        """Return the objective with smoothed hinges, with plain hinges, and half the gradient of the first one."""
        squared = squared_distances(Z, *self._edges)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, smoothing, weights)
        out = np.zeros_like(Z)
        add_pull(Z, *self._edges, weights, out)
        pull = (1.0 - self._mu) * float(squared[: self._n_pulled].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def best_scale(self, Z: RealArray) -> float:
        """Return the factor of squared distances, of a coarse grid, that minimises the objective."""
        squared = squared_distances(Z, *self._edges)
        gaps = squared[self._far] - squared[self._near]
        return best_scale(float(squared[: self._n_pulled].sum()), gaps, self._mu)


def edges_of_triplets(
    n_rows: int, anchor: IndexArray, positive: IndexArray, negative: IndexArray
) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray]:
    """Return the rows at both ends of the distinct edges, and the number of the near and far edge of each triplet."""
    ends = np.tile(anchor, 2), np.concatenate([positive, negative])
    codes, edges = np.unique(np.minimum(*ends) * n_rows + np.maximum(*ends), return_inverse=True)
    near, far = edges.reshape(2, -1)
    return codes // n_rows, codes % n_rows, near, far


class TripletEdges:
    """The rows of triplets, centred and divided by √scale, and the graph of the edges between them.

    `scale` is the mean squared distance between two of the rows, so that no result depends on the units of X. With
    A_r = (x_i - x_k)(x_i - x_k)ᵀ - (x_i - x_j)(x_i - x_j)ᵀ for a triplet (i, j, k), Σ u_r A_r = Xᵀ Λ X, where Λ is the
    Laplacian of the graph with these edge weights: the sum of u_r over triplets with that far edge (i, k), minus the
    sum over triplets with that near edge (i, j).
    """

    def __init__(self, triplets: Triplets) -> None:
        rows, numbers = np.unique(
            np.concatenate([triplets.anchor, triplets.positive, triplets.negative]), return_inverse=True
        )
        X = triplets.X if len(rows) == len(triplets.X) else triplets.X[rows]
        n = len(X)
        X = X - computed(X.mean(axis=0, dtype=np.float64)).astype(X.dtype)
        self.scale = 2.0 * float(computed(np.square(X).sum(dtype=np.float64))) / n or 1.0
        self.X = persisted(X / X.dtype.type(np.sqrt(self.scale)))
        self.left, self.right, self.near, self.far = edges_of_triplets(n, *numbers.reshape(3, -1))
        self._graph = current_engine().edge_graph(self.X, self.left, self.right)

    def gains(self, direction: FloatArray) -> FloatArray:
        """Return ⟨A_r, ξξᵀ⟩ of every triplet for a direction ξ."""
        projected = computed(rows_times(self.X, direction.astype(self.X.dtype))).astype(np.float64)
        squared = np.square(projected[self.left] - projected[self.right])
        return np.asarray(squared[self.far] - squared[self.near])

    def leading_direction(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the leading unit eigenvector ξ of Σ u_r A_r and its gains, of which u gives the eigenvalue."""
        m = len(self.left)
        weights = np.bincount(self.far, u, m).astype(np.float64) - np.bincount(self.near, u, m)
        direction = self._graph(weights)
        return direction, self.gains(direction)


@dataclass(eq=False, repr=False, kw_only=True)
class TripletLearner(BatchLearner):
    """A batch learner from triplets, whose M is shrunk toward the identity if triplets cannot determine it."""

    shrinkage: Shrinkage = "auto"

    _learns_from = Triplets
    _MORE = (Array("model.weights", optional=True, dtype=np.float64, shape=(2,), least=0.0),)

    @property
    def shrinkage_(self) -> float:
        """Share of the Euclidean distance in the metric."""
        self._check_fitted()
        return 1.0 - float(self._model["weights"][0]) if "weights" in self._model else 0.0

    def _check_params(self) -> None:
        super()._check_params()
        if self._reduces and self.shrinkage not in ("auto", 0.0):
            advice = "the Euclidean distance would add its directions to those of L; leave one of them out"
            raise ValueError(f"shrinkage must be 'auto' or 0 with n_components, got {self.shrinkage!r}: {advice}")

    @property
    def _reduces(self) -> bool:
        return getattr(self, "n_components", None) is not None

    def _triplets(self: Any, data: LabelledRows | Triplets) -> Triplets:
        """Return given triplets, or those of each labelled row with its nearest rows."""
        return data if isinstance(data, Triplets) else label_triplets(data.X, data.labels, self.n_neighbors)

    def _finished(self, data: LabelledRows | Triplets, model: Model) -> Model:
        if self._reduces or not isinstance(data, Triplets):
            return model
        plain, learned = MahalanobisMetric.euclidean(data.n_features), lambda: MahalanobisMetric(matrix_of(model))
        weights = mixing_weights(type(self).__name__, self.shrinkage, data, learned, plain)
        return model if weights == Weights() else model | {"weights": np.array(weights)}
