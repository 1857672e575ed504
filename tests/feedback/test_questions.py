"""Questions: which are possible, and which is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler, normalize

from mahala import QueryAdapter
from mahala.feedback.questions import best_question, candidates


def slow_best(queries, left, right, matrix, trust):
    """The same by its definition: how far learned and raw are apart, over the margin of what is served."""
    best, most = None, -1.0
    for at, (x, a, b) in enumerate(zip(queries, left, right, strict=True)):
        raw = x @ a - x @ b
        M = np.eye(len(x)) if matrix is None else matrix
        served = x @ M @ a - x @ M @ b
        learned = raw if matrix is None else x @ (np.eye(len(x)) + (M - np.eye(len(x))) / trust) @ (a - b)
        tiny = 1e-6 * np.linalg.norm(x) * np.linalg.norm(a - b)
        value = (abs(learned - raw) + tiny) / (abs(served) + tiny)
        if value > most:
            best, most = at, value
    return best


def test_candidates_are_all_questions_with_three_items():
    asked = candidates(4, 4000, np.random.default_rng(0))
    rows, counts = np.unique(asked, axis=0, return_counts=True)
    assert {tuple(row) for row in rows} == {
        (q, a, b) for q in range(4) for a in range(4) for b in range(4) if len({q, a, b}) == 3
    }
    assert counts.min() > 4000 / 24 / 2
    with pytest.raises(ValueError, match="three items, but there are 2"):
        candidates(2, 1, np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_question_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    queries, left, right = rng.normal(size=(3, 30, 5))
    matrix, trust = None if seed % 4 == 0 else np.eye(5) + 0.3 * rng.normal(size=(5, 5)), rng.uniform(0.05, 1.0)
    chosen = best_question(queries, left, right, matrix, trust)
    assert chosen == slow_best(queries, left, right, matrix, trust)
    if matrix is None:
        apart = left - right
        margins = np.abs((queries * apart).sum(1)) / np.linalg.norm(queries, axis=1) / np.linalg.norm(apart, axis=1)
        assert chosen == margins.argmin()


def test_items_that_are_equal_are_never_worth_a_question():
    queries, left, right = np.ones((2, 3)), np.ones((2, 3)), np.array([[1.0, 1.0, 1.0], [5.0, 1.0, 1.0]])
    assert best_question(queries, left, right, np.diag([0.5, 1.0, 1.0]), 0.5) == 1


def test_chosen_answers_teach_more_than_random_ones():
    X, y = load_wine(return_X_y=True)
    X = normalize(StandardScaler().fit_transform(X))
    tests = candidates(len(X), 20_000, np.random.default_rng(1))
    truth = (y[tests[:, 1:]] == y[tests[:, :1]]) @ [1, -1]
    tests, truth = tests[truth != 0], truth[truth != 0]
    right = {}
    for n in (1, 200):  # candidates: with one, the question is random
        rng, adapter = np.random.default_rng(0), QueryAdapter(random_state=0)
        matrix, trust, answers = None, 0.0, 0
        while answers < 100:
            asked = candidates(len(X), n, rng)
            question = asked[best_question(*(X[column] for column in asked.T), matrix, trust)]
            same = y[question[1:]] == y[question[0]]
            if same.sum() == 1:
                adapter.learn_one(X[question[0]], X[question[1:]], same)
                matrix, trust, answers = adapter.maps().new, adapter.trust_["new"], answers + 1
        scores = np.einsum("ij,ij->i", adapter.embed(X[tests[:, 0]]), X[tests[:, 1]] - X[tests[:, 2]])
        right[n] = float((np.sign(scores) == truth).mean())
    assert right[200] > right[1] + 0.01
