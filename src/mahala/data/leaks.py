"""Find columns that give the label away, alone or together."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mahala.support.arrays import Array, FloatArray, IndexArray

# Columns that predict classes so well are suspect; so many rows show it.
_LEAK, _LEAK_ROWS, _LEAST_LEAK_ROWS = 0.98, 2_000, 30
# Several columns that separate so many rows, and predict so many that were left out, are suspect, too.
_SEPARATED = 0.995
# Rows for each leaf of a tree, which is enough for codes and intervals.
_ROWS_OF_LEAF = 10
# Remainders of whole numbers that are looked at: ids may end in the class.
_DIVISORS = (2, 3, 5, 10, 100)
# The largest share of the variance of numbers that a function of columns leaves, if they are such a function.
_UNEXPLAINED = 1e-3
# The most columns of which all pairs are looked at, those of a sum of numbers and of classes, and the sets of columns
# of which classes are predicted.
_MOST_PAIRED, _MOST_SUMMED, _MOST_TOGETHER, _TRIED = 40, 8, 5, 5
# The most sets of columns of few values, with so many rows for each combination of values.
_MOST_SETS, _ROWS_OF_CELL = 1_000, 5
# Rows for each column and each class but one, below which even kinds that differ by nature can be separated.
_ROWS_OF_WEIGHT = 30
# The largest share of mistakes by least squares of functions that are tried, and the most columns that are multiplied.
_MOST_MISTAKES, _MOST_MULTIPLIED = 0.25, 3
# Classes border on each other if one row in 20 is nearer to another class than this share of the usual row. Where all
# columns have few values, this share of the rows differs in one of them from a row of another class.
_NEAR, _NEXT = 0.18, 0.4


def possible_leaks(X: Any, labels: Array, groups: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of columns that alone nearly determine the class.

    A column is suspect if a decision tree of its features alone, or of the remainders of its whole numbers, has a
    cross-validated balanced accuracy of at least 98 %. Up to 2,000 rows are looked at.

    Parameters
    ----------
    X, labels : rows and their classes
    groups : the features of each column, by the name of the column
    """
    chosen, codes = _looked_at(labels)
    if codes.max(initial=0) < 1:
        return []
    tree = _tree(max(4 * (int(codes.max()) + 1), len(codes) // _ROWS_OF_LEAF))
    parts = ((name, X[np.ix_(chosen, np.asarray(features))]) for name, features in groups.items())
    return [name for name, rows in parts if _predicts(tree, _with_remainders(rows), codes, _LEAK)]


def joint_leak(X: Any, labels: Array, groups: Mapping[str, Sequence[int]], *, numbers: bool) -> list[str]:
    """Return the names of a few columns that together determine the label by a simple function, or none.

    A number is suspect if a weighted sum of columns, of their squares or of their logarithms, or a quadratic function
    of two columns and their absolute difference, leaves at most 0.1 % of its variance. Classes are suspect if a
    quadratic function, or a small tree, of up to five columns separates nearly all rows, predicts 98 % of rows that
    were left out, and if there is no gap between the classes. Up to 2,000 rows are looked at.

    Parameters
    ----------
    X, labels : rows, and their classes or numbers
    groups : the features of each column, by the name of the column

    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 60))
    >>> joint_leak(np.stack([a, b, c], axis=1), (a + c) / 2, {"a": [0], "b": [1], "c": [2]}, numbers=True)
    ['a', 'c']
    """
    chosen, codes = (_sample(labels), None) if numbers else _looked_at(labels)
    if len(chosen) < _LEAST_LEAK_ROWS:
        return []
    columns = {name: _column(X[np.ix_(chosen, np.asarray(features))]) for name, features in groups.items()}
    columns = {name: column for name, column in columns.items() if column.min() < column.max()}
    if len(columns) < 2:
        return []
    rows = np.stack(list(columns.values()), axis=1)
    together = _sum_or_pair(rows, labels[chosen]) if codes is None else _separating(rows, codes)
    return [list(columns)[at] for at in sorted(together)]


def _sample(labels: Array) -> IndexArray:
    return np.sort(np.random.default_rng(0).permutation(len(labels))[:_LEAK_ROWS])


def _looked_at(labels: Array) -> tuple[IndexArray, IndexArray]:
    """Return rows of classes that can be both trained and tested, and the codes of these classes."""
    chosen = _sample(labels)
    codes = np.unique(labels[chosen], return_inverse=True)[1]
    often = np.bincount(codes)[codes] > 2
    chosen, codes = chosen[often], np.unique(codes[often], return_inverse=True)[1]
    return (chosen, codes) if len(codes) >= _LEAST_LEAK_ROWS else (chosen[:0], codes[:0])


def _column(features: Array) -> FloatArray:
    """Return the numbers of a column, or codes of its categories."""
    first = np.asarray(features[:, 0], dtype=np.float64)
    if features.shape[1] == 1 or len(np.unique(first)) > 2:  # the second feature of numbers marks what is missing
        return first
    return np.unique(features, axis=0, return_inverse=True)[1].reshape(-1).astype(np.float64)


def _with_remainders(rows: Array) -> Array:
    """Return the features of a column, and remainders of whole numbers of which there are more than classes have."""
    first = rows[:, :1]
    if np.array_equal(first, np.rint(first)) and len(np.unique(first)) > _DIVISORS[-2]:
        return np.hstack([rows, first % np.array(_DIVISORS)])
    return rows


def _tree(leaves: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)


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
    """Return the columns of which numbers are a sum, as they are, squared or as logarithms, or a function of two."""
    views = [(rows, y), (np.square(rows), y), (np.square(rows), np.square(y))]
    positive = rows.min(axis=0) > 0.0
    if y.min() > 0.0:
        views.append((np.log(np.where(positive, rows, 1.0)), np.log(y)))
    for values, target in views[: 2 if y.min() < 0.0 else None]:
        if 1 < len(columns := _sum(values, target)) <= _MOST_SUMMED:
            return columns
    alone = [_unexplained(column[:, np.newaxis], y) <= _UNEXPLAINED for column in rows.T]
    for pair in _pairs(np.flatnonzero(~np.array(alone))):
        if _unexplained(_quadratic(rows[:, pair]), y) <= _UNEXPLAINED:
            return list(pair)
    return []


def _sum(rows: FloatArray, y: FloatArray) -> list[int]:
    """Return the columns of which numbers are a weighted sum, without those that it does not need."""
    columns = list(range(rows.shape[1]))
    if len(columns) >= len(y) // 5 or _unexplained(rows, y) > _UNEXPLAINED:
        return []
    while len(columns) > 1:  # leave out the least important column, as long as the others suffice
        least = int(np.abs(_weights(rows[:, columns], y)).argmin())
        others = columns[:least] + columns[least + 1 :]
        if _unexplained(rows[:, others], y) > _UNEXPLAINED:
            break
        columns = others
    return columns


def _pairs(columns: Sequence[int] | IndexArray) -> Iterator[tuple[int, ...]]:
    """Return all pairs of columns, or none of many columns."""
    return combinations(columns if len(columns) <= _MOST_PAIRED else (), 2)


def _separating(rows: FloatArray, codes: IndexArray) -> list[int]:
    """Return the columns of which a simple function separates the classes, without a gap between them."""
    tried = set[tuple[int, ...]]()
    for candidates in (_sets_of_values, _best_pairs, _by_weight, _by_tree):
        for columns in candidates(rows, codes):
            if columns not in tried and _is_function(rows[:, columns], codes):
                return _needed(rows, codes, columns)
            tried.add(columns)
    return []


def _needed(rows: FloatArray, codes: IndexArray, columns: tuple[int, ...]) -> list[int]:
    """Return the columns without those that the others do not need."""
    for column in columns:
        others = [other for other in columns if other != column]
        if len(others) > 1 and _is_function(rows[:, others], codes):
            return _needed(rows, codes, tuple(others))
    return list(columns)


def _sets_of_values(rows: FloatArray, codes: IndexArray) -> Iterator[tuple[int, ...]]:
    """Yield two or three columns of few values that nearly determine the class."""
    n, n_classes = len(codes), int(codes.max()) + 1
    values = [np.unique(column, return_inverse=True)[1] for column in rows.T]
    few = [at for at, column in enumerate(values) if column.max() < n // (2 * _ROWS_OF_CELL)]
    for size in (2, 3):
        for columns in combinations(few, size) if comb(len(few), size) <= _MOST_SETS else ():
            cells = np.ravel_multi_index([values[at] for at in columns], [n] * size)
            both, counts = np.unique(cells * n_classes + codes, return_counts=True)
            starts = np.flatnonzero(np.diff(both // n_classes, prepend=-1))
            pure = np.maximum.reduceat(counts, starts).sum() >= _SEPARATED * n
            if pure and n >= _ROWS_OF_CELL * len(starts):
                yield columns


def _best_pairs(rows: FloatArray, codes: IndexArray) -> list[tuple[int, ...]]:
    """Return the pairs of columns whose quadratic functions make the fewest mistakes."""
    mistakes = {pair: _mistakes(_quadratic(rows[:, pair]), codes) for pair in _pairs(range(rows.shape[1]))}
    best = sorted(mistakes, key=mistakes.__getitem__)[:_TRIED]
    return [pair for pair in best if mistakes[pair] <= _MOST_MISTAKES]


def _by_weight(rows: FloatArray, codes: IndexArray) -> Iterator[tuple[int, ...]]:
    """Yield sets of the columns that matter most in a weighted sum of columns and their squares, small ones first."""
    n, d = rows.shape
    if 2 * d >= n // 5:
        return
    one_hot = np.eye(int(codes.max()) + 1)[codes]
    values = np.hstack([_standardised(rows), _standardised(np.square(_standardised(rows)))])
    products, targets = values.T @ values / n, values.T @ one_hot / n
    columns, least = list(range(d)), list[int]()
    while columns:
        at = np.r_[columns, np.array(columns) + d]
        weights = np.linalg.solve(products[np.ix_(at, at)] + 1e-9 * np.eye(len(at)), targets[at])
        least.append(columns.pop(int(np.square(weights).sum(axis=1).reshape(2, -1).sum(axis=0).argmin())))
    for size in range(3, min(_MOST_TOGETHER, d) + 1):
        yield tuple(sorted(least[-size:]))


def _by_tree(rows: FloatArray, codes: IndexArray) -> Iterator[tuple[int, ...]]:
    """Yield sets of the columns that matter most in a small tree, small ones first."""
    importances = _tree(8 * (int(codes.max()) + 1)).fit(rows, codes).feature_importances_
    order = np.argsort(-importances, kind="stable")
    for size in range(2, min(_MOST_TOGETHER, len(order)) + 1):
        yield tuple(sorted(order[:size].tolist()))


def _is_function(rows: FloatArray, codes: IndexArray) -> bool:
    """Return whether columns separate classes that border on each other, and predict those of rows left out."""
    from sklearn.linear_model import LogisticRegression

    cells, counts = _cells(rows, codes)
    if len(codes) >= _ROWS_OF_CELL * len(counts):
        return _are_next(cells, counts) and _predicts(_tree(len(counts)), rows, codes, _SEPARATED)
    if len(codes) < _ROWS_OF_WEIGHT * rows.shape[1] * int(codes.max()):
        return False
    for functions in (rows, _quadratic(rows)) if rows.shape[1] <= _MOST_MULTIPLIED else (rows,):
        if _mistakes(functions, codes) > _MOST_MISTAKES:
            continue
        smooth, functions = LogisticRegression(C=1e6, max_iter=300), _standardised(functions)
        if _accuracy(codes, smooth.fit(functions, codes).predict(functions)) >= _SEPARATED:
            if not _touch(_margins(smooth.decision_function(functions), codes)):
                return False
            if _predicts(smooth, functions, codes, _SEPARATED):
                return True
    most = 4 * (int(codes.max()) + 1)
    if not _predicts(_tree(most), rows, codes, _SEPARATED):
        return False
    trees = (_tree(leaves).fit(rows, codes) for leaves in range(3, most + 1))
    return _touch(
        _to_thresholds(next(tree for tree in trees if _accuracy(codes, tree.predict(rows)) >= _SEPARATED), rows)
    )


def _cells(rows: FloatArray, codes: IndexArray) -> tuple[FloatArray, IndexArray]:
    """Return the different rows, and how many of each class equal each."""
    cells, at = np.unique(rows, axis=0, return_inverse=True)
    counts = np.zeros((len(cells), int(codes.max()) + 1), dtype=np.intp)
    np.add.at(counts, (at.reshape(-1), codes), 1)
    return cells, counts


def _are_next(cells: FloatArray, counts: IndexArray) -> bool:
    """Return whether many rows differ in one column only from rows of another class."""
    classes, beside = counts.argmax(axis=1), np.zeros(len(cells), dtype=bool)
    for column in range(cells.shape[1]):
        rest = np.unique(np.delete(cells, column, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        several = [len(np.unique(classes[rest == line])) > 1 for line in range(rest.max() + 1)]
        beside |= np.array(several)[rest]
    return bool(counts[beside].sum() >= _NEXT * counts.sum())


def _touch(margins: FloatArray) -> bool:
    """Return whether classes border on each other: where a threshold made them, some rows are very near to it.

    Kinds that differ by nature leave a gap, in which there are few rows.
    """
    near, middle = np.quantile(margins, (0.05, 0.5))
    return bool(near <= _NEAR * middle)


def _margins(scores: FloatArray, codes: IndexArray) -> FloatArray:
    """Return by how much the score of its class is higher than that of another class, for each row."""
    rows = np.arange(len(codes))
    scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


def _to_thresholds(tree: Any, rows: FloatArray) -> FloatArray:
    """Return the distance of each row to the nearest threshold on its way through a tree, in standard deviations."""
    columns, passed = tree.tree_.feature, tree.decision_path(rows).toarray().astype(bool) & (tree.tree_.feature >= 0)
    distances = np.abs(rows[:, columns] - tree.tree_.threshold) / rows[:, columns].std(axis=0)
    return np.asarray(np.where(passed, distances, np.inf).min(axis=1))


def _quadratic(rows: FloatArray) -> FloatArray:
    """Return columns, their squares and products, and of two columns their absolute difference."""
    values = _standardised(rows)
    products = [values[:, a] * values[:, b] for a in range(values.shape[1]) for b in range(a, values.shape[1])]
    difference = [np.abs(rows[:, 0] - rows[:, 1])] if rows.shape[1] == 2 else []
    return np.column_stack([values, *products, *difference])


def _standardised(rows: FloatArray) -> FloatArray:
    centered = rows - rows.mean(axis=0)
    deviations = centered.std(axis=0)
    scaled: FloatArray = centered / np.where(deviations > 0.0, deviations, 1.0)
    return scaled


def _weights(rows: FloatArray, y: FloatArray) -> FloatArray:
    """Return the weights of standardised columns in the sum that is nearest to numbers, around their mean."""
    weights: FloatArray = np.linalg.lstsq(_standardised(rows), y - y.mean(axis=0), rcond=None)[0]
    return weights


def _mistakes(rows: FloatArray, codes: IndexArray) -> float:
    """Return the share of rows whose class is not the one with the largest weighted sum of columns."""
    one_hot = np.eye(int(codes.max()) + 1)[codes]
    scores = one_hot.mean(axis=0) + _standardised(rows) @ _weights(rows, one_hot)
    return float(np.mean(scores.argmax(axis=1) != codes))


def _unexplained(rows: FloatArray, y: FloatArray) -> float:
    """Return the share of the variance of numbers that is left where a weighted sum of columns predicts them."""
    rest = y - y.mean() - _standardised(rows) @ _weights(rows, y)
    return float(rest @ rest / max(float(np.square(y - y.mean()).sum()), np.finfo(np.float64).tiny))
