"""river: classification of a stream by neighbours under a metric that is learned from the same stream."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

try:
    from river.base import Classifier
except ImportError as error:
    raise ImportError("mahala.river needs river: pip install 'mahala[river]'") from error

from mahala.comparisons import Pairs
from mahala.metric import MahalanobisMetric, Metric
from mahala.online.oasis import OASIS
from mahala.online.online_learner import OnlineLearner
from mahala.online.passive_aggressive import PA
from mahala.support.arrays import FloatArray
from mahala.support.parameters import Count, check_value

Features = dict[Hashable, float]
Label = Hashable


class MetricClassifier(Classifier):
    """Nearest neighbours of the last rows, under a metric that an online learner learns from the same stream.

    Each row is compared with rows of the window: a learner from pairs gets one of its class as similar and one of
    another class as dissimilar, a learner from triplets both as one triplet.

    A feature that a row does not have counts as 0. When a feature appears that no row had, the learner starts again
    from the rows of the window. Scale features first, for example with `preprocessing.StandardScaler`.

    Parameters
    ----------
    learner : online learner or None, default=None
        Such as `mahala.PA` or `mahala.OASIS`. It stays as it is: a copy learns. None is
        `PA(C=0.01, init="identity")`, which starts from the Euclidean distance.
    n_neighbors : int, default=5
        The number of nearest rows that vote.
    window_size : int, default=200
        The number of last rows that are compared, and vote.
    n_partners : int, default=1
        How many times each row is compared with others.
    unit_rows : bool, default=False
        Whether rows are divided by their lengths, which learners of similarities such as `mahala.OASIS` need.
    seed : int or None, default=None
        Of the choice of rows to compare.

    Attributes
    ----------
    metric_ : Metric or None, the metric as it is now; None as long as no step has changed it

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> model = preprocessing.StandardScaler() | MetricClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 87.83%
    """

    def __init__(
        self,
        learner: OnlineLearner | None = None,
        n_neighbors: int = 5,
        window_size: int = 200,
        n_partners: int = 1,
        unit_rows: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(learner, OnlineLearner | None):
            raise TypeError(f"learner must be an online learner, such as mahala.PA(), got {type(learner).__name__}")
        for name, value in (("n_neighbors", n_neighbors), ("window_size", window_size), ("n_partners", n_partners)):
            check_value(value, name, Count)
        self.learner = learner
        self.n_neighbors = n_neighbors
        self.window_size = window_size
        self.n_partners = n_partners
        self.unit_rows = unit_rows
        self.seed = seed
        self._rng = random.Random(seed)
        self._columns: dict[Hashable, int] = {}  # of the features
        self._labels: dict[Label, None] = {}  # all that were seen, in their order
        self._window: deque[tuple[FloatArray, Label]] = deque(maxlen=window_size)
        self._stream = self._new_stream()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, object]]:
        yield {"learner": PA(), "window_size": 50}
        yield {"learner": OASIS(), "window_size": 50, "n_partners": 2, "unit_rows": True}

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def metric_(self) -> Metric | None:
        """The metric as it is now, with the names of features; None as long as no step has changed it."""
        metric = self._learned()
        return None if metric is None else replace(metric, feature_names=list(map(str, self._columns)))

    def learn_one(self, x: Features, y: Label) -> None:
        """Compare a row with rows of the window, learn from that, and add it to the window."""
        if new := sorted(x.keys() - self._columns.keys(), key=str):
            self._columns |= {name: at for at, name in enumerate(new, len(self._columns))}
            self._start_again(len(new))
        row = self._row(x)
        self._compare(row, y)
        self._window.append((row, y))
        self._labels[y] = None

    def predict_proba_one(self, x: Features, **options: object) -> dict[Label, float]:
        """Return the share of each label among the nearest rows of the window; an empty dictionary before the first."""
        if not self._window:
            return {}
        rows = np.array([row for row, _ in self._window])
        k = min(self.n_neighbors, len(rows))
        metric = self._learned() or MahalanobisMetric.euclidean(len(self._columns))
        votes = Counter(self._window[at][1] for at in metric.rank(self._row(x), rows, k))
        return {label: votes[label] / k for label in self._labels}

    def _learned(self) -> Metric | None:
        return self._stream.metric_ if getattr(self._stream, "n_updates_", 0) else None

    def _new_stream(self) -> OnlineLearner:
        return PA(C=0.01, init="identity", record=0) if self.learner is None else clone(self.learner)

    def _start_again(self, n_new: int) -> None:
        """Learn anew from the window, whose rows get features of 0."""
        rows, self._stream = list(self._window), self._new_stream()
        self._window.clear()
        for row, y in rows:
            self._compare(np.pad(row, (0, n_new)), y)
            self._window.append((np.pad(row, (0, n_new)), y))

    def _row(self, x: Features) -> FloatArray:
        """Return the values of known features in the order of their columns."""
        row = np.zeros(len(self._columns))
        for name, value in x.items():
            if name in self._columns:
                try:
                    row[self._columns[name]] = value
                except (TypeError, ValueError):
                    advice = "encode it first, for example with preprocessing.OneHotEncoder"
                    raise ValueError(f"feature {name!r} must be a number, got {value!r}: {advice}") from None
        length = np.linalg.norm(row)
        return row / length if self.unit_rows and length > 0.0 else row

    def _compare(self, row: FloatArray, y: Label) -> None:
        """Learn from comparisons of a row with others of the window, one of its class and one of another."""
        same = [other for other, label in self._window if label == y]
        others = [other for other, label in self._window if label != y]
        stream: Any = self._stream
        for _ in range(self.n_partners):
            if stream._learns_from is Pairs:
                for rows, similar in ((same, True), (others, False)):
                    if rows:
                        stream.learn_one(row, self._rng.choice(rows), similar)
            elif same and others:
                stream.learn_one(row, self._rng.choice(same), self._rng.choice(others))
