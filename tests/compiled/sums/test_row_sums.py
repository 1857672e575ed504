import numpy as np
import pytest
from sklearn.datasets import load_digits

from mahala.batch.triplets import target_neighbors
from mahala.compiled.sums.pair_sums import sum_between
from mahala.compiled.sums.row_sums import between_of_rows, hinges_of_rows_share, softmax_of_rows, softmax_pull_of_rows
from mahala.compiled.sums.softmax_sums import sum_softmax
from mahala.engine.hinges import RowHinges, squared_distances

X, Y = load_digits(return_X_y=True)
X, Y = X[:200, 2:20], Y[:200]
SHARES = [slice(0, 1), slice(1, 90), slice(90, 200)]
KINDS = [np.float64, np.float32]


def rounding(Z):
    """What the rounding of squared distances, which are differences of squared norms, may add to a sum of them."""
    return len(Z) * float(np.finfo(Z.dtype).eps) * max(1.0, float(np.square(Z).sum(axis=1).max()))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("scale", [0.01, 0.1, 0.5])
def test_shares_of_the_softmax_sum_are_the_whole(scale, dtype):
    Z = ((X - X.mean(axis=0)) * scale).astype(dtype)
    tol = rounding(Z)
    logs, hits = (np.concatenate(part) for part in zip(*(softmax_of_rows(Z, Y, rows) for rows in SHARES), strict=True))
    squared = np.square(Z[:, None] - Z[None]).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    np.testing.assert_allclose(np.exp(logs[:, None] - squared).sum(axis=1), 1.0, rtol=tol)
    total, pull = sum_softmax(Z, Y)
    assert hits.sum(dtype=np.float64) == pytest.approx(total, rel=tol)
    found = np.concatenate([softmax_pull_of_rows(Z, Y, rows, logs, hits) for rows in SHARES])
    np.testing.assert_allclose(found, pull, rtol=0.0, atol=tol * np.abs(pull).max())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("cutoff", [0.5, 2.0, np.inf])
def test_shares_of_the_sum_between_classes_are_the_whole(cutoff, dtype):
    Z = (X * 0.05).astype(dtype)
    tol = rounding(Z)
    coefficients = 1.0, -2.0, 1.0
    total, pull = sum_between(Z, Y, coefficients, cutoff)
    shares = [between_of_rows(Z, Y, rows, coefficients, cutoff) for rows in SHARES]
    assert sum(value for value, _ in shares) == pytest.approx(total, rel=tol)
    found = np.concatenate([own for _, own in shares])
    np.testing.assert_allclose(found, pull, rtol=0.0, atol=tol * max(np.abs(pull).max(), 1.0))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("scale", [0.02, 0.2])
def test_shares_of_hinges_are_the_whole(scale, dtype):
    Z = (X * scale).astype(dtype)
    tol = rounding(Z)
    edges, ends = target_neighbors(Z, Y, 2)
    squared = squared_distances(Z, *edges)
    radius = np.full(len(Z), -np.inf)
    np.maximum.at(radius, edges[0], squared + 1.01)
    smooth = plain = 0.0
    pulls, weights = [], np.full(len(squared), 0.3)
    for rows in SHARES:
        own = weights[ends[rows.start] : ends[rows.stop]]
        share = hinges_of_rows_share(Z, Y, rows, ends, squared, radius, 0.7, 0.01, own)
        smooth, plain = smooth + share[0], plain + share[1]
        pulls.append(share[2])
    expected = RowHinges(Y, edges, ends, 0.7)(Z, 0.01)
    near = 0.3 * squared.sum()
    assert near + 0.7 * smooth == pytest.approx(expected[0], rel=tol)
    assert near + 0.7 * plain == pytest.approx(expected[1], rel=tol)
    pull = np.concatenate(pulls).astype(np.float64)
    moves = weights[:, None] * (Z[edges[0]] - Z[edges[1]])
    np.add.at(pull, edges[0], moves)
    np.add.at(pull, edges[1], -moves)
    np.testing.assert_allclose(pull, expected[2], rtol=0.0, atol=tol * np.abs(expected[2]).max())
