"""The linear expert: ridge regression for numbers, penalised softmax regression for classes."""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from mahala.compiled.threads import in_threads, n_threads, product
from mahala.neighbors.maps import Target
from mahala.support.arrays import FloatArray, IndexArray, RealArray
from mahala.support.limits import out_of_time

# The penalties of softmax regression, from which the loss of rows that were left out chooses, and of ridge regression
# in shares of the mean variance of a direction, from which generalised cross-validation chooses.
PENALTIES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
RIDGES = np.logspace(-6, 3, 19)
# A greater number of rows is not used.
MOST_ROWS = 50_000
# Directions of rows with a smaller share of the largest variance are rounding.
_LEAST_VARIANCE = 1e-9
# What the descent may leave of the largest slope, and of the objective.
_SLOPE, _GAIN, _ITERATIONS = 1e-4, 1e-6, 200
# An upper bound of the second derivative of a log loss.
_CURVATURE = 0.25


class Line(NamedTuple):
    """A linear function of features: to numbers, or to the logarithms of classes' probabilities."""

    slopes: RealArray  # of shape (n_features, n_outputs)
    constants: FloatArray
    penalty: float

    def predict(self, X: RealArray, n_classes: int) -> RealArray:
        """Return the numbers in a column, or the probabilities of the classes."""
        # In float64, so that a row's scores do not depend on the rows beside it.
        scores = product(X.astype(np.float64), self.slopes.astype(np.float64)) + self.constants
        return softmax(scores) if n_classes else scores


class Directions(NamedTuple):
    """Centred rows in the coordinates of their principal directions."""

    center: FloatArray
    vectors: FloatArray  # of shape (n_features, n_directions)
    rows: RealArray
    variances: FloatArray

    @classmethod
    def of(cls, X: RealArray, weights: RealArray) -> Self:
        """Find the directions from the smaller of the two matrices of products."""
        shares = weights / weights.sum()
        center = shares @ X.astype(np.float64)
        centred = X - center
        scaled = centred * np.sqrt(shares)[:, np.newaxis]
        n, d = X.shape
        values, vectors = np.linalg.eigh(scaled.T @ scaled if d <= n else scaled @ scaled.T)
        varying = values > _LEAST_VARIANCE * max(values[-1], 1e-300)
        values, vectors = values[varying], vectors[:, varying]
        if d > n:
            vectors = scaled.T @ vectors / np.sqrt(values)
        return cls(center, vectors, centred @ vectors, values)

    def line(self, slopes: FloatArray, constants: FloatArray, penalty: float) -> Line:
        """Return the line with these slopes along the directions."""
        in_features = self.vectors @ slopes
        return Line(in_features.astype(np.float32), constants - self.center @ in_features, penalty)


def ridge(X: RealArray, target: Target, penalty: float | None = None) -> Line:
    """Return the ridge regression whose penalty is given, or else is least in generalised cross-validation."""
    at = Directions.of(X, target.weights)
    shares = target.weights / target.weights.sum(dtype=np.float64)
    mean = float(shares @ target.y)
    n = len(target.y)
    centred = target.y - mean
    along = at.rows.T @ (shares * centred)
    if penalty is None:
        unit = float(at.variances.mean()) if len(at.variances) else 1.0
        errors = []
        for ridge_share in RIDGES:
            shrunk = at.variances / (at.variances + ridge_share * unit)
            residual = float(shares @ np.square(centred - at.rows @ (along / (at.variances + ridge_share * unit))))
            errors.append(residual / max(1.0 - (1.0 + float(shrunk.sum())) / n, 1e-3) ** 2)
        penalty = float(RIDGES[int(np.argmin(errors))]) * unit
    return at.line((along / (at.variances + penalty))[:, np.newaxis], np.array([mean]), penalty)


class SoftmaxPath:
    """Softmax regressions of the same rows with falling penalties, each of which begins where the last one ended.

    The variables are slopes along principal directions, each in a unit in which the curvature is about 1.
    """

    def __init__(self, X: RealArray, target: Target, start: RealArray | None = None) -> None:
        self._at, self._target = Directions.of(X, target.weights), target
        self._shares = target.weights / target.weights.sum(dtype=np.float64)
        counts = np.bincount(target.y, self._shares, target.n_classes)
        self._constants = np.log(np.maximum(counts, 1e-6))
        self._slopes = np.zeros((len(self._at.variances), target.n_classes))
        if start is not None:
            self._slopes = self._at.vectors.T @ start
        self._hits = np.eye(target.n_classes)[target.y]

    def fit(self, penalty: float) -> Line:
        """Return the line that minimises the mean log loss + penalty / 2 × the sum of the squared slopes."""
        units = 1.0 / np.sqrt(_CURVATURE * self._at.variances + penalty)[:, np.newaxis]
        rows = (self._at.rows * units.T).astype(np.float32)
        shape = len(units) + 1, self._target.n_classes

        def objective(vector: FloatArray) -> tuple[float, FloatArray]:
            variables = vector.reshape(shape)
            scores = rows @ variables[:-1].astype(np.float32) + variables[-1]
            scores -= scores.max(axis=1, keepdims=True)
            powers = np.exp(scores)
            sums = powers.sum(axis=1, keepdims=True)
            loss = float(self._shares @ (np.log(sums[:, 0]) - (scores * self._hits).sum(axis=1)))
            errors = (powers / sums - self._hits) * self._shares[:, np.newaxis]
            slopes = variables[:-1] * units
            gradient = np.vstack([rows.T @ errors.astype(np.float32) + penalty * slopes * units, errors.sum(axis=0)])
            return loss + penalty / 2.0 * float(np.square(slopes).sum()), gradient.ravel()

        first = np.vstack([self._slopes / units, self._constants]).ravel()
        options: Any = {"maxiter": _ITERATIONS, "ftol": _GAIN, "gtol": _SLOPE}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x.reshape(shape)
        self._slopes, self._constants = found[:-1] * units, found[-1]
        return self._at.line(self._slopes, self._constants, penalty)


def left_out_lines(X: RealArray, target: Target, folds: IndexArray) -> list[Line]:
    """Return a line for each fold, from the other folds, with the penalty that is best for the rows left out."""
    parts = [np.flatnonzero(folds != fold) for fold in range(int(folds.max()) + 1)]
    threads = n_threads(float(X.size) * X.shape[1])
    if not target.n_classes:
        return in_threads(lambda part: ridge(X[part], target.part(part)), parts, threads=threads)
    rests = [np.flatnonzero(folds == fold) for fold in range(len(parts))]
    paths = in_threads(lambda part: SoftmaxPath(X[part], target.part(part)), parts, threads=threads)
    best: list[Line] = []
    best_loss, since = np.inf, 0
    for penalty in PENALTIES:
        lines = in_threads(lambda path, penalty=penalty: path.fit(penalty), paths, threads=threads)
        loss = 0.0
        for line, rest in zip(lines, rests, strict=True):
            loss += float(target.weights[rest] @ target.losses(line.predict(X[rest], target.n_classes), rest))
        best, best_loss, since = (lines, loss, 0) if loss < best_loss else (best, best_loss, since + 1)
        if since == 2 or out_of_time():
            break
    return best


def final_line(X: RealArray, target: Target, penalty: float, start: RealArray) -> Line:
    """Return the line of rows with a penalty that was chosen; the search for its slopes begins at `start`."""
    return SoftmaxPath(X, target, start).fit(penalty) if target.n_classes else ridge(X, target, penalty)


def softmax(scores: RealArray) -> RealArray:
    """Return probabilities from their logarithms up to a constant."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
