"""Large margin nearest neighbours: targets near, rows of other classes a margin further away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mahala.batch.descent import descend
from mahala.batch.starts import Init, check_start, first_components
from mahala.batch_learner import BatchLearner, Callback, Floats, Given, Model, Rows, Run
from mahala.comparisons import Triplets
from mahala.kernels.lmnn import add_laplacian, find_near, hinges_of_rows, hinges_of_triplets, squared_edges
from mahala.kernels.neighbors import nearest
from mahala.validation import check_count, is_number

# A hinge is a parabola within this distance about its kink: L-BFGS needs a gradient that is continuous, and with this
# one it reaches lower than with the kinks.
SMOOTHING = 0.01
# Variances below this share of the largest are not whitened further: their directions are mostly noise.
RIDGE = 1e-2
# Entries of one block of products, and the most impostors that are remembered: 64 MiB each.
BLOCK_ENTRIES = 2**23
MOST_REMEMBERED = 2**24


class LMNN(BatchLearner):
    """Large margin nearest neighbours (Weinberger, Blitzer and Saul 2005; Weinberger and Saul, JMLR 2009).

    Minimises over M = LᵀL, with d_M squared distances,

        (1 - mu) Σ_{i,j} d_M(xᵢ, xⱼ) + mu Σ_{i,j,l} [1 + d_M(xᵢ, xⱼ) - d_M(xᵢ, x_l)]₊

    where j runs over the targets of i, its `n_neighbors` nearest rows of the same class in the Euclidean space of the
    data as given, and l over all rows of other classes. Of a class with fewer rows the targets are all others; a row
    alone in its class has none, and is still an l for other rows. From Triplets (i, j, l) the first sum is over their
    distinct (i, j), the second over themselves.

    Without `n_components` the problem is convex in M, and the minimum does not depend on the start. L-BFGS descends, in
    coordinates in which the data are about white, on hinges rounded off within ±0.005 of their kink; `objectives_` hold
    the objective itself, over all l. An iteration needs two products of n × d with d × d, and distances to the l that
    can have come near since all n² distances were last seen, in blocks; where they have moved too far, or are more
    than are worth remembering, it sees all again. Memory is O(n d + d²) and at most 64 MiB each for a block and for
    the rows remembered.

    Parameters
    ----------
    n_neighbors : targets of each row
    mu : weight of the hinges, between 0 and 1; that of the targets' distances is 1 - mu
    n_components : rows of L; None for as many as features, or as the data have dimensions
    init : "auto", "identity", "pca", "lda", "random" or a Metric: the start, but for its length, which is chosen; a
        Metric is taken as it is
    max_iter, tol : the descent ends after max_iter iterations, or where one gains less than tol of the objective
    warm_start : a further fit goes on from what has been learned
    callback : function of an Iteration; where it returns something true, the fit ends
    verbose : show progress on the terminal
    random_state : seed of init="random"

    Attributes
    ----------
    metric_, components_ : what has been learned
    objective_, objectives_ : the objective reached, and after each iteration
    n_iter_, stop_reason_ : iterations, and why there are no more: "converged", "max_iter", "precision" (no step lowers
        the objective, as far as rounding lets tell), "callback" or "interrupted"

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = LMNN().fit(X[::2], y[::2])
    >>> learner.stop_reason_, round(learner.score(X[1::2], y[1::2]), 2)
    ('converged', 0.94)
    """

    _learns_from = Triplets

    def __init__(
        self,
        n_neighbors: int = 3,
        mu: float = 0.5,
        n_components: int | None = None,
        init: Init = "auto",
        max_iter: int = 1000,
        tol: float = 1e-6,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.n_components = n_components
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_count(self.n_neighbors, "n_neighbors")
        if not (is_number(self.mu) and 0.0 < self.mu < 1.0):
            raise ValueError(f"mu must be a number between 0 and 1, both excluded, got {self.mu!r}")
        check_start(self.init, self.n_components)

    def _learn(self, given: Given, run: Run) -> tuple[Model, str]:
        X = given.X
        space = _whiten(X)
        loss: RowsLoss | TripletsLoss
        if isinstance(given, Rows):
            edges, ends = _targets(X, given.codes, self.n_neighbors)
            loss = RowsLoss(given.codes, edges, ends, self.mu)
        else:
            assert isinstance(given, Triplets)
            loss = TripletsLoss(given, self.mu)

        warm = self._warm_model()
        codes = given.codes if isinstance(given, Rows) else None
        L = first_components(self.init, self.n_components, X, codes, self._rng) if warm is None else warm["L"]
        start = _reduced(L.astype(np.float64) @ space.back.T, self.n_components, self._rng).astype(X.dtype)
        if warm is None and isinstance(self.init, str):
            start *= X.dtype.type(np.sqrt(loss.best_scale(space.X @ start.T)))

        hinge, seen = 0.0, np.empty(0)

        def objective(A: Floats) -> tuple[float, Floats]:
            nonlocal hinge, seen
            smooth, hinge, laplacian = loss(space.X @ A.T)
            seen = A
            return smooth, 2 * (laplacian.T @ space.X)

        def to_model(A: Floats) -> Model:
            if not np.array_equal(A, seen):
                objective(A)
            return {"L": A.astype(np.float64) @ space.forth}

        # The descent sees rounded hinges; who watches it sees the objective.
        rounded = Run(lambda iteration: run.step(hinge, iteration.model), lambda done, objective: None)
        return descend(objective, start, rounded, max_iter=self.max_iter, tol=self.tol, to_model=to_model)


class Space(NamedTuple):
    """Rows in white coordinates: X = (rows - mean) forthᵀ and rows - mean = X back."""

    X: Floats
    forth: NDArray[np.float64]
    back: NDArray[np.float64]


def _whiten(X: Floats) -> Space:
    """Coordinates in which features of any scale, and correlated ones, look alike; without directions of no variance.

    They change no objective, only the way that descent takes.
    """
    n, d = X.shape
    mean = X.mean(axis=0, dtype=np.float64)
    block = max(1, BLOCK_ENTRIES // (2 * d))
    parts = [slice(start, start + block) for start in range(0, n, block)]
    # Less than this is the rounding of the mean.
    least = 1e-14 * np.abs(X).max(axis=0).astype(np.float64)
    scale = np.sqrt(sum(np.square(X[part] - mean).sum(axis=0) for part in parts) / n)
    scale[scale <= least] = 0.0
    inverse = np.divide(1.0, scale, out=np.zeros(d), where=scale > 0.0)
    if n < d:
        _, lengths, axes = np.linalg.svd((X - mean) * inverse, full_matrices=False)
        variances, V = np.square(lengths) / n, axes.T
    else:
        covariance = np.zeros((d, d))
        for part in parts:
            rows = (X[part] - mean) * inverse
            covariance += rows.T @ rows
        variances, V = np.linalg.eigh(covariance / n)
    kept = variances > max(n, d) * np.finfo(np.float64).eps * variances.max()
    if not kept.any():
        raise ValueError("X must have rows that differ; all are the same, and no metric tells them apart")
    lengths = np.sqrt(variances[kept] + RIDGE * variances.max())
    forth = (V[:, kept] / lengths).T * inverse
    white = np.empty((n, len(forth)), dtype=X.dtype)
    for part in parts:
        white[part] = (X[part] - mean) @ forth.T
    return Space(white, forth, (V[:, kept] * lengths).T * scale)


def _reduced(A: NDArray[np.float64], n_components: int | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """The same distances, or nearly, by as many rows as there are dimensions to choose from, none of them zero."""
    m = min(A.shape[1], n_components or A.shape[1])
    if len(A) > m:
        _, lengths, axes = np.linalg.svd(A, full_matrices=False)
        A = lengths[:m, None] * axes[:m]
    # The gradient of a row of zeros is zero.
    filler = rng.normal(size=(m - len(A), A.shape[1])) * 1e-3 * np.sqrt(np.square(A).mean())
    return np.vstack([A, filler])


def _targets(X: Floats, codes: NDArray[np.intp], k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Edges (anchor, target), sorted by anchors, and where those of each anchor begin and end."""
    edges = []
    for code in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == code)
        if len(members) > 1:
            found, _ = nearest(X[members], X[members], min(k, len(members) - 1), exclude_self=True)
            edges.append(np.column_stack([np.repeat(members, found.shape[1]), members[found.ravel()]]))
    if not edges:
        raise ValueError("y must have a class of at least two rows; here every row is alone in its class")
    every = np.vstack(edges)
    every = every[np.argsort(every[:, 0], kind="stable")]
    counts = np.bincount(every[:, 0], minlength=len(codes))
    return np.ascontiguousarray(every.T), np.concatenate([[0], np.cumsum(counts)])


class RowsLoss:
    """The objective on labelled rows, as a function of the rows Z in the space of the metric."""

    def __init__(self, codes: NDArray[np.intp], edges: NDArray[np.intp], ends: NDArray[np.intp], mu: float) -> None:
        self._codes, self._edges, self._ends, self._mu = codes, edges, ends, mu
        # What is remembered holds until a row has moved by more than `share` of its own size; see _moved_little.
        self._share = 0.02
        self._uses = 0
        self._known: list[_Near] | None = None

    def __call__(self, Z: Floats) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half its gradient by Z."""
        anchors, targets = self._edges
        squared = np.empty(len(anchors))
        squared_edges(Z, anchors, targets, squared)
        weights = np.full(len(anchors), 1.0 - self._mu)
        out = np.zeros_like(Z)
        smooth = plain = 0.0
        for near in self._impostors(Z, squared):
            sums = hinges_of_rows(
                Z, near.first, self._ends, squared, near.ends, near.rows, self._mu, SMOOTHING, weights, out
            )
            smooth, plain = smooth + sums[0], plain + sums[1]
        add_laplacian(Z, anchors, targets, weights, out)
        pull = (1.0 - self._mu) * float(squared.sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _impostors(self, Z: Floats, squared: NDArray[np.float64]) -> Iterator[_Near]:
        """Block by block of anchors, every row of another class that comes within a hinge, and some more."""
        radius = self._radius(squared)
        if self._known is not None and self._moved_little(Z, radius):
            self._uses += 1
            yield from self._known
            return
        if self._known is not None and self._uses < 4:
            self._share = min(2.0 * self._share, 1.0)
        self._uses, self._known, count = 0, [], 0
        norms = np.einsum("ij,ij->i", Z, Z)
        size = np.sqrt(np.maximum(norms, norms.mean()))
        self._seen, self._seen_radius, self._size = Z, radius, size
        spread = (self._share * size).astype(Z.dtype)
        reach = np.where(radius < 0.0, radius, radius + 2.0 * self._share * size).astype(Z.dtype)
        for near in _blocks(Z, norms, reach, spread, self._codes):
            count += len(near.rows)
            # With more than these a look at all distances, by matrix products, is as fast.
            if count > min(MOST_REMEMBERED, len(Z) ** 2 // 16):
                self._known = None
            if self._known is not None:
                self._known.append(near)
            yield near
        if self._known is None:
            self._share /= 4.0

    def _radius(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far rows of other classes matter to each anchor; -1 to those that have no targets."""
        furthest = np.full(len(self._codes), -np.inf)
        np.maximum.at(furthest, self._edges[0], squared)
        return np.where(np.isinf(furthest), -1.0, np.sqrt(np.maximum(furthest, 0.0) + 1.0 + SMOOTHING))

    def _moved_little(self, Z: Floats, radius: NDArray[np.float64]) -> bool:
        """Whether every row that now matters to an anchor was already within its reach plus the row's spread.

        With moves of at most share · size, and a radius that has grown by at most that of its anchor, a row further
        away then than radius + 2 share · size of the anchor + share · size of its own is still further than the radius.
        """
        allowed = self._share * self._size
        if (radius > self._seen_radius + allowed).any():
            return False
        moves = Z - self._seen
        return bool((np.sqrt(np.einsum("ij,ij->i", moves, moves)) <= allowed).all())

    def best_scale(self, Z: Floats) -> float:
        """The factor of squared distances by which the objective of some anchors is least, from a coarse grid."""
        anchors, targets = self._edges
        few = max(1, BLOCK_ENTRIES // (8 * len(Z)))
        chosen = np.arange(len(anchors))[:: max(1, len(anchors) // few)]
        near = np.empty(len(chosen))
        squared_edges(Z, anchors[chosen], targets[chosen], near)
        norms = np.einsum("ij,ij->i", Z, Z)
        heads = anchors[chosen]
        far = norms[heads][:, None] + norms - 2 * (Z[heads] @ Z.T)
        gaps = (far - near[:, None].astype(Z.dtype))[self._codes[heads][:, None] != self._codes]
        return _best_scale(float(near.sum()), gaps, self._mu)


class _Near(NamedTuple):
    """Rows near the anchors first, first + 1, ...: those of anchor first + a are rows[ends[a]:ends[a + 1]]."""

    first: int
    ends: NDArray[np.intp]
    rows: NDArray[np.int32]


def _blocks(Z: Floats, norms: Floats, reach: Floats, spread: Floats, codes: NDArray[np.intp]) -> Iterator[_Near]:
    n, m = Z.shape
    # Rounding in the products is at most this, with room to spare; who is found by mistake adds a hinge of zero.
    norms = norms * (1 - 4 * (m + 4) * np.finfo(Z.dtype).eps)
    block = max(1, min(n, BLOCK_ENTRIES // n))
    found = np.empty(block * n, dtype=np.int32)
    for first in range(0, n, block):
        products = Z[first : first + block] @ Z.T
        ends = np.zeros(len(products) + 1, dtype=np.intp)
        count = find_near(products, first, norms, reach, spread, codes, ends, found)
        yield _Near(first, ends, found[:count].copy())


class TripletsLoss:
    """The objective on given triplets, as a function of the rows Z in the space of the metric."""

    def __init__(self, triplets: Triplets, mu: float) -> None:
        n, count = triplets.X.shape[0], len(triplets)
        # Distinct edges (anchor, positive) first: those are pulled together.
        pulled, near = np.unique(triplets.anchor * n + triplets.positive, return_inverse=True)
        pushed, far = np.unique(triplets.anchor * n + triplets.negative, return_inverse=True)
        self._near, self._far = near.reshape(count), far.reshape(count) + len(pulled)
        self._left, self._right = np.divmod(np.concatenate([pulled, pushed]), n)
        self._n_pulled, self._mu = len(pulled), mu

    def __call__(self, Z: Floats) -> tuple[float, float, Floats]:
        """The objective with hinges rounded off, with plain hinges, and half its gradient by Z."""
        squared = self._squared(Z)
        weights = np.zeros(len(squared))
        weights[: self._n_pulled] = 1.0 - self._mu
        smooth, plain = hinges_of_triplets(self._near, self._far, squared, self._mu, SMOOTHING, weights)
        out = np.zeros_like(Z)
        add_laplacian(Z, self._left, self._right, weights, out)
        pull = (1.0 - self._mu) * float(squared[: self._n_pulled].sum())
        return pull + self._mu * smooth, pull + self._mu * plain, out

    def _squared(self, Z: Floats) -> NDArray[np.float64]:
        squared = np.empty(len(self._left))
        squared_edges(Z, self._left, self._right, squared)
        return squared

    def best_scale(self, Z: Floats) -> float:
        """The factor of squared distances by which the objective is least, from a coarse grid."""
        squared = self._squared(Z)
        gaps = squared[self._far] - squared[self._near]
        return _best_scale(float(squared[: self._n_pulled].sum()), gaps, self._mu)


def _best_scale(pull: float, gaps: Floats, mu: float) -> float:
    """The factor a of least (1 - mu) a pull + mu Σ [1 - a gap]₊."""
    unit = float(np.abs(gaps).mean(dtype=np.float64))
    factors = 2.0 ** np.arange(-8, 13) / (unit or 1.0)
    totals = [
        (1.0 - mu) * factor * pull + mu * float(np.maximum(1 - gaps.dtype.type(factor) * gaps, 0).sum(dtype=np.float64))
        for factor in factors
    ]
    return float(factors[int(np.argmin(totals))])
