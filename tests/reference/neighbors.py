"""Means over nearest neighbours in exact fractions."""

from __future__ import annotations

from fractions import Fraction


def slow_means(train, values, x, k, without=None):
    """Means of values over the k nearest rows, in fractions; rows at the last distance share what is left."""
    distances = {
        j: sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, row, strict=True))
        for j, row in enumerate(train.tolist())
        if j != without
    }
    last = sorted(distances.values())[k - 1]
    nearer = [j for j, distance in distances.items() if distance < last]
    tied = [j for j, distance in distances.items() if distance == last]
    share = Fraction(k - len(nearer), len(tied))
    return [
        (sum(Fraction(values[j][c]) for j in nearer) + share * sum(Fraction(values[j][c]) for j in tied)) / k
        for c in range(len(values[0]))
    ]
