"""What answers about items teach: a map for all queries, whoever gave them."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load

from mahala_search.serve.learning import learners as learning_module
from mahala_search.serve.learning import taught as module
from mahala_search.serve.learning.learners import Learning
from mahala_search.serve.learning.taught import Answer, from_bytes, kept, taught, to_bytes
from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.rows import LogEntry

from .conftest import N_ITEMS, WIDTH, new_items

X = np.array([item.vector for item in new_items()], dtype=np.float64)
X /= np.linalg.norm(X, axis=1, keepdims=True)


def answers(n, user="one person"):
    """Answers of a person who looks at the first feature, about the first half of the items."""
    rng = np.random.default_rng(0)
    questions = (rng.permutation(N_ITEMS // 2)[:3].tolist() for _ in range(n))
    ordered = ((q, *sorted((a, b), key=lambda row: abs(X[row, 0] - X[q, 0]))) for q, a, b in questions)
    return [Answer(*answer, user) for answer in ordered]


def foreseen(M, rows):
    q, a, b = np.array([(q, a, b) for q in rows for a in rows for b in rows if len({q, a, b}) == 3]).T
    truth = np.abs(X[q, 0] - X[b, 0]) - np.abs(X[q, 0] - X[a, 0])
    return np.mean(np.einsum("ij,ij->i", X[q] @ M, X[a] - X[b]) * truth > 0.0)


def test_one_person_teaches_similarity_among_all_items():
    result = taught(answers(60), lambda rows: 7.0 * X[rows])
    unseen = range(N_ITEMS // 2, N_ITEMS)
    assert foreseen(np.eye(WIDTH) + result.change, unseen) > foreseen(np.eye(WIDTH), unseen) + 0.1
    assert (result.status["answers"], result.status["used"]) == (60, True)
    assert result.status["gain"] > 0.05


def test_what_is_shown_to_be_worse_is_not_used():
    contradicting = [one for q, a, b, user in answers(60) for one in (Answer(q, a, b, user), Answer(q, b, a, user))]
    result = taught(contradicting, lambda rows: X[rows])
    assert result.change is None
    assert not result.status["used"]
    equal = taught(answers(5), lambda rows: np.ones((len(rows), WIDTH)))
    assert equal.change is None
    assert taught([], lambda rows: X[rows]).status["answers"] == 0


def test_only_comparisons_of_three_items_are_answers():
    assert Answer.of(LogEntry("comparison", [1, 2], [1.0, 0.0], query=0, user="u")) == Answer(0, 1, 2, "u")
    assert Answer.of(LogEntry("comparison", [1, 2], [1.0, 0.0], vector=np.ones(2))) is None
    assert Answer.of(LogEntry("comparison", [0, 2], [1.0, 0.0], query=0)) is None
    assert Answer.of(LogEntry("impression", [1, 2], [1.0, 0.0], query=0)) is None


def test_the_last_answers_count_and_not_too_many_of_one_user(monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_USER", 3)
    rng = np.random.default_rng(0)
    given = [Answer(at, at + 1, at + 2, user) for at, user in enumerate(rng.choice(["a", "b", "c", "d"], 40).tolist())]
    result = kept(given)
    assert from_bytes(to_bytes(result)) == result
    assert result == sorted(result)
    assert all(sum(one.user == user for one in result) <= 3 for user in "abcd")
    assert len(result) == 12
    pieces = []
    for at in range(0, 40, 7):  # where they are cut makes no difference
        pieces = kept(pieces + given[at : at + 7])
    assert pieces == result
    monkeypatch.setattr(module, "MOST_ANSWERS", 8)
    assert taught(answers(9), lambda rows: X[rows]).status["answers"] == 8


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(learning_module, "_SECONDS", 0.0)
    monkeypatch.setattr(learning_module, "_TIMES", 0.0)
    monkeypatch.setattr(learning_module, "_STATES", 0.0)


def test_what_is_served_does_not_depend_on_where_learning_was_stopped(store):
    entries = [LogEntry("comparison", [a, b], [1.0, 0.0], query=q, user=user) for q, a, b, user in answers(30)]
    checkpoints = Checkpoints(store.database, 0.0)
    for part in (entries[:11], entries[11:]):
        store.append("c", part)
        Learning(store, checkpoints).step()  # a new process
    version, data = checkpoints.served("c", "adapter")
    maps = load(data)
    expected = taught(answers(30), lambda rows: X[rows])
    state = Checkpoints(store.database).newest("c", 0)[1]["adapter"]
    adapter = learning_module.learner_from_bytes(state).maps()
    np.testing.assert_allclose(maps["new"], adapter.plus(expected.change).new, atol=1e-5)
    assert np.abs(maps["known"] - adapter.known).max() > 0.1
    assert version.status["taught"] == pytest.approx(expected.status)
