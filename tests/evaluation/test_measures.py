"""Losses of predicted classes against scikit-learn's scores and against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from mahala.evaluation.measures import losses, measure_for, row_weights, smallest_step


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_losses_are_one_minus_the_scores(n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=20)])
    scores = rng.integers(1, 5, size=(len(codes), n_classes)) / 4.0
    predicted = scores.argmax(axis=1)
    positive = 1 if n_classes == 2 else None
    found = {
        measure: losses(measure, predicted[:, None], codes, lambda code: scores[:, [code]], positive)[0]
        for measure in ("error", "balanced", "f1", "roc_auc")
    }
    each = [roc_auc_score(codes == code, scores[:, code]) for code in range(n_classes)]
    assert found == pytest.approx(
        {
            "error": np.mean(predicted != codes),
            "balanced": 1.0 - balanced_accuracy_score(codes, predicted),
            "f1": 1.0 - f1_score(codes, predicted, average="binary" if n_classes == 2 else "macro"),
            "roc_auc": 1.0 - (each[1] if n_classes == 2 else np.mean(each)),
        }
    )


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_one_row_changes_a_loss_by_a_step_and_mistakes_have_weights(n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=20)])
    for measure in ("error", "balanced"):
        right = losses(measure, codes[:, None], codes, lambda code: np.empty(0), None)[0]
        changes = []
        for row in range(len(codes)):
            predicted = codes.copy()
            predicted[row] = (predicted[row] + 1) % n_classes
            changes.append(losses(measure, predicted[:, None], codes, lambda code: np.empty(0), None)[0] - right)
        np.testing.assert_allclose(changes, row_weights(measure, codes))
        assert max(changes) == pytest.approx(smallest_step(measure, np.bincount(codes).astype(float)))


def test_lopsided_is_more_than_three_of_four():
    assert measure_for(np.repeat([0, 1], [75, 25])) == "error"
    assert measure_for(np.repeat([0, 1], [76, 24])) == "balanced"
    assert measure_for(np.repeat([0, 1, 2], [300, 5, 5])) == "balanced"
