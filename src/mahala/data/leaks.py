"""Find columns that give the label away, alone or together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mahala.support.arrays import Array, FloatArray, IndexArray

# Columns that predict classes so well are suspect; so many rows show it.
_LEAK, _LEAK_ROWS, _LEAST_LEAK_ROWS = 0.98, 2_000, 30
# Two columns that separate so many rows, and predict so many that were left out, are suspect, too.
_SEPARATED = 0.995
# The largest share of the variance of numbers that a function of columns leaves, if they are such a function.
_UNEXPLAINED = 1e-3
# The most columns of which all pairs are looked at, the most of a sum, and the pairs of which classes are predicted.
_MOST_PAIRED, _MOST_SUMMED, _TRIED = 40, 8, 5
# The largest share of mistakes by least squares of a pair that is tried.
_MOST_MISTAKES = 0.25
# Classes border on each other if one row in 20 is nearer to another class than this share of the usual row.
_NEAR = 0.2


def possible_leaks(X: Any, labels: Array, groups: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of columns that alone nearly determine the class.

    A column is suspect if a small decision tree of its features alone has a cross-validated balanced accuracy of at
    least 98 %. Up to 2,000 rows are looked at.

    Parameters
    ----------
    X, labels : rows and their classes
    groups : the features of each column, by the name of the column
    """
    from sklearn.tree import DecisionTreeClassifier

    chosen, codes = _looked_at(labels)
    n_classes = codes.max(initial=0) + 1
    if n_classes < 2:
        return []
    tree = DecisionTreeClassifier(max_leaf_nodes=4 * n_classes, random_state=0)
    return [
        name
        for name, features in groups.items()
        if _predicts(tree, X[np.ix_(chosen, np.asarray(features))], codes, _LEAK)
    ]


def joint_leak(X: Any, labels: Array, groups: Mapping[str, Sequence[int]], *, numbers: bool) -> list[str]:
    """Return the names of a few columns that together determine the label by a simple function, or none.

    A number is suspect if a weighted sum of columns, or a quadratic function of two columns and their absolute
    difference, or their product or ratio to some powers, leaves at most 0.1 % of its variance. Classes are suspect if
    such a quadratic function, or a small tree, of two columns separates nearly all rows, predicts 98 % of rows that
    were left out, and if there is no gap between the classes. Up to 2,000 rows are looked at.

    Parameters
    ----------
    X, labels : rows, and their classes or numbers
    groups : the features of each column, by the name of the column; those of one feature are looked at

    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 60))
    >>> joint_leak(np.stack([a, b, c], axis=1), (a + c) / 2, {"a": [0], "b": [1], "c": [2]}, numbers=True)
    ['a', 'c']
    """
    chosen, codes = (_sample(labels), None) if numbers else _looked_at(labels)
    if len(chosen) < _LEAST_LEAK_ROWS:
        return []
    names = [name for name, features in groups.items() if len(features) == 1]
    features = np.array([groups[name][0] for name in names], dtype=np.intp)
    rows = np.asarray(X[np.ix_(chosen, features)], dtype=np.float64)
    varied = rows.std(axis=0) > 0.0
    names, rows = [name for name, varies in zip(names, varied, strict=True) if varies], rows[:, varied]
    found = _sum_or_pair(rows, labels[chosen]) if codes is None else _separating_pair(rows, codes)
    return [names[column] for column in found]


def _sample(labels: Array) -> IndexArray:
    return np.sort(np.random.default_rng(0).permutation(len(labels))[:_LEAK_ROWS])


def _looked_at(labels: Array) -> tuple[IndexArray, IndexArray]:
    """Return rows of classes that can be both trained and tested, and the codes of these classes."""
    chosen = _sample(labels)
    codes = np.unique(labels[chosen], return_inverse=True)[1]
    often = np.bincount(codes)[codes] > 2
    chosen, codes = chosen[often], np.unique(codes[often], return_inverse=True)[1]
    return (chosen, codes) if len(codes) >= _LEAST_LEAK_ROWS else (chosen[:0], codes[:0])


def _predicts(model: Any, rows: Array, codes: IndexArray, fitted: float) -> bool:
    """Return whether the balanced accuracy of a model is high on its own rows, and on rows that were left out."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    if _accuracy(codes, model.fit(rows, codes).predict(rows)) < fitted:
        return False
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return _accuracy(codes, cross_val_predict(model, rows, codes, cv=folds)) >= _LEAK


def _accuracy(codes: IndexArray, predicted: Array) -> float:
    """Return the balanced accuracy; scikit-learn's takes longer than a tree."""
    return float(np.mean(np.bincount(codes, predicted == codes) / np.bincount(codes)))


def _sum_or_pair(rows: FloatArray, y: FloatArray) -> list[int]:
    """Return the columns of which numbers are a weighted sum, or a function of two."""
    columns = list(range(rows.shape[1]))
    if len(columns) < len(y) // 5 and _unexplained(rows, y) <= _UNEXPLAINED:
        while len(columns) > 1:  # leave out the least important column, as long as the others suffice
            least = int(np.abs(_weights(rows[:, columns], y)).argmin())
            others = columns[:least] + columns[least + 1 :]
            if _unexplained(rows[:, others], y) > _UNEXPLAINED:
                break
            columns = others
        if 1 < len(columns) <= _MOST_SUMMED:
            return columns
    alone = [_unexplained(column[:, np.newaxis], y) <= _UNEXPLAINED for column in rows.T]
    for pair in _pairs(np.flatnonzero(~np.array(alone))):
        own = rows[:, pair]
        powers = min(own.min(), y.min()) > 0.0
        if (
            _unexplained(_quadratic(own), y) <= _UNEXPLAINED
            or (y.min() >= 0.0 and _unexplained(_quadratic(own), y, np.square, np.sqrt) <= _UNEXPLAINED)
            or (powers and _unexplained(np.log(own), y, np.log, np.exp) <= _UNEXPLAINED)
        ):
            return list(pair)
    return []


def _pairs(columns: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return all pairs of columns, or none of many columns."""
    columns = list(columns)
    return combinations(columns if len(columns) <= _MOST_PAIRED else (), 2)


def _separating_pair(rows: FloatArray, codes: IndexArray) -> list[int]:
    """Return the two columns of which a simple function separates the classes, without a gap between them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    one_hot = np.eye(codes.max() + 1)[codes]
    smooth = LogisticRegression(C=1e6, max_iter=300)
    boxes = DecisionTreeClassifier(max_leaf_nodes=4 * one_hot.shape[1], random_state=0)

    def mistakes(pair: tuple[int, int]) -> float:
        functions = _quadratic(rows[:, pair])
        scores = one_hot.mean(axis=0) + _standardised(functions) @ _weights(functions, one_hot)
        return float(np.mean(scores.argmax(axis=1) != codes))

    by_pair = {pair: mistakes(pair) for pair in _pairs(range(rows.shape[1]))}
    for pair in sorted(by_pair, key=by_pair.__getitem__)[:_TRIED]:
        if by_pair[pair] > _MOST_MISTAKES:
            break
        functions = _standardised(_quadratic(rows[:, pair]))
        if _accuracy(codes, smooth.fit(functions, codes).predict(functions)) >= _SEPARATED:
            if _touch(smooth.decision_function(functions), codes) and _predicts(smooth, functions, codes, _SEPARATED):
                return list(pair)
        elif _predicts(boxes, rows[:, pair], codes, _SEPARATED):
            return list(pair)
    return []


def _touch(scores: FloatArray, codes: IndexArray) -> bool:
    """Return whether classes border on each other: where a threshold made them, some rows are very near to it.

    Kinds that differ by nature leave a gap, in which there are few rows.
    """
    rows = np.arange(len(codes))
    scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    others = scores.copy()
    others[rows, codes] = -np.inf
    near, middle = np.quantile(scores[rows, codes] - others.max(axis=1), (0.05, 0.5))
    return bool(near <= _NEAR * middle)


def _quadratic(pair: FloatArray) -> FloatArray:
    """Return two columns, their squares, their product and their absolute difference."""
    a, b = _standardised(pair).T
    return np.column_stack([a, b, a * a, a * b, b * b, np.abs(pair[:, 0] - pair[:, 1])])


def _standardised(rows: FloatArray) -> FloatArray:
    centered = rows - rows.mean(axis=0)
    deviations = centered.std(axis=0)
    scaled: FloatArray = centered / np.where(deviations > 0.0, deviations, 1.0)
    return scaled


def _weights(rows: FloatArray, y: FloatArray) -> FloatArray:
    """Return the weights of standardised columns in the sum that is nearest to numbers, around their mean."""
    weights: FloatArray = np.linalg.lstsq(_standardised(rows), y - y.mean(axis=0), rcond=None)[0]
    return weights


def _unexplained(
    rows: FloatArray,
    y: FloatArray,
    function: Callable[[FloatArray], FloatArray] = np.positive,
    inverse: Callable[[FloatArray], FloatArray] = np.positive,
) -> float:
    """Return the share of the variance of numbers that is left where weighted sums of columns predict a function."""
    values = function(y)
    predicted = values.mean() + _standardised(rows) @ _weights(rows, values)
    rest = y - inverse(np.maximum(predicted, 0.0) if inverse is np.sqrt else predicted)
    return float(rest @ rest / max(float(np.square(y - y.mean()).sum()), np.finfo(np.float64).tiny))
