"""The linear map L under which near rows vote right: learned on folds by L-BFGS or, from many rows, by minibatches.

The loss of a row is -log of the share of votes for its class, or the squared error of the votes' mean for its number;
row j votes with the weight exp(-‖Lx_i - Lx_j‖). Stopping early, where the loss of a fold that was left out is least,
is the only regularisation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from mahala.compiled.sums.vote_sums import Votes
from mahala.compiled.threads import product, transposed_product
from mahala.engine import machine_engine
from mahala.engine.engine import MachineEngine
from mahala.support.arrays import Array, FloatArray, IndexArray, Places, RealArray
from mahala.support.lazily import linalg
from mahala.support.limits import out_of_time

# Rows of L while it is learned.
MOST_DIRECTIONS = 64
# The median distance of two rows at the start: a shorter one lets far rows vote, a longer one few.
DISTANCE_OF_CLASSES, DISTANCE_OF_NUMBERS = 8.0, 4.0
# Iterations without a gain after which a descent ends, and the most of them.
PATIENCE, MOST_ITERATIONS = 10, 150
# From more rows than this in a part, minibatches are drawn: so many rows, for which so many others vote.
MOST_EXACT, BATCH, N_VOTERS = 4_000, 512, 4_096
RATE, DROPOUT, MOST_STEPS, EVALUATE_EVERY, MINIBATCH_PATIENCE = 2e-2, 0.1, 1_000, 50, 6
# Rows of the part that was left out on which minibatches are judged, and rows that vote for them.
MOST_JUDGED, MOST_VOTERS = 2_000, 20_000
# The least probability in a log loss.
LEAST = 1e-4


class Target(NamedTuple):
    """What rows vote for: numbers y, standardised, or class codes of 0..n_classes - 1; and the weights of rows."""

    y: Array
    weights: RealArray
    n_classes: int  # 0 for numbers

    def values(self, rows: Places = slice(None)) -> RealArray:
        """Return what rows vote with: a column of numbers, or 0/1 columns of classes."""
        if not self.n_classes:
            return np.asarray(self.y[rows], dtype=np.float32)[:, np.newaxis]
        return np.asarray(np.eye(self.n_classes, dtype=np.float32)[self.y[rows]])

    def losses(self, predicted: RealArray, rows: Places = slice(None)) -> FloatArray:
        """Return the loss of each row, given what is predicted for it: log loss or squared error."""
        if not self.n_classes:
            return np.asarray(np.square(predicted[:, 0].astype(np.float64) - self.y[rows]))
        right = predicted[np.arange(len(predicted)), self.y[rows]].astype(np.float64)
        return np.asarray(-np.log(np.maximum(right, LEAST)))

    def part(self, rows: Places) -> "Target":
        """Return the target of some rows."""
        return Target(self.y[rows], self.weights[rows], self.n_classes)

    def votes(self) -> Votes:
        """Return the votes of these rows for each other."""
        if self.n_classes:
            return Votes.of_classes(self.y, self.weights)
        return Votes.of_numbers(self.y, self.weights)


def first_map(X: RealArray, n_classes: int, rng: np.random.Generator, *, square: bool = False) -> RealArray:
    """Return L at the start, in a unit that suits the votes: the identity, or the leading principal directions of rows.

    If it is to be `square`, it is the identity.
    """
    n, d = X.shape
    L = np.eye(d, dtype=np.float32)
    if d > MOST_DIRECTIONS and not square:
        centred = X - X.mean(axis=0)
        scatter = transposed_product(centred, centred).astype(np.float64)
        _, vectors = linalg.eigh(scatter, subset_by_index=(d - min(MOST_DIRECTIONS, d), d - 1))
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
        L = np.ascontiguousarray((vectors * signs).T[::-1], dtype=np.float32)
    left, right = rng.integers(n, size=(2, 4_000))
    distances = np.sqrt(np.square(product(X[left] - X[right], L.T)).sum(axis=1))
    distances = distances[distances > 0.0]
    unit = float(np.median(distances)) if len(distances) else 1.0
    return L * np.float32((DISTANCE_OF_CLASSES if n_classes else DISTANCE_OF_NUMBERS) / unit)


class MapFit(NamedTuple):
    """A part of the rows to learn a map from, and the rest, on which it is judged."""

    X: RealArray
    target: Target
    others: RealArray
    their: Target
    seed: int

    def learn(self, start: RealArray, tick: Callable[[float], None]) -> RealArray:
        """Return the map that is best for the rest; `tick` is called with its loss after each iteration."""
        if len(self.X) < 2 or not len(self.others) or len(np.unique(self.target.y)) < 2:
            return start
        descend = self._descend if len(self.X) <= MOST_EXACT else self._descend_by_minibatches
        best = Best(start, self.judge(start))
        descend(start, best, tick)
        return best.map

    def votes(self, L: RealArray, voters: Places = slice(None)) -> RealArray:
        """Return what the part, or some rows of it, votes for the rest."""
        Z = product(self.others, L.T)
        votes = self.target.values(voters), self.target.weights[voters]
        return machine_engine().vote_means(Z, product(self.X[voters], L.T), *votes)

    def judge(self, L: RealArray) -> float:
        """Return the loss of the rest, or of a sample of it, voted for by the part, or by a sample of it."""
        voters = slice(None) if len(self.X) <= MOST_VOTERS else slice(None, None, -(-len(self.X) // MOST_VOTERS))
        every = max(1, -(-len(self.others) // MOST_JUDGED))
        sample = self._replace(others=self.others[::every], their=self.their.part(slice(None, None, every)))
        return float(np.average(sample.their.losses(sample.votes(L, voters)), weights=sample.their.weights))

    def _descend(self, start: RealArray, best: "Best", tick: Callable[[float], None]) -> None:
        engine = machine_engine()
        sums, rows = engine.vote_sums(self.target.votes()), engine.place(self.X)

        def objective(vector: FloatArray) -> tuple[float, FloatArray]:
            L = vector.reshape(start.shape).astype(np.float32)
            loss, gradient = sums(engine.map(rows, L))
            return loss, engine.gradient(gradient, rows).astype(np.float64).ravel()

        def record(intermediate_result: OptimizeResult) -> None:
            L = intermediate_result.x.reshape(start.shape).astype(np.float32)
            tick(best.offer(L, self.judge(L)))
            if best.age >= PATIENCE or out_of_time():
                raise StopIteration

        options: Any = {"maxiter": MOST_ITERATIONS, "ftol": 0.0, "gtol": 0.0, "maxcor": 10}
        first = start.astype(np.float64).ravel()
        minimize(objective, first, jac=True, method="L-BFGS-B", callback=record, options=options)

    def _descend_by_minibatches(self, start: RealArray, best: "Best", tick: Callable[[float], None]) -> None:
        """Take steps of Adam, each for some rows, for which others vote that are drawn, too."""
        engine, rng = machine_engine(), np.random.default_rng(self.seed)
        placed, L = engine.place(self.X), start.copy()
        mean, square = np.zeros_like(start), np.zeros_like(start)
        rate, n = RATE * float(np.abs(start).max()), len(self.X)
        for step in range(1, MOST_STEPS + 1):
            drawn = rng.choice(n, min(n, BATCH + N_VOTERS), replace=False)
            gradient = self._drawn_gradient(engine, placed, L, drawn, rng)
            mean += 0.1 * (gradient - mean)
            square += 0.01 * (gradient * gradient - square)
            decay = 0.5 * (1.0 + np.cos(np.pi * step / MOST_STEPS))
            change = (mean / (1.0 - 0.9**step)) / (np.sqrt(square / (1.0 - 0.99**step)) + 1e-12)
            L = L - np.float32(rate * decay) * change.astype(np.float32)
            late = out_of_time()
            if late or step % EVALUATE_EVERY == 0:
                tick(best.offer(L, self.judge(L)))
                if late or best.age >= MINIBATCH_PATIENCE:
                    return

    def _drawn_gradient(
        self, engine: MachineEngine[Any], X: RealArray, L: RealArray, drawn: IndexArray, rng: np.random.Generator
    ) -> RealArray:
        """Return the gradient of the loss of some rows, for which others vote, with some features left out."""
        voted_for, voting = drawn[:BATCH], drawn[BATCH:]
        if self.target.n_classes:
            voting = voting[np.argsort(self.target.y[voting], kind="stable")]
        mask = np.where(rng.random(self.X.shape[1]) < DROPOUT, 0.0, 1.0 / (1.0 - DROPOUT)).astype(np.float32)
        rows, voters = (X[numbers] * engine.place(mask) for numbers in (voted_for, voting))
        mine, their = self.target.part(voted_for), self.target.part(voting)
        if self.target.n_classes:
            votes = Votes.of_classes(mine.y, mine.weights, their.y)
            their_votes = Votes.of_classes(their.y, their.weights)
        else:
            votes = Votes.of_numbers(mine.y, mine.weights, len(voting))
            their_votes = Votes.of_numbers(their.y, their.weights)
        itself = np.full(len(voted_for), -1)
        Z, V = engine.map(rows, L), engine.map(voters, L)
        _, pull, back = engine.drawn_vote_sums(Z, votes, V, their_votes, itself)
        return engine.gradient(pull, rows) + engine.gradient(back, voters)


class Best:
    """The best map so far, its loss, and how many others were offered since."""

    def __init__(self, L: RealArray, loss: float) -> None:
        self.map, self.loss, self.age = L, loss, 0

    def offer(self, L: RealArray, loss: float) -> float:
        """Keep the map if it is better; return the least loss."""
        self.age += 1
        if loss < self.loss:
            self.map, self.loss, self.age = L.copy(), loss, 0
        return self.loss


def joined(maps: list[RealArray], n_components: int) -> RealArray:
    """Return the leading components of the mean of LᵀL of several maps."""
    stacked = np.vstack(maps).astype(np.float64) / np.sqrt(len(maps))
    _, lengths, directions = linalg.svd(stacked, full_matrices=False)
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    L = (lengths * signs)[:, np.newaxis] * directions
    return np.ascontiguousarray(L[:n_components], dtype=np.float32)
