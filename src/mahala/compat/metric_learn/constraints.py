"""Constraints: pairs, triplets and chunks drawn from labels, with metric-learn's interface."""

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from mahala.compat.metric_learn._util import Random, renamed
from mahala.support.arrays import FloatArray, IndexArray

_ROUNDS = 10  # of drawing pairs, until there are as many distinct ones as were asked for


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
        """Return up to n distinct pairs of labelled points.

        Points are sorted by label, so that those of one class are a range, and the others are the ranges around it.
        """
        rows = np.flatnonzero(self.partial_labels >= 0)
        rows = rows[np.argsort(self.partial_labels[rows], kind="stable")]
        _, starts, counts = np.unique(self.partial_labels[rows], return_index=True, return_counts=True)
        first, size = np.repeat(starts, counts), np.repeat(counts, counts)
        n_partners = size - 1 if same_label else len(rows) - size
        anchors = np.flatnonzero(n_partners > 0)
        codes = np.empty(0, dtype=np.int64)
        for _ in range(_ROUNDS if len(anchors) else 0):
            left = anchors[random.randint(len(anchors), size=n - len(codes))]
            step = (random.random_sample(len(left)) * n_partners[left]).astype(np.int64)
            if same_label:  # the others of the class, which skip the point itself
                right = first[left] + step
                right += right >= left
            else:
                right = step + np.where(step >= first[left], size[left], 0)
            drawn = np.concatenate([codes, left * len(rows) + right])
            codes = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            if len(codes) == n:
                break
        if len(codes) < n:
            kind = "positive" if same_label else "negative"
            warnings.warn(f"Only generated {len(codes)} {kind} constraints (requested {n})", stacklevel=4)
        return rows[codes // max(len(rows), 1)], rows[codes % max(len(rows), 1)]

    def generate_knntriplets(self, X: FloatArray, k_genuine: int, k_impostor: int) -> IndexArray:
        """Return each point with its nearest points of the same class and its nearest of other classes, as triplets.

        A class with too few points, or too few others, gives as many as there are, and a warning.
        """
        rows = np.flatnonzero(self.partial_labels >= 0)
        labels, X = self.partial_labels[rows], np.asarray(X)[rows]
        result = []
        for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
            n_others = len(labels) - count
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
            genuine, impostors = min(k_genuine, count - 1), min(k_impostor, n_others)
            if genuine < 1 or impostors < 1:
                continue
            members, others = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
            near = NearestNeighbors(n_neighbors=genuine).fit(X[members]).kneighbors(return_distance=False)
            far = NearestNeighbors(n_neighbors=impostors).fit(X[others]).kneighbors(X[members], return_distance=False)
            columns = members[:, None, None], members[near][:, :, None], others[far][:, None, :]
            result.append(np.stack(np.broadcast_arrays(*columns), axis=-1).reshape(-1, 3))
        return rows[np.concatenate(result)] if result else np.empty((0, 3), dtype=np.intp)

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
