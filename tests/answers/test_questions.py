"""Questions: which are possible, and which is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from mahala.answers.questions import candidates, usefulness


def test_candidates_are_all_questions_with_three_items():
    asked = candidates(4, 4000, np.random.default_rng(0))
    rows, counts = np.unique(asked, axis=0, return_counts=True)
    assert {tuple(row) for row in rows} == {
        (q, a, b) for q in range(4) for a in range(4) for b in range(4) if len({q, a, b}) == 3
    }
    assert counts.min() > 4000 / 24 / 2
    with pytest.raises(ValueError, match="three items, but there are 2"):
        candidates(2, 1, np.random.default_rng(0))


def test_the_most_useful_question_has_changed_and_has_no_clear_answer():
    raw, learned = np.array([1.0, 1.0, -1.0, 0.0, 0.0]), np.array([1.0, 0.5, 0.1, 0.1, 0.0])
    expected = [0.0, 0.5 / 0.6, 1.1 / 0.2, 0.1 / 0.2, 0.0]
    np.testing.assert_allclose(usefulness(raw, learned, 2.0), expected)
    np.testing.assert_array_equal(usefulness(np.zeros(2), np.zeros(2), 0.0), 0.0)  # items that are equal
