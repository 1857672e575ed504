"""The sums that learners are made of, as interfaces of the engines that compute them."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from mahala.compiled.sums.pair_sums import Cost
from mahala.compiled.sums.vote_sums import Votes
from mahala.engine.map_descent import DeviceArrays
from mahala.support.arrays import FloatArray, IndexArray, RealArray, Rows

T = TypeVar("T")
A = TypeVar("A")  # an array of the engine
# LMNN's objective on images Z, given a smoothing: with smoothed hinges, with plain ones, and the pull of the first.
Hinges = Callable[[A, float], tuple[float, float, A]]
# The unit eigenvector of the largest eigenvalue of a sum over edges, given their weights.
LeadingDirection = Callable[[FloatArray], FloatArray]


class Engine(Protocol[A]):
    """Sums over rows X and their images Z, which are arrays of the engine; everything else is NumPy's.

    The pull of a sum is half of its gradient with respect to the rows of Z.
    """

    def place(self, X: RealArray) -> A:
        """Return rows as an array of the engine."""

    def fetch(self, Z: A) -> RealArray:
        """Return an array of the engine as NumPy's."""

    def of_images(self, function: Callable[[RealArray], T], Z: A) -> T:
        """Return what a function of NumPy images returns, computed where all images may be."""

    def map(self, X: A, L: RealArray) -> A:
        """Return X Lᵀ, or X diag(L) if L is a vector."""

    def gradient(self, pull: A, X: A, *, diagonal: bool = False) -> RealArray:
        """Return pullᵀ X, or its diagonal."""

    def softmax(self, Z: A, codes: IndexArray, rows: slice | None = None) -> tuple[float, A]:
        """Σ_i Σ_{j of the class of i} p_ij with p_ij ∝ exp(-‖z_i - z_j‖²), j ≠ i, and its pull.

        With `rows` it is the share of these rows i; the shares of a cluster's machines add up to the whole.
        """

    def within(self, Z: A, codes: IndexArray, weights: FloatArray | None = None) -> tuple[float, A]:
        """Σ w_i w_j ‖z_i - z_j‖² over the pairs of one class, and its pull."""

    def between(
        self, Z: A, codes: IndexArray, cost: Cost, weights: FloatArray | None = None, rows: slice | None = None
    ) -> tuple[float, A]:
        """Σ w_i w_j cost(d_ij) over the pairs of different classes, and its pull.

        With `rows` it is the share of these rows.
        """

    def hinges(self, codes: IndexArray, edges: IndexArray, ends: IndexArray, mu: float) -> Hinges[A]:
        """LMNN's objective as a function of Z, given the edges and ends of `target_neighbors`."""

    def edge_graph(self, X: RealArray, left: IndexArray, right: IndexArray) -> LeadingDirection:
        """Σ w_e v_e v_eᵀ over edges e, where v_e is the difference of the rows of X, NumPy's, at its two ends."""

    def arrays(self) -> DeviceArrays:
        """What a descent over minibatches needs."""

    def nearest(self, reference: Rows, queries: Rows, k: int) -> tuple[IndexArray, FloatArray]:
        """Row numbers and squared distances of the k nearest reference rows of each query; all arrays are NumPy's."""

    def nearest_by_class(
        self, X: RealArray, codes: IndexArray, rows: IndexArray, n_same: int, n_other: int
    ) -> tuple[IndexArray, IndexArray]:
        """Row numbers of the nearest others of their class and of other classes, of some rows of X, NumPy's too.

        Where there are not so many, the last numbers are len(X).
        """


class MachineEngine(Engine[A], Protocol[A]):
    """An engine of one machine, on which rows can vote for each other."""

    def vote_sums(self, votes: Votes) -> Callable[[A], tuple[float, A]]:
        """The mean loss of rows that vote for each other, and its gradient, as a function of Z."""

    def drawn_vote_sums(self, Z: A, votes: Votes, voters: A, their: Votes, itself: IndexArray) -> tuple[float, A, A]:
        """The mean loss of rows Z for which others vote, and its gradients with respect to both."""

    def vote_means(
        self, queries: RealArray, voters: RealArray, values: RealArray, weights: RealArray | None = None
    ) -> RealArray:
        """The mean of the voters' values for each query, weighted by w_j exp(-distance); all arrays are NumPy's."""
