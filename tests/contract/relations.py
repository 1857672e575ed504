"""What must become of a metric when its data change: rows and features in another order, other units, more columns.

The tests try one set of rows, and the campaign many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from contract.learners import ALL, as_stream
from mahala.batch.batch_learner import BatchLearner, WeightedLearner
from mahala.online.similarity_learner import SimilarityLearner
from mahala.testing import dense, draw

# These draw rows, or take them in their order.
ORDERED = {"BoostMetric", "ITML", "LSML", "LogisticMetric", "NCMML", "Relief", "SCML", "SDML", "Simba"}
# These draw by class, or learn from values.
OF_CLASSES = {"ITML", "LSML", "LogisticMetric", "MLKR", "SDML"}
# These treat each feature on its own, as do all that learn weights of features.
BY_FEATURE = {"AdaSORS", "SORS", "MDM", "Relief", "Simba", "SDML"}
# These measure features in their own units.
UNITLESS = {
    "BoostMetric",
    "Covariance",
    "DMLMJ",
    "GML",
    "ITML",
    "KISSME",
    "LDA",
    "LFDA",
    "LMNN",
    "MCML",
    "MDM",
    "MLKR",
    "MMC",
    "NCA",
    "NCMML",
    "PCA",
    "RCA",
    "Relief",
    "SCML",
    "XQDA",
}
# The number of features is in a bound of RDML's steps. SDML ends when its objective is within `tol`, of which the
# entries of the matrix are within the root.
BY_DIMENSION = {"RDML": 0.05, "SDML": 3e-5}

LEARNERS = [
    learner
    for learner in ALL
    if getattr(learner, "kernel", None) is None  # whose metric is not a matrix of features
    and not (isinstance(getattr(learner, "init", None), str) and learner.init == "random")
    and getattr(learner, "solver", None) != "vsgd"  # which draws pairs
]


class Relation(NamedTuple):
    """A metric of changed data, what it has to be, and how near, relative to the largest entry."""

    name: str
    got: np.ndarray
    expected: np.ndarray
    near: float


def learned(learner, X, y, **weights):
    """The matrix that a copy of the learner learns."""
    if isinstance(learner, BatchLearner):
        return dense(clone(learner).fit(X, y, **weights).metric_.matrix)
    comparisons = draw(learner, X, y, n=120)
    return dense(as_stream(learner, comparisons).fit(comparisons).metric_.matrix)


def relations(learner, X, y, rng):
    """Yield the relations that must hold for a learner on rows X with classes 0, 1, ... in y."""
    name, of_rows = type(learner).__name__, isinstance(learner, BatchLearner)
    n, d = X.shape
    features, rows = rng.permutation(d), rng.permutation(n)
    M = learned(learner, X, y)

    def relation(what, got, expected=M, near=1e-6):
        return Relation(what, got, expected, near)

    yield relation("features in another order", learned(learner, X[:, features], y), M[np.ix_(features, features)])
    if name != "MLKR":  # whose labels are numbers
        yield relation("names of classes", learned(learner, X, np.array(["ash", "elm", "fir", "oak", "yew"])[y]))
    if of_rows and name not in ORDERED and getattr(learner, "n_samples", None) is None:
        yield relation("rows in another order", learned(learner, X[rows], y[rows]))
    if of_rows and name not in OF_CLASSES:
        yield relation("other classes", learned(learner, X, (y + 1) % (y.max() + 1)))
    if rotates(learner):
        Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        # The descents of GML and LMNN end elsewhere within their tolerance, since they start from the features.
        near = 1e-2 if name in ("GML", "LMNN") else 1e-6
        yield relation("a rotation", Q.T @ learned(learner, X @ Q.T, y) @ Q, near=near)
    if name in UNITLESS:
        yield relation("another unit", 4.0 * learned(learner, 2.0 * X, y))
    if not isinstance(learner, SimilarityLearner):
        yield relation("another origin", learned(learner, X + 8.0 * rng.integers(-2, 3, size=d), y))
    # A constant other than zero is a feature of an inner product, and AROMA's steps depend on the number of features.
    if name != "AROMA":
        value = 0.0 if isinstance(learner, SimilarityLearner) else rng.choice([0.0, 0.1, 1e3])
        wider = learned(learner, np.insert(X, 0, value, axis=1), y)
        yield relation("a constant column", wider[1:, 1:], near=BY_DIMENSION.get(name, 1e-6))
    if isinstance(learner, WeightedLearner) and learner.get_params().get("shrinkage") != "auto":
        twice = learned(learner, np.vstack([X, X]), np.append(y, y), sample_weight=np.full(2 * n, 0.5))
        yield relation("rows twice at half the weight", twice)


def rotates(learner):
    """Whether a learner treats all directions alike."""
    params = learner.get_params()
    name = type(learner).__name__
    # All but GMML shrink covariances of standardised features.
    by_feature = params.get("diagonal") or params.get("covariance") == "diagonal"
    by_feature = by_feature or (params.get("shrinkage") and name != "GMML")
    # With few components there are several minima, and descents start from standardised features.
    several = params.get("n_components") is not None and (
        name in ("GML", "LMNN") or (name == "LogisticMetric" and params["prior"] == "covariance")
    )
    return not (by_feature or several or name in BY_FEATURE)
