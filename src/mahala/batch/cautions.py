"""What a user should know of a metric that a fit has found: it collapses, equals its start or has one direction."""

from typing import Any

import numpy as np

from mahala.batch.run import Model, Run
from mahala.comparisons import Comparisons
from mahala.engine.inputs import computed
from mahala.learner import LabelledRows, quality
from mahala.metric import MahalanobisMetric
from mahala.support.arrays import FloatArray, IndexArray, row_blocks
from mahala.support.tags import TagSets
from mahala.support.validation import is_chunked, to_numpy

# Rows on which metrics are compared, and the relative difference of their inner products that is rounding.
ROWS, SAME = 200, 1e-5
# An objective of less for each row is rounding: the start was perfect.
PERFECT = 1e-15
# With more features, a metric of fewer effective directions may have lost what tells rows apart. Its errors are then
# measured on so many rows or comparisons.
MOST_FEATURES, FEW_DIRECTIONS, MEASURED = 10, 2.0, 2_000


def caution(learner: Any, data: Any, run: Run) -> str | None:
    """Return what is wrong with what a learner has learned from rows or comparisons, and the remedy, or None."""
    model = learner._model
    differ, is_mapped = differences(model, data.X)
    if not differ:
        return "learned nothing: all rows are equal; check the features"
    if not is_mapped:
        advice = "check that the labels or comparisons depend on the features, or use another learner"
        return f"found a metric under which all rows are at distance zero: {advice}"
    if stays(model, run, data.X):
        start = next((name for name in ("init", "prior") if name in learner.get_params()), None)
        other = "use another learner" if start is None else f"give another {start}"
        advice = f"divide the features by their standard deviations, or {other}"
        return f"learned nothing: the metric is the one at the start, which no step improved; {advice}"
    asked_for_few = (getattr(learner, "n_components", None) or FEW_DIRECTIONS + 1) <= FEW_DIRECTIONS
    if is_chunked(data.X) or learner._learns_numbers or asked_for_few:
        return None
    if data.X.shape[1] <= MOST_FEATURES or effective_directions(model, data.X) > FEW_DIRECTIONS:
        return None
    if (errors := risen_errors(data, learner.metric_)) is None:
        return None
    learned, plain = errors
    worse = f"its error is {learned:.1%}, that of the Euclidean distance {plain:.1%}"
    return f"found a metric mostly along one direction of {data.X.shape[1]} features, and {worse}: use another learner"


def differences(model: Model, X: Any) -> tuple[bool, bool]:
    """Return whether there are rows that differ, and whether some of them have a distance above zero."""
    keeps_all = "weights" in model and model["weights"][1] > 0.0
    differ = False
    A, first = model[next(key for key in ("w", "M", "L") if key in model)], to_numpy(computed(X[:1]))
    for block in row_blocks(*X.shape):  # of which the first one usually decides
        rows = to_numpy(computed(X[block])) - first
        differ = differ or bool(rows.any())
        if differ and (keeps_all or np.any(rows * A if A.ndim == 1 else rows @ A.T)):
            return True, True
    return differ, False


def stays(model: Model, run: Run, X: Any) -> bool:
    """Return whether a fit that was no warm start has left the metric, which was not perfect, as it was at the start.

    A multiple of that metric has the same neighbours.
    """
    if not run.first or run.warm is not None or abs(run.objectives[-1]) <= PERFECT * len(X):
        return False
    first = run.first if isinstance(run.first, dict) else run.first()
    rows = sample(X)
    before, after = (_products(each, rows) for each in (first, model))
    sizes = np.linalg.norm(before), np.linalg.norm(after)
    if not min(sizes) > 0.0 or np.linalg.norm(before / sizes[0] - after / sizes[1]) > SAME:
        return False
    # On a line, all metrics are multiples of each other.
    return bool(np.linalg.matrix_rank(rows, tol=SAME * float(np.linalg.norm(rows))) > 1)


def effective_directions(model: Model, X: Any) -> float:
    """Return the number of directions in which the mapped rows vary, if they varied equally in these."""
    products = _products(model, sample(X))
    total = float(np.trace(products))
    return float(1.0 / np.square(products / total).sum()) if total > 0.0 else np.inf


def risen_errors(data: Any, metric: MahalanobisMetric) -> tuple[float, float] | None:
    """Return the errors of a metric and of the Euclidean distance on rows or comparisons, if it clearly has more."""
    if isinstance(data, LabelledRows) and isinstance(data.labels, TagSets):
        return None  # quality needs classes
    if isinstance(data, LabelledRows):
        chosen = _spread(len(data.X), MEASURED)
        data = LabelledRows(data.X[chosen], data.codes[chosen])
    elif isinstance(data, Comparisons):
        chosen = _spread(len(data), MEASURED)
        data = data[chosen]
    else:
        return None
    learned, plain = (1.0 - quality(MahalanobisMetric(M), data) for M in (metric.matrix, np.eye(data.X.shape[1])))
    variance = (learned * (1.0 - learned) + plain * (1.0 - plain)) / len(chosen)
    return (learned, plain) if learned - plain > 2.0 * np.sqrt(variance) else None


def sample(X: Any) -> FloatArray:
    """Return some of the rows, centred."""
    rows = to_numpy(computed(X[_spread(len(X), ROWS)])).astype(np.float64)
    return np.asarray(rows - rows.mean(axis=0))


def _products(model: Model, rows: FloatArray) -> FloatArray:
    """Return the inner products of mapped rows."""
    if "weights" in model:
        learned, plain = model["weights"].tolist()
        rest = {key: array for key, array in model.items() if key != "weights"}
        return np.asarray(learned * _products(rest, rows) + plain * (rows @ rows.T))
    if "w" in model:
        return np.asarray((rows * model["w"]) @ rows.T)
    if "M" in model:
        return np.asarray(rows @ model["M"] @ rows.T)
    mapped = rows @ model["L"].T.astype(np.float64)
    return np.asarray(mapped @ mapped.T)


def _spread(n: int, most: int) -> IndexArray:
    """Return at most so many numbers below n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))
