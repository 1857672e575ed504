"""Teacher: what it learns, against a slow reference; what it asks; how it resumes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import mahala
from mahala.answers import teacher as module
from mahala.answers.questions import usefulness


def items(n=20, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def teach(teacher, n, feature=0):
    """Answer as a person who looks at one feature."""
    for _ in range(n):
        query, a, b = teacher.ask()
        nearer = min(a, b, key=lambda row: abs(teacher.X[row, feature] - teacher.X[query, feature]))
        teacher.answer(query, a, b, nearer=nearer)
    return teacher


def margins(rows, questions):
    queries, a, b = rows[np.asarray(questions).T]
    return np.sum((queries - b) ** 2, axis=1) - np.sum((queries - a) ** 2, axis=1)


def test_the_map_is_the_minimum_of_the_objective():
    teacher = teach(mahala.Teacher(items(12, 3), random_state=0), 40)
    t, penalty = 4.0 * teacher._typical, teacher._penalty

    def objective(vector):
        L = vector.reshape(3, 3)
        loss = np.logaddexp(0.0, -margins(teacher.X @ L.T, teacher._answers) / t).sum()
        return loss + penalty * np.square(L - np.eye(3)).sum()

    lowest = minimize(objective, np.eye(3).ravel(), tol=1e-12)
    before = objective(np.eye(3).ravel())
    assert before - objective(teacher._model.ravel()) > 0.999 * (before - lowest.fun)
    teacher._ascend(0, 4000)  # the steps converge to it
    np.testing.assert_allclose(teacher._model, lowest.x.reshape(3, 3), atol=2e-5)
    expected = 1 / (1 + np.exp(margins(teacher.X @ teacher._model, teacher._answers) / t))
    np.testing.assert_allclose(teacher._slopes, expected, atol=1e-6)


def test_temperature_and_penalty_are_those_of_random_questions():
    rows = items(8, 3)
    teacher = mahala.Teacher(rows, random_state=0)
    questions = [(q, a, b) for q, a, b in itertools.permutations(range(8), 3)]
    typical = np.median(np.abs(margins(rows, questions)))
    gradients = []
    for q, a, b in questions:
        near, far = rows[q] - rows[a], rows[q] - rows[b]
        gradients.append(np.square(2 * (np.outer(far, far) - np.outer(near, near)) / (4 * typical)).sum())
    assert teacher._typical == pytest.approx(typical, rel=0.1)
    assert teacher._penalty == pytest.approx(0.4 * np.median(gradients), rel=0.25)


def test_answers_about_one_feature_are_learned():
    X = items(40, 5)
    teacher = mahala.Teacher(X, random_state=0)
    np.testing.assert_array_equal(teacher.metric_.matrix, np.eye(5))
    assert teacher.verdict_.kind == "too early to tell"
    teach(teacher, 100)
    weights = teacher.metric_.matrix.diagonal()
    assert weights[0] > 5 * weights[1:].max()
    questions = np.array(list(itertools.permutations(range(40), 3)))
    right = margins(X[:, :1], questions) * margins(X, questions) > 0.0
    learned = margins(X[:, :1], questions) * margins(teacher.metric_.transform(X), questions) > 0.0
    assert learned.mean() > 0.9 > 0.7 > right.mean()
    answers = mahala.LogisticMetric(random_state=teacher._seed).fit(mahala.Triplets(X, *teacher._answers.T))
    assert teacher.verdict_ == answers.verdict_
    np.testing.assert_allclose(
        teach(mahala.Teacher(1e3 * X, random_state=0), 100).metric_.matrix, teacher.metric_.matrix
    )


def test_an_answer_is_learned_at_once():
    teacher = mahala.Teacher(items(), random_state=0)
    query, a, b = teacher.ask()
    before = teacher.metric_.margins(mahala.Triplets(teacher.X, [query], [a], [b]))
    teacher.answer(query, a, b, nearer=a)
    assert teacher.metric_.margins(teacher.answers_) > before


def test_more_features_than_items():
    X = items(10, 30)
    teacher = teach(mahala.Teacher(X.astype(np.float32), random_state=0), 20)
    L = teacher._model
    assert L.shape == (9, 9)
    rows = (X - X[0]).astype(np.float32)
    distances = np.square((rows @ teacher._span) @ L).sum(axis=1)
    np.testing.assert_allclose(teacher.metric_.distance(rows, 0 * rows[0], squared=True), distances, rtol=1e-6)
    outside = np.linalg.qr(teacher._span, mode="complete")[0][:, 9:]
    np.testing.assert_allclose(teacher.metric_.matrix @ outside, outside, atol=1e-12)


def test_the_question_is_the_most_useful_one_until_it_is_answered():
    teacher = teach(mahala.Teacher(items(), random_state=0), 20)
    question = teacher.ask()
    assert teacher.ask() == question
    raw, learned = (margins(rows, teacher._queue) for rows in (teacher.X, teacher.X @ teacher._model))
    useful = usefulness(raw, learned, teacher._typical)
    asked = [module._key(*one) not in teacher._closed for one in teacher._queue]
    assert teacher._queue[int(np.where(asked, useful, -1.0).argmax())] == list(question)


def test_all_answers_are_revised_in_turn(monkeypatch):
    monkeypatch.setattr(module, "NUMBERS", 0)
    monkeypatch.setattr(module, "NUMBERS_REVISED", 3 * 16)  # four steps
    teacher, starts = mahala.Teacher(items(), random_state=0), []
    ascend = teacher._ascend
    teacher._ascend = lambda first, n: (starts.append((first, n)), ascend(first, n))
    teach(teacher, 40)
    assert [start for start in starts if start[1] == 4] == [(0, 4), (4, 4), (8, 4), (12, 4)]


def test_a_question_is_asked_once_and_then_none_is_left():
    teacher = mahala.Teacher(items(5), random_state=0)
    seen = set()
    for number in range(30):
        query, a, b = teacher.ask()
        seen.add((query, frozenset((a, b))))
        if number % 2:
            teacher.skip(query, b, a)
        else:
            teacher.answer(query, a, b, nearer=b)
    assert len(seen) == 30
    assert len(teacher.answers_) == 15
    with pytest.raises(ValueError, match="no question is left"):
        teacher.ask()
    teacher.answer(0, 1, 2, nearer=1)  # a second answer counts, too
    assert len(teacher.answers_) == 16


@pytest.mark.parametrize("d", [4, 30])
def test_a_saved_teacher_resumes_exactly(d, tmp_path):
    teacher = teach(mahala.Teacher(items(20, d)), 13)
    teacher.skip(*teacher.ask())
    teacher.save(tmp_path / "teacher")
    loaded = mahala.load(tmp_path / "teacher")
    assert len(loaded.answers_) == 13
    for one in (teacher, loaded):
        teach(one, 25)
    np.testing.assert_array_equal(loaded._answers, teacher._answers)
    np.testing.assert_array_equal(loaded.metric_.matrix, teacher.metric_.matrix)
    assert loaded.verdict_ == teacher.verdict_
    assert loaded.to_bytes() == teacher.to_bytes()


def test_damaged_files_are_refused(tmp_path):
    header, arrays = teach(mahala.Teacher(items(), random_state=0), 5).to_parts()
    wrong = {"answers": arrays["answers"] + 20, "slopes": arrays["slopes"] + 1.0, "map": np.eye(3)}
    wrong["X"] = arrays["X"][:2]
    for name, array in wrong.items():
        write = mahala.saved_estimator.model_bytes("learner", arrays | {name: array}, header)
        with pytest.raises(mahala.ModelFileError, match="does not hold a whole Teacher"):
            mahala.saved_estimator.learner_from_bytes(write)


def test_what_is_wrong_is_said():
    for X, words in (
        (items(2), "X must have at least three rows"),
        (np.ones((4, 2)), "X must have rows that differ"),
        ([[np.nan], [1.0], [2.0]], "X"),
    ):
        with pytest.raises(ValueError, match=words):
            mahala.Teacher(X)
    with pytest.raises(TypeError, match="X must hold dense rows"):
        mahala.Teacher(__import__("scipy.sparse").sparse.csr_array(items()))
    with pytest.raises(ValueError, match="random_state"):
        mahala.Teacher(items(), random_state="a")
    teacher = mahala.Teacher(items())
    for question, words in (
        ((20, 1, 2), "query must be a row number from 0 to 19, got 20"),
        ((0, -1, 2), "a must be a row number"),
        ((0, 1, 2.0), r"b must be a row number from 0 to 19, got 2\.0"),
        ((0, 1, 1), "three different rows, got 0, 1 and 1"),
    ):
        with pytest.raises(ValueError, match=words):
            teacher.skip(*question)
        with pytest.raises(ValueError, match=words):
            teacher.answer(*question, nearer=1)
    for questions, words in (
        ([1, 2, 3], "rows of three row numbers"),
        ([[0, 1, -2]], "questions must hold row numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            teacher.margins(questions)
    with pytest.raises(ValueError, match="nearer must be a or b, that is 1 or 2, got 0"):
        teacher.answer(0, 1, 2, nearer=0)
    assert len(teacher.answers_) == 0


def test_questions_and_answers_have_names(tmp_path):
    rows, names = items(8, 3), [f"shoe {row}" for row in range(8)]
    by_row, by_name = mahala.Teacher(rows, random_state=0), mahala.Teacher(rows, random_state=0, names=names)
    for _ in range(12):
        query, a, b = question = by_row.ask()
        assert by_name.ask() == tuple(names[row] for row in question)
        by_row.answer(query, a, b, nearer=a)
        by_name.answer(names[query], names[a], names[b], nearer=names[a])
    np.testing.assert_array_equal(by_name.metric_.matrix, by_row.metric_.matrix)
    by_name.skip(*by_name.ask())
    by_name.save(tmp_path / "m")
    assert mahala.load(tmp_path / "m").ask() == by_name.ask()
    questions = np.array([[0, 1, 2], [5, 6, 7]])
    np.testing.assert_array_equal(by_name.margins(np.array(names)[questions]), by_row.margins(questions))
    with pytest.raises(ValueError, match=r"'shoe9' is not the name of an item \(did you mean 'shoe 7'|'shoe9' is not"):
        by_name.answer("shoe9", "shoe 1", "shoe 2", nearer="shoe 1")
    with pytest.raises(ValueError, match="nearer must be a or b, that is shoe 1 or shoe 2, got 'shoe 3'"):
        by_name.answer("shoe 0", "shoe 1", "shoe 2", nearer="shoe 3")
    with pytest.raises(ValueError, match="'shoe' is the name of 8 items"):
        mahala.Teacher(rows, names=["shoe"] * 8)


def test_an_index_of_text_has_the_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(items(4, 2))
    assert mahala.Teacher(table).names is None
    assert mahala.Teacher(table.set_axis(["a", "b", "c", "d"])).names == ["a", "b", "c", "d"]
