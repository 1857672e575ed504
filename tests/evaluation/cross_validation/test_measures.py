"""Losses of predicted classes against scikit-learn's scores and against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, r2_score, roc_auc_score

from mahala.evaluation.cross_validation.measures import losses, measure_for, row_losses


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
def test_mistakes_have_weights(n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=20)])
    for measure in ("error", "balanced"):
        right = losses(measure, codes[:, None], codes, lambda code: np.empty(0), None)[0]
        changes = []
        for row in range(len(codes)):
            predicted = codes.copy()
            predicted[row] = (predicted[row] + 1) % n_classes
            changes.append(losses(measure, predicted[:, None], codes, lambda code: np.empty(0), None)[0] - right)
        np.testing.assert_allclose(changes, row_losses(measure, (codes + 1) % n_classes, codes) / len(codes))


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_losses_are_means_over_rows(n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=20)])
    predicted = rng.integers(n_classes, size=(3, len(codes)))
    numbers, guesses = rng.normal(size=len(codes)), rng.normal(size=(3, len(codes)))
    for measure, guessed, targets in (
        ("error", predicted, codes),
        ("balanced", predicted, codes),
        ("r2", guesses, numbers),
    ):
        by_row = row_losses(measure, guessed, targets)
        assert by_row.shape == guessed.shape
        np.testing.assert_allclose(
            by_row.mean(axis=1), losses(measure, guessed.T, targets, lambda code: np.empty(0), None)
        )
    for measure in ("f1", "roc_auc"):
        assert row_losses(measure, predicted, codes) is None


def test_the_loss_of_numbers_in_units_of_their_deviation_is_one_minus_r2():
    rng = np.random.default_rng(0)
    numbers = rng.normal(5.0, 3.0, size=40)
    guesses = numbers + rng.normal(size=40)
    values = (numbers - numbers.mean()) / numbers.std()
    found = losses("r2", ((guesses - numbers.mean()) / numbers.std())[:, None], values, lambda code: np.empty(0), None)
    assert found[0] == pytest.approx(1.0 - r2_score(numbers, guesses))


def test_lopsided_is_more_than_three_of_four():
    assert measure_for(np.repeat([0, 1], [75, 25])) == "error"
    assert measure_for(np.repeat([0, 1], [76, 24])) == "balanced"
    assert measure_for(np.repeat([0, 1, 2], [300, 5, 5])) == "balanced"
