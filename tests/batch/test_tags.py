"""Batch learners from rows with tags, against their objectives by brute force and against classes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mahala
from mahala import GML, LDA, LMNN, MMC, NCA, RCA, BoostMetric, LogisticMetric, Pairs
from mahala.batch import ANMM, DMLMJ, GMML, KISSME, MCML, MDM, SCML, XQDA, PSDBoost, Relief
from mahala.batch.pair_costs import all_pairs
from mahala.compiled.sums import softmax_sums
from mahala.compiled.sums.softmax_sums import sum_softmax
from mahala.engine import hinges
from mahala.engine.hinges import RowHinges
from mahala.engine.neighbors import class_neighbors
from mahala.learner import learner_kinds
from mahala.support.tags import read_tags

RNG = np.random.default_rng(0)
Y = RNG.random((90, 5)) < 0.25
X = RNG.normal(size=(90, 6)) + 2.0 * Y @ RNG.normal(size=(5, 6))
TAGS = [{"abcde"[tag] for tag in np.flatnonzero(row)} for row in Y]
SIMILAR = ((Y.astype(int) @ Y.T) > 0) & ~np.eye(90, dtype=bool)
ONE_EACH = np.digitize(X[:, 0] + 0.3 * X[:, 1] + 0.5 * RNG.normal(size=90), [-1.0, 1.0])

NEED_CLASSES = {
    "LFDA": "one class for each row",
    "Simba": "one class for each row",
    "MLKR": "1d array",
    "NCMML": "one class for each row",
}


@pytest.mark.parametrize("kind", learner_kinds(), ids=lambda kind: kind.__name__)
def test_every_learner_learns_from_tags_or_says_what_it_needs(kind):
    for learner in kind._test_instances():
        if kind is LDA:
            learner.set_params(shrinkage=0.1)
        if kind.__name__ in NEED_CLASSES:
            with pytest.raises(ValueError, match=NEED_CLASSES[kind.__name__]):
                learner.fit(X, Y)
            continue
        matrices = [clone(learner).fit(X, tags).metric_.matrix for tags in (Y, TAGS, sp.csr_array(Y))]
        dense = [M.toarray() if sp.issparse(M) else M for M in matrices]
        for M in dense[1:]:
            np.testing.assert_allclose(M, dense[0], rtol=1e-6, atol=1e-9 * np.abs(dense[0]).max())
        if kind._needs_labels:
            with pytest.raises(ValueError, match="y"):
                clone(learner).fit(X, [{"a"}] * len(X))


@pytest.mark.parametrize(
    "learner",
    [
        *(NCA(max_iter=5), LMNN(max_iter=20), RCA(n_components=2), LDA(), Relief(), BoostMetric(max_iter=20)),
        *(GML(max_iter=20, init="identity"), MMC(max_iter=10), MDM(max_iter=3), PSDBoost(max_iter=3)),
        *(SCML(bases="triplet_diffs", random_state=0), GMML(), KISSME(), XQDA(), DMLMJ(), ANMM(), MCML(max_iter=10)),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_sets_of_one_tag_are_classes(learner):
    of_classes = clone(learner).fit(X, ONE_EACH).metric_.matrix
    of_tags = clone(learner).fit(X, [{f"tag {code}"} for code in ONE_EACH]).metric_.matrix
    np.testing.assert_allclose(of_tags, of_classes, rtol=1e-5, atol=1e-6 * np.abs(of_classes).max())


@pytest.mark.parametrize("few", [0, softmax_sums.FEW_PAIRS])
def test_nca_sums_neighbours_that_share_a_tag(monkeypatch, few):
    monkeypatch.setattr(softmax_sums, "FEW_PAIRS", few)
    monkeypatch.setattr(softmax_sums, "block_size", lambda _: 17)

    def hits(Z):
        weights = np.exp(-np.square(Z[:, None] - Z).sum(axis=2))
        np.fill_diagonal(weights, 0.0)
        return (weights / weights.sum(axis=1, keepdims=True))[SIMILAR].sum()

    Z, tags = X[:, :2] / 3.0, read_tags(TAGS, 90)
    total, pull = sum_softmax(Z, tags)
    assert total == pytest.approx(hits(Z))
    for i, c in [(0, 0), (17, 1), (89, 0)]:
        step = np.zeros_like(Z)
        step[i, c] = 1e-6
        assert 2.0 * pull[i, c] == pytest.approx((hits(Z + step) - hits(Z - step)) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("block_bytes", [2**21, 2**10])
def test_lmnn_counts_impostors_without_a_shared_tag(monkeypatch, block_bytes):
    monkeypatch.setattr(hinges, "BLOCK_BYTES", block_bytes)
    tags = read_tags(TAGS, 90)
    near, _ = class_neighbors(X, tags, 2, 0)
    anchors, places = np.nonzero(near < 90)
    edges = np.stack([anchors, near[anchors, places]])
    ends = np.concatenate([[0], np.cumsum(np.bincount(anchors, minlength=90))])
    D = np.square(X[:, None] - X).sum(axis=2)
    expected = 0.5 * D[tuple(edges)].sum()
    for i, j in edges.T:
        others = ~SIMILAR[i] & (np.arange(90) != i)
        expected += 0.5 * np.maximum(1.0 + D[i, j] - D[i, others], 0.0).sum()
    _, plain, _ = RowHinges(tags, edges, ends, 0.5)(X, 0.0)
    assert plain == pytest.approx(expected)


def test_all_pairs():
    pairs = all_pairs(X, read_tags(TAGS, 90))
    np.testing.assert_array_equal(pairs.similar, SIMILAR[np.triu_indices(90, 1)])
    given = GML(max_iter=10).fit(Pairs(X, pairs.left, pairs.right, pairs.similar))
    np.testing.assert_array_equal(GML(max_iter=10).fit(X, TAGS).metric_.matrix, given.metric_.matrix)


def test_lda_and_rca_count_a_row_in_each_of_its_tags():
    within, between, total = np.zeros((6, 6)), np.zeros((6, 6)), 0.0
    weights = Y / np.maximum(1, Y.sum(axis=1, keepdims=True))
    mean = weights.sum(axis=1) @ X / weights.sum()
    for w in weights.T:
        center = w @ X / w.sum()
        within += (w[:, None] * (X - center)).T @ (X - center)
        between += w.sum() * np.outer(center - mean, center - mean)
        total += w.sum()
    learner = RCA(regularization=0.0).fit(X, TAGS)
    np.testing.assert_allclose(learner.metric_.matrix, np.linalg.inv(within / total), rtol=1e-6)
    L = LDA(n_components=1).fit(X, TAGS).components_[0]
    values, vectors = np.linalg.eig(np.linalg.solve(within, between))
    direction = vectors[:, values.real.argmax()].real
    assert abs(L @ direction) == pytest.approx(np.linalg.norm(L) * np.linalg.norm(direction))


def test_tags_need_no_weights_no_minibatches_and_no_score():
    with pytest.raises(ValueError, match="one class for each row"):
        GML().fit(X, TAGS, sample_weight=np.ones(90))
    with pytest.raises(ValueError, match="one class for each row"):
        LogisticMetric(batch_size=32).fit(X, TAGS)
    with pytest.raises(ValueError, match=r"Pairs\.from_labels"):
        RCA().fit(X, TAGS).score(X, TAGS)
    for evaluate in (mahala.knn_error, mahala.evaluation.mean_average_precision):
        with pytest.raises(ValueError, match=r"y\w* must hold one class for each row here, got .*tags\.md"):
            evaluate(None, X, TAGS)
    with pytest.raises(ValueError, match="one class for each row here"):
        mahala.compare(X, TAGS)
