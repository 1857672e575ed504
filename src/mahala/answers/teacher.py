"""Teacher: asks a person which of two items is more like a third one, and learns a metric from the answers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from mahala.answers.questions import candidates, usefulness
from mahala.batch.logistic.answers import Answers
from mahala.batch.logistic.penalty import choose_penalty
from mahala.comparisons import Triplets
from mahala.compiled.triplets.slopes import ascend
from mahala.judge import Verdict
from mahala.metric import MahalanobisMetric
from mahala.saved_estimator import SavedEstimator
from mahala.support.arrays import Arrays, FloatArray, IndexArray, RealArray, RowsLike
from mahala.support.limits import one_blas_thread
from mahala.support.locking import one_at_a_time
from mahala.support.model_files import ModelFileError, array_value, count_value, finite, header_value
from mahala.support.names import RowNames, index_of
from mahala.support.parameters import Seed, check_seed
from mahala.support.validation import check_indices, check_rows, is_sparse

# The temperature of the loss is this many times a typical margin.
SOFTNESS = 4.0
# The penalty is this share of a typical squared gradient of margins / temperature.
PENALTY = 0.4
# Answers between two revisions, questions to choose from after each, and random questions that show typical margins.
INTERVAL, POOL, SAMPLE = 10, 400, 2_000
# A revision takes at most so many passes over the answers, and steps that change at most so many numbers; after other
# answers there is one pass at most.
PASSES, NUMBERS_REVISED, NUMBERS = 10, 15_000_000, 200_000


class Teacher(SavedEstimator):
    """Ask a person which of two items is more like a third one, and learn a metric for all items from the answers.

    The metric stays near the Euclidean distance: Teacher minimises the objective of `mahala.LogisticMetric`,

        Σ log(1 + exp(-m / t)) + c ‖L - I‖²

    over the linear map L, where the margin m of an answer is the squared distance to the item that is less alike minus
    the other one. t is four times the median margin of random questions. c is 0.4 times the median of ‖∂m/∂L‖² / t² at
    L = I, so nothing depends on the units of X, and rows of more dimensions, in which any answer can be learned by
    heart, change less.

    `answer` learns from the answer at once, in well under a millisecond for 100 features. Every tenth answer
    revises what was learned from the earlier ones, and draws 400 random questions. `ask` returns the one with the
    largest |raw margin - learned margin| / |learned margin|: the metric has changed, and has no clear answer. Scale
    rows as you would for a search, such as embeddings to length 1.

    Parameters
    ----------
    X : dense rows of at least three items, of which not all are equal
    random_state : int, RandomState, Generator or None
    names : list of str or None, default=None
        The names of the items, which differ. Questions and answers then have names instead of row numbers. None is the
        index of a data frame of pandas if it holds text, else no names.

    Attributes
    ----------
    metric_ : MahalanobisMetric learned so far; the Euclidean distance before the first answer
    verdict_ : Verdict on its gain for items that were not learned from, from folds over items
    answers_ : Triplets, one for each answer
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, mahala
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> teacher = mahala.Teacher(X, random_state=0)
    >>> for _ in range(100):
    ...     query, a, b = teacher.ask()
    ...     nearer = min(a, b, key=lambda row: abs(X[row, 0] - X[query, 0]))  # a person who looks at the first feature
    ...     teacher.answer(query, a, b, nearer=nearer)
    >>> teacher.answers_
    <Triplets: 100 over X of shape (60, 5), float64>
    >>> weights = teacher.metric_.matrix.diagonal()
    >>> bool(weights[0] > 10 * weights[1:].max())
    True
    """

    def __init__(self, X: RowsLike, random_state: Seed = None, names: Iterable[Hashable] | None = None) -> None:
        self.X = _checked_items(X)
        self.random_state = random_state
        self._by_name = _checked_names(X, names)
        self.names = None if self._by_name is None else self._by_name.names
        self.n_features_in_ = self.X.shape[1]
        self._begin(int(check_seed(random_state).randint(2**31)), _span(self.X))

    def _begin(self, seed: int, span: FloatArray | None) -> None:
        """Start without answers, in the coordinates along the columns of `span`, or in those of X if it is None."""
        self._seed, self._span, self._rng = seed, span, np.random.default_rng(seed)
        rows = self.X.astype(np.float64)
        self._rows = rows if span is None else rows @ span
        questions = candidates(len(rows), SAMPLE, self._rng)
        near, far = (self._rows[questions[:, 0]] - self._rows[questions[:, column]] for column in (1, 2))
        margins = np.abs(_margins(self._rows, questions))
        self._typical = float(np.median(margins) or margins.mean() or 1.0)
        far_far, near_near, far_near = (
            np.einsum("ij,ij->i", *two) ** 2 for two in ((far, far), (near, near), (far, near))
        )
        gradient = 4.0 * float(np.median(far_far + near_near - 2.0 * far_near)) / (SOFTNESS * self._typical) ** 2
        self._penalty = PENALTY * (gradient or 1.0)
        self._model = np.eye(self._rows.shape[1])  # L, which is symmetric
        self._answers, self._slopes, self._next = np.empty((0, 3), dtype=np.intp), np.empty(0), 0
        self._closed: set[tuple[int, int, int]] = set()  # questions that are not asked again
        self._queue: list[list[int]] = []  # questions, the best one last
        self._forget()
        self._ascend(0, 0)  # compiled now, so that the first answer does not wait

    def _forget(self) -> None:
        self._metric: MahalanobisMetric | None = None
        self._verdict: Verdict | None = None

    @one_at_a_time
    def ask(self) -> tuple[Any, Any, Any]:
        """Return a question as row numbers, or as names, (query, a, b): is the query more like a or like b?

        It is the same one until it is answered or skipped. ValueError is raised if all questions were.
        """
        n = len(self.X)
        while True:
            while self._queue:
                query, a, b = self._queue[-1]
                if _key(query, a, b) not in self._closed:
                    names = self.names
                    return (query, a, b) if names is None else (names[query], names[a], names[b])
                self._queue.pop()
            if len(self._closed) >= n * (n - 1) * (n - 2) // 2:
                raise ValueError(f"no question is left: all that X has with its {n} rows were answered or skipped")
            questions = candidates(n, POOL, self._rng)
            order = np.argsort(usefulness(*self._both_margins(questions), self._typical), kind="stable")
            self._queue = questions[order].tolist()

    @one_at_a_time
    def margins(self, questions: Iterable[Sequence[Hashable]]) -> tuple[FloatArray, FloatArray]:
        """Return by how much each query is nearer to a than to b, under the Euclidean and under the learned metric.

        Parameters
        ----------
        questions : rows (query, a, b) of row numbers or names

        Returns
        -------
        two arrays of differences of squared distances: positive if a is nearer
        """
        rows = np.asarray(questions if self.names is None else [self._rows_of(*items) for items in questions])
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise ValueError(f"questions must be rows of three row numbers, got an array of shape {rows.shape}")
        check_indices(rows.ravel(), len(self.X), "questions")
        return self._both_margins(rows)

    def _both_margins(self, questions: IndexArray) -> tuple[FloatArray, FloatArray]:
        rows, numbers = np.unique(questions, return_inverse=True)
        with one_blas_thread():
            learned = self._rows[rows] @ self._model
        return _margins(self._rows, questions), _margins(learned, numbers.reshape(questions.shape))

    @one_at_a_time
    def answer(self, query: Hashable, a: Hashable, b: Hashable, nearer: Hashable) -> None:
        """Learn that item `query` is more like item `nearer`, a or b, than like the other one.

        Any three items may be answered about, also again; every answer counts.

        Parameters
        ----------
        query, a, b, nearer : row numbers, or names if the items have names
        """
        anchor, first, second = self._question(*self._rows_of(query, a, b))
        if nearer not in (a, b):
            raise ValueError(f"nearer must be a or b, that is {a} or {b}, got {nearer!r}")
        answer = (anchor, first, second) if nearer == a else (anchor, second, first)
        self._answers = np.append(self._answers, [answer], axis=0)
        self._slopes = np.append(self._slopes, 0.0)
        self._closed.add(_key(anchor, first, second))
        self._forget()
        n, size = len(self._answers), self._model.size
        self._ascend(n - 1, 1)
        n_steps = min(n, NUMBERS // size) if n % INTERVAL else min(PASSES * n, NUMBERS_REVISED // size + 1)
        self._ascend(self._next, n_steps)
        self._next = (self._next + n_steps) % n
        if n % INTERVAL == 0:
            self._queue = []

    def _ascend(self, first: int, n_steps: int) -> None:
        state = self._rows, self._answers, self._slopes, self._model
        ascend(*state, SOFTNESS * self._typical, self._penalty, first, n_steps)

    @one_at_a_time
    def skip(self, query: Hashable, a: Hashable, b: Hashable) -> None:
        """Leave out a question: it is not asked again."""
        self._closed.add(_key(*self._question(*self._rows_of(query, a, b))))

    @property
    @one_at_a_time
    def metric_(self) -> MahalanobisMetric:
        """The metric learned so far."""
        if self._metric is None:
            change = self._model @ self._model - np.eye(len(self._model))
            if self._span is not None:
                change = self._span @ change @ self._span.T
            origin = {"learner": type(self).__name__, "answers": len(self._answers)}
            self._metric = MahalanobisMetric(np.eye(len(change)) + 0.5 * (change + change.T), origin=origin)
        return self._metric

    @property
    @one_at_a_time
    def verdict_(self) -> Verdict:
        """Whether what was learned helps for items that were not learned from; it is computed when it is read.

        Folds over items learn with several penalties, as `mahala.LogisticMetric` does with lam="auto". The questions
        that were asked are hard on purpose, so the gain for them is smaller than for random ones.
        """
        if not len(self._answers):
            return Verdict("too early to tell", 0.0, 0.0, 0.0, 0, 1.0, "answers predicted", "items")
        if self._verdict is None:
            answers, start = Answers.of(Triplets(self._rows, *self._answers.T)), np.eye(len(self._model))
            rng = np.random.default_rng(int(check_seed(self._seed).randint(2**31)))  # the folds of a LogisticMetric
            verdict = choose_penalty(answers, start, 0.0, rng).verdict
            # The folds' own choice of a metric is not what `metric_` is.
            self._verdict = verdict._replace(text=verdict.sentence.removesuffix(" The prior is used."))
        return self._verdict

    @property
    @one_at_a_time
    def answers_(self) -> Triplets:
        """The answers in their order: each query is nearer to the positive than to the negative."""
        return Triplets(self.X, *self._answers.T)

    def _rows_of(self, *items: Hashable) -> list[Any]:
        """Return the row numbers of items by their names, if they have names."""
        return list(items) if self._by_name is None else [self._by_name.row(str(name)) for name in items]

    def _question(self, *rows: Any) -> tuple[int, int, int]:
        """Return three checked row numbers."""
        for name, row in zip(("query", "a", "b"), rows, strict=True):
            if not isinstance(row, Integral) or isinstance(row, bool) or not 0 <= int(row) < len(self.X):
                raise ValueError(f"{name} must be a row number from 0 to {len(self.X) - 1}, got {row!r}")
        query, a, b = map(int, rows)
        if len({query, a, b}) < 3:
            raise ValueError(f"query, a and b must be three different rows, got {query}, {a} and {b}")
        return query, a, b

    def _get_state(self) -> tuple[dict[str, object], Arrays]:
        header: dict[str, object] = {"seed": self._seed, "rng": self._rng.bit_generator.state, "next": self._next}
        arrays = {"answers": self._answers, "slopes": self._slopes, "map": self._model}
        for name, questions in (("closed", sorted(self._closed)), ("queue", self._queue)):
            arrays[name] = np.array(questions, dtype=np.int64).reshape(-1, 3)
        return header, arrays if self._span is None else arrays | {"span": self._span}

    def _set_state(self, header: dict[str, object], arrays: Arrays) -> None:
        span = None
        if len(self.X) <= self.n_features_in_:
            span = finite(array_value(arrays, "span", np.float64, (self.n_features_in_, None)), "span")
        self._begin(count_value(header, "seed"), span)
        self._rng.bit_generator.state = header_value(header, "rng", dict)
        answers, closed, queue = (
            array_value(arrays, name, np.int64, (None, 3)) for name in ("answers", "closed", "queue")
        )
        for rows in np.concatenate([answers, closed, queue]).tolist():
            self._question(*rows)
        self._answers, self._queue = answers.astype(np.intp), queue.tolist()
        self._closed = set(map(tuple, closed.tolist()))
        self._slopes = finite(array_value(arrays, "slopes", np.float64, (len(answers),)), "slopes").copy()
        if len(answers) and not 0.0 <= self._slopes.min() <= self._slopes.max() <= 1.0:
            raise ModelFileError("array 'slopes' should hold numbers from 0 to 1")
        self._model = finite(array_value(arrays, "map", np.float64, self._model.shape), "map").copy()
        self._next = count_value(header, "next")


def _checked_items(X: RowsLike) -> RealArray:
    rows = check_rows(X)
    if is_sparse(rows):
        raise TypeError("X must hold dense rows, got a sparse matrix: reduce it first, such as by TruncatedSVD")
    if len(rows) < 3:
        raise ValueError(f"X must have at least three rows, for a question about three items, got {len(rows)}")
    if np.ptp(rows, axis=0).max() == 0.0:
        raise ValueError("X must have rows that differ, but all are equal")
    return np.asarray(rows, dtype=np.float32 if rows.dtype in (np.float16, np.float32) else np.float64)


def _checked_names(X: RowsLike, names: Iterable[Hashable] | None) -> RowNames | None:
    """Return the names of items as text, or None if they have no names."""
    index = index_of(X)
    if names is None and (index is None or not all(isinstance(name, str) for name in index)):
        return None
    checked = RowNames.of(X, map(str, index or () if names is None else names))
    checked.check_distinct()
    return checked


def _span(X: RealArray) -> FloatArray | None:
    """Return orthonormal columns that span the differences of rows, or None if rows have fewer features."""
    if len(X) > X.shape[1]:
        return None
    rows = X.astype(np.float64)
    with one_blas_thread():
        _, lengths, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return np.ascontiguousarray(axes[lengths > max(X.shape) * np.finfo(np.float64).eps * lengths[0]].T)


def _margins(rows: FloatArray, questions: IndexArray) -> FloatArray:
    """Return by how much each query is nearer to its first item than to its second one, in squared distances."""
    query, first, second = (rows[column] for column in questions.T)
    near, far = query - first, query - second
    return np.asarray(np.einsum("ij,ij->i", far, far) - np.einsum("ij,ij->i", near, near))


def _key(query: int, a: int, b: int) -> tuple[int, int, int]:
    return (query, a, b) if a < b else (query, b, a)
