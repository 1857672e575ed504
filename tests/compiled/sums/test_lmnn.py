from __future__ import annotations

import itertools

import numpy as np
import pytest

from mahala.compiled.sums import lmnn
from mahala.compiled.sums.lmnn import add_pull, find_near, hinges_of_rows, hinges_of_triplets, squared_distances
from reference import lmnn as reference


@pytest.fixture(autouse=True, scope="module", params=[0, lmnn.FEW_PAIRS], ids=["compiled", "few pairs"])
def _both_ways(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lmnn, "FEW_PAIRS", request.param)
        yield


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    Z, codes = rng.normal(size=(25, 3)), rng.integers(0, 3, size=25)
    return Z, codes, reference.targets(Z, codes, 2)


def test_objective_and_gradient_over_triplets(rows):
    Z, codes, pairs = rows
    triplets = reference.triplets(pairs, codes)
    left, right = np.array(pairs + [(i, l) for i, _, l in triplets]).T.copy()
    near = np.array([pairs.index((i, j)) for i, j, _ in triplets])
    far = np.arange(len(triplets)) + len(pairs)
    squared, weights, out = squared_distances(Z, left, right), np.zeros(len(left)), np.zeros_like(Z)
    np.testing.assert_allclose(squared, np.sum((Z[left] - Z[right]) ** 2, axis=1))
    weights[: len(pairs)] = 0.3
    smooth, plain = hinges_of_triplets(near, far, squared, 0.7, 0.5, weights)
    add_pull(Z, left, right, weights, out)
    value, gradient = reference.rounded_objective(Z, pairs, triplets, 0.7, 0.5)
    pull = 0.3 * squared[: len(pairs)].sum()
    assert pull + 0.7 * smooth == pytest.approx(value)
    assert pull + 0.7 * plain == pytest.approx(reference.objective(Z, pairs, triplets, 0.7))
    np.testing.assert_allclose(out, gradient, atol=1e-12)


def test_the_same_over_the_rows_found_near(rows):
    Z, codes, pairs = rows
    anchors, targets = np.array(pairs).T.copy()
    squared, weights, out = squared_distances(Z, anchors, targets), np.full(len(pairs), 0.3), np.zeros_like(Z)
    radius = np.full(25, -np.inf)
    np.maximum.at(radius, anchors, squared + 1.5)
    ends, found = np.zeros(26, dtype=np.intp), np.empty(25 * 25, dtype=np.int32)
    count = find_near(Z @ Z.T, 0, 0, (np.sum(Z**2, axis=1), radius, codes), ends, found)
    distances = np.sum((Z[:, None] - Z) ** 2, axis=2)
    near = (distances < np.maximum(radius[:, None], radius)) & (codes[:, None] != codes)
    assert [found[a:b].tolist() for a, b in itertools.pairwise(ends)] == [
        [l for l in range(i + 1, 25) if near[i, l]] for i in range(25)
    ]
    target_ends = np.searchsorted(anchors, np.arange(26))
    smooth, _ = hinges_of_rows(Z, 0, target_ends, squared, ends, found[:count], 0.7, 0.5, weights, out)
    add_pull(Z, anchors, targets, weights, out)
    value, gradient = reference.rounded_objective(Z, pairs, reference.triplets(pairs, codes), 0.7, 0.5)
    assert 0.3 * squared.sum() + 0.7 * smooth == pytest.approx(value)
    np.testing.assert_allclose(out, gradient, atol=1e-12)
