"""Constraints: pairs, triplets and chunks drawn from labels, with metric-learn's interface."""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from mahala.batch.triplets import label_triplets
from mahala.comparisons.pairs import draw_pairs
from mahala.compat.metric_learn._util import Random, renamed
from mahala.support.arrays import FloatArray, IndexArray


class Constraints:
    """Draws pairs, triplets and chunks from labels.

    Parameters
    ----------
    partial_labels : whole numbers, negative for a point without a label
    """

    def __init__(self, partial_labels: ArrayLike) -> None:
        self.partial_labels = np.asanyarray(partial_labels, dtype=int)

    def positive_negative_pairs(
        self,
        n_constraints: int,
        same_length: bool = False,
        random_state: Random = None,
        num_constraints: int | str = "deprecated",
    ) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray]:
        """Return the row numbers a and b of pairs of one class, and c and d of pairs of two classes."""
        n = renamed(num_constraints, n_constraints, "num_constraints", "n_constraints")
        random = check_random_state(random_state)
        a, b = self._pairs(n, True, random)
        c, d = self._pairs(n, False, random)
        if same_length:
            n = min(len(a), len(c))
        return a[:n], b[:n], c[:n], d[:n]

    def _pairs(self, n: int, same_label: bool, random: np.random.RandomState) -> tuple[IndexArray, IndexArray]:
        """Return up to n distinct pairs of labelled points; where there are not so many, also in the other order."""
        rows = np.flatnonzero(self.partial_labels >= 0)
        _, codes, sizes = np.unique(self.partial_labels[rows], return_inverse=True, return_counts=True)
        a = b = np.empty(0, dtype=np.intp)
        if n and (sizes.max(initial=0) if same_label else len(sizes)) > 1:
            left, right, _ = draw_pairs(codes, n, float(same_label), random, at_most=True)
            a, b = np.append(left, right)[:n], np.append(right, left)[:n]
        if len(a) < n:
            kind = "positive" if same_label else "negative"
            warnings.warn(f"Only generated {len(a)} {kind} constraints (requested {n})", stacklevel=4)
        return rows[a], rows[b]

    def generate_knntriplets(self, X: FloatArray, k_genuine: int, k_impostor: int) -> IndexArray:
        """Return each point with its nearest points of the same class and its nearest of other classes, as triplets.

        A class with too few points, or too few others, gives as many as there are, and a warning.
        """
        rows = np.flatnonzero(self.partial_labels >= 0)
        classes, codes, counts = np.unique(self.partial_labels[rows], return_inverse=True, return_counts=True)
        for label, count in zip(classes, counts, strict=True):
            n_others = len(rows) - count
            for kind, n, what, wanted, most in (
                ("genuine", count, "elements", k_genuine + 1, count - 1),
                ("impostor", n_others, "elements of other classes", k_impostor, n_others),
            ):
                if wanted > n:
                    warnings.warn(
                        f"The class {label} has {n} {what}, which is not sufficient to generate {wanted} {kind} "
                        f"neighbors as specified by k_{kind}. Will generate {most} {kind} neighbors instead.\n",
                        stacklevel=2,
                    )
        if len(counts) < 2 or counts.max() < 2:
            return np.empty((0, 3), dtype=np.intp)
        points = np.ascontiguousarray(np.asarray(X, dtype=np.float64)[rows])
        triplets = label_triplets(points, codes, k_genuine, k_impostor)
        return rows[np.column_stack([triplets.anchor, triplets.positive, triplets.negative])]

    def chunks(
        self,
        n_chunks: int = 100,
        chunk_size: int = 2,
        random_state: Random = None,
        num_chunks: int | str = "deprecated",
    ) -> IndexArray:
        """Return the number of the chunk of each point, -1 for none; a chunk has points of one class."""
        n_chunks = renamed(num_chunks, n_chunks, "num_chunks", "n_chunks")
        random = check_random_state(random_state)
        rows = random.permutation(np.flatnonzero(self.partial_labels >= 0))
        pieces = []
        for label in np.unique(self.partial_labels[rows]):
            members = rows[self.partial_labels[rows] == label]
            whole = len(members) // chunk_size
            pieces.append(members[: whole * chunk_size].reshape(whole, chunk_size))
        possible = np.concatenate(pieces) if pieces else np.empty((0, chunk_size), dtype=np.intp)
        if len(possible) < n_chunks:
            raise ValueError(
                f"Not enough possible chunks of {chunk_size} elements in each class to form expected {n_chunks} chunks "
                f"- maximum number of chunks is {len(possible)}"
            )
        result = np.full(len(self.partial_labels), -1, dtype=np.intp)
        chosen = random.permutation(len(possible))[:n_chunks]
        result[possible[chosen]] = np.arange(n_chunks)[:, None]
        return result
