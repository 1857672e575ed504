"""Look at labels before they are learned: classes or numbers, and columns that give them away."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.support.parameters import WholeNumber, check_value

# Numbers with more different values than this, in this share of the rows, are no classes.
_MOST_CLASSES, _SHARE = 20, 0.1
# Columns that alone predict classes so well are suspect; so many rows show it.
_LEAK, _LEAK_ROWS, _LEAST_LEAK_ROWS = 0.98, 2_000, 30


def is_continuous(labels: NDArray[Any]) -> bool:
    """Return whether labels are numbers to predict, not classes.

    >>> is_continuous(np.linspace(0.0, 1.0, 50)), is_continuous(np.arange(50) % 26)
    (True, False)
    """
    if labels.dtype.kind not in "iuf":
        return False
    values, counts = np.unique(labels, return_counts=True)
    n_values = len(values)
    if counts.min() > 1 and np.array_equal(values - values[0], np.arange(n_values)) and values[0] in (0, 1):
        return False  # codes of classes
    whole = labels.dtype.kind != "f" or bool((labels == np.rint(labels)).all())
    return n_values > (2 * _MOST_CLASSES if whole else _MOST_CLASSES) and n_values > _SHARE * len(labels)


def binned(labels: NDArray[Any], n_bins: int) -> NDArray[Any]:
    """Return the classes of numbers in up to `n_bins` ranges with about the same number of rows, as text.

    >>> binned(np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    ['up to 2.5', 'up to 2.5', 'above 2.5', 'above 2.5']
    """
    check_value(n_bins, "bins", WholeNumber)
    if n_bins < 2:
        raise ValueError(f"bins must be at least 2, got {n_bins}")
    if labels.dtype.kind not in "iuf":
        raise ValueError(f"bins need labels that are numbers, got {labels[0]!r}")
    edges = np.unique(np.quantile(labels, np.arange(1, n_bins) / n_bins))
    edges = edges[edges < labels.max()]
    if len(edges) == 0:
        raise ValueError(f"the labels cannot be divided into {n_bins} bins: most of them are {np.median(labels):g}")
    names = [f"up to {edges[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(edges))]
    return np.array([*names, f"above {edges[-1]:g}"], dtype=object)[np.searchsorted(edges, labels)]


def possible_leaks(X: Any, labels: NDArray[Any], groups: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of columns that alone nearly determine the class.

    A column is suspect if a small decision tree of its features alone has a cross-validated balanced accuracy of at
    least 98 %. Up to 2,000 rows are looked at.

    Parameters
    ----------
    X, labels : rows and their classes
    groups : the features of each column, by the name of the column
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    chosen = np.sort(np.random.default_rng(0).permutation(len(labels))[:_LEAK_ROWS])
    codes = np.unique(labels[chosen], return_inverse=True)[1]
    # Classes of single rows cannot be both trained and tested.
    often = np.bincount(codes)[codes] > 2
    chosen, codes = chosen[often], np.unique(codes[often], return_inverse=True)[1]
    counts = np.bincount(codes)
    n_classes = len(counts)
    if n_classes < 2 or len(codes) < _LEAST_LEAK_ROWS:
        return []

    def predicts(predicted: NDArray[Any]) -> bool:
        # scikit-learn's balanced accuracy takes longer than the tree.
        return bool(np.mean(np.bincount(codes, predicted == codes, n_classes) / counts) >= _LEAK)

    suspects = []
    tree = DecisionTreeClassifier(max_leaf_nodes=4 * n_classes, random_state=0)
    for name, features in groups.items():
        rows = X[np.ix_(chosen, np.asarray(features))]
        if not predicts(tree.fit(rows, codes).predict(rows)):
            continue
        if predicts(cross_val_predict(tree, rows, codes, cv=StratifiedKFold(3, shuffle=True, random_state=0))):
            suspects.append(name)
    return suspects
