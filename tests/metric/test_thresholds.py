"""The threshold that is best for labelled pairs, against trying every one."""

from __future__ import annotations

import numpy as np
import pytest

import mahala
from mahala import MahalanobisMetric, Pairs
from mahala.metric.thresholds import best_threshold


def quality(squared, similar, threshold, strategy, beta, rate):
    found = squared <= threshold
    hits, recall = np.sum(found & similar), np.mean(found[similar])
    apart = np.mean(~found[~similar])
    if strategy == "accuracy":
        return np.mean(found == similar)
    if strategy == "f_beta":
        precision = hits / found.sum() if found.any() else 0.0
        return (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if hits else 0.0
    if strategy == "max_tpr":
        return recall if apart >= rate else -1.0
    return apart if recall >= rate else -1.0


@pytest.mark.parametrize("strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
@pytest.mark.parametrize("seed", range(10))
def test_no_other_threshold_is_better(strategy, seed):
    rng = np.random.default_rng(seed)
    similar = rng.random(40) < 0.4
    squared = np.round(rng.exponential(np.where(similar, 1.0, 2.0)), 1)  # with ties
    beta, rate = (0.5, 2.0)[seed % 2], (0.3, 0.8)[seed % 2]
    best = quality(squared, similar, best_threshold(squared, similar, strategy, beta, rate), strategy, beta, rate)
    tried = [quality(squared, similar, t, strategy, beta, rate) for t in np.arange(-0.05, squared.max() + 0.1, 0.05)]
    assert best == pytest.approx(max(tried))


def test_threshold_of_a_metric():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    pairs = Pairs.from_labels(X, X[:, 0] > 0, 100, random_state=0)
    metric = MahalanobisMetric(np.diag([4.0, 1.0, 0.0]))
    calibrated = metric.calibrate_threshold(pairs)
    assert metric.threshold is None
    with pytest.raises(ValueError, match=r"no threshold.* call calibrate_threshold"):
        metric.predict_comparisons(pairs)
    squared = metric.pair_distance(pairs, squared=True)
    assert calibrated.threshold == best_threshold(squared, pairs.similar, "accuracy", 1.0, 0.5)
    expected = np.where(squared <= calibrated.threshold, 1, -1)
    np.testing.assert_array_equal(calibrated.predict_comparisons(pairs), expected)
    left, right = X[pairs.left], X[pairs.right]
    np.testing.assert_allclose(calibrated.pair_distance(pairs), metric.distance(left, right))
    bare = Pairs(X, pairs.left, pairs.right)
    assert metric.calibrate_threshold(bare, pairs.y).threshold == calibrated.threshold


def test_what_is_refused():
    X = np.arange(6.0).reshape(3, 2)
    metric = MahalanobisMetric.euclidean(2)
    pairs = Pairs(X, [0, 0], [1, 2], similar=[True, False])
    with pytest.raises(ValueError, match="none is dissimilar"):
        metric.calibrate_threshold(pairs[:1])
    with pytest.raises(ValueError, match="none is similar"):
        metric.calibrate_threshold(pairs[1:])
    for name, value in (("strategy", "best"), ("beta", 0.0), ("min_rate", 1.5)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            metric.calibrate_threshold(pairs, **{name: value})
    with pytest.raises(TypeError, match="pairs must be Pairs"):
        metric.pair_distance(X)
    with pytest.raises(ValueError, match="positive semi-definite"):
        MahalanobisMetric(np.diag([1.0, -1.0])).pair_distance(pairs)


def test_threshold_of_a_learner(labelled, tmp_path):
    X, y = labelled
    pairs, unseen = (Pairs.from_labels(X, y, 200, random_state=seed) for seed in (0, 1))
    learner = mahala.RCA().fit(X, y)
    with pytest.raises(AttributeError, match="no threshold_ before calibrate_threshold"):
        _ = learner.threshold_
    with pytest.raises(ValueError, match="calibrate_threshold"):
        learner.predict_comparisons(unseen)
    assert learner.calibrate_threshold(pairs) is learner
    assert learner.score(unseen) == np.mean(learner.predict_comparisons(unseen) == unseen.y)
    learner.save(tmp_path / "model.safetensors")
    loaded = mahala.load(tmp_path / "model.safetensors")
    assert loaded.threshold_ == learner.threshold_ == learner.metric_.threshold
    array = np.stack([X[unseen.left], X[unseen.right]], axis=1)
    np.testing.assert_array_equal(loaded.predict_comparisons(array), learner.predict_comparisons(unseen))
    np.testing.assert_array_equal(loaded.pair_distance(array), learner.pair_distance(unseen))
    assert loaded.fit(X, y).metric_.threshold is None
    with pytest.raises(ValueError, match="4 features"):
        learner.calibrate_threshold(Pairs.from_labels(X[:, :4], y, 20, random_state=0))
