"""Learners are judged on comparisons of items that they did not learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mahala
from mahala import ITML, LMNN, OASIS, LogisticMetric, MahalanobisMetric, Pairs, Quadruplets, Triplets
from mahala.evaluation.compare import compare
from mahala.evaluation.cross_validation.answers import agreement_of, losses_of, questions_of
from mahala.evaluation.cross_validation.fitting import refit_answers


def items(n=60, d=6, seed=0):
    """Items of two classes, which one of the features tells."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 0] += 4.0 * codes
    return X, codes


def triplets(n=400, seed=0):
    X, _ = items(seed=seed)
    rng = np.random.default_rng(seed)
    anchor = rng.integers(0, 60, n)
    positive = (anchor + 2 * rng.integers(1, 30, n)) % 60
    return Triplets(X, anchor, positive, (anchor + 2 * rng.integers(0, 30, n) + 1) % 60)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_losses_of_triplets_and_pairs(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(12, 2)).astype(float)
    metric = MahalanobisMetric.euclidean(2)
    roles = rng.integers(0, 12, size=(3, n))
    squared = lambda a, b: np.sum((X[a] - X[b]) ** 2)  # noqa: E731
    expected = []
    for a, p, q in roles.T:
        near, far = squared(a, p), squared(a, q)
        expected.append(0.0 if near < far else 0.5 if near == far else 1.0)
    everything = np.arange(n)
    np.testing.assert_array_equal(losses_of(metric, Triplets(X, *roles), everything[:0], everything), expected)
    similar = rng.random(n) < 0.5
    similar[:2] = [True, False][:n]
    if n < 2:
        return
    pairs = Pairs(X, roles[0], roles[1], similar)
    train, test = everything[: max(2, n // 2)], everything[n // 2 :]
    distances = np.array([squared(a, b) for a, b in zip(roles[0], roles[1], strict=True)])
    # No other threshold is right for more of the pairs learned from.
    found = 1.0 - losses_of(metric, pairs, train, train).mean()
    ends = [-1.0, *(np.unique(distances[train]) + 0.5)]
    assert found == pytest.approx(max(((distances[train] <= end) == similar[train]).mean() for end in ends))
    values = losses_of(metric, pairs, train, test)
    assert set(values) <= {0.0, 1.0}
    same = [i for i in range(len(test)) if test[i] in train]
    np.testing.assert_array_equal(values[same], losses_of(metric, pairs, train, test[same]))


class Spy(LMNN):
    """Notes the items that it learned from."""

    seen: list = []  # noqa: RUF012  (shared by clones on purpose)

    def fit(self, X, y=None):
        Spy.seen.append(set(np.concatenate([X.anchor, X.positive, X.negative]).tolist()))
        return super().fit(X, y)


def test_items_of_the_test_fold_are_not_learned_from():
    Spy.seen.clear()
    data = triplets()
    board = compare(data, learners={"LMNN": Spy(max_iter=5)}, folds=4)
    new, same = Spy.seen[:4], Spy.seen[4:]
    assert all(len(seen) == 45 for seen in new)
    assert len(set().union(*(set(range(60)) - seen for seen in new))) == 60
    assert all(len(seen) > 55 for seen in same)
    assert {entry.name for entry in board.entries} == {"Euclidean", "cosine", "LMNN"}
    assert (board.verdict.units, board.verdict.n) == ("items", len(np.unique(data.anchor)))
    assert board.same_items.verdict.units == "questions"


def test_a_feature_that_matters_is_learned():
    data = triplets()
    learner = LogisticMetric(lam=0.01, random_state=0)
    board = mahala.compare(data, learners={"LogisticMetric": learner})
    assert board.chosen == board.same_items.chosen == board.winner.name == "LogisticMetric"
    assert board.verdict.kind == board.same_items.verdict.kind == "shown to help"
    assert board.winner.error < board.euclidean.error
    assert len(board.answers.gains) == board.verdict.n
    assert board.answers.gains.mean() > 0.0
    assert "Shown to help: LogisticMetric has a new-item error of" in " ".join(repr(board).split())
    assert "has a same-item error of" in " ".join(repr(board).split())
    assert "LogisticMetric" in board._repr_html_()
    metric = refit_answers(data, learner)
    assert np.mean(metric.margins(data) > 0) > 0.95 - board.winner.error


def test_learners_that_the_budget_stops_are_named():
    board = compare(triplets(80), learners={"LogisticMetric": LogisticMetric()}, folds=2, budget=1e-9)
    assert board.parts < board.planned == 4
    assert f"budget, on so many training parts: LogisticMetric ({board.parts} of {board.parts})" in board.remarks()[0]


def test_an_interrupted_comparison_resumes_in_other_processes(tmp_path):
    data, learners = triplets(80), {"LogisticMetric": LogisticMetric(lam=0.1)}
    whole = compare(data, learners=learners, folds=2)

    def stop(done, total, name):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        compare(data, learners=learners, folds=2, resume=tmp_path / "cells", callback=stop)
    assert caught.value.leaderboard.parts == 1
    counts = []
    note = lambda done, total, name: counts.append(done)  # noqa: E731
    again = compare(data, learners=learners, folds=2, resume=tmp_path / "cells", callback=note, n_jobs=2)
    assert counts == list(range(6, 13))
    for one, other in zip(whole.boards, again.boards, strict=True):
        assert one.verdict == other.verdict
        assert [entry.error for entry in one.entries] == [entry.error for entry in other.entries]


def test_random_answers_teach_nothing():
    rng = np.random.default_rng(0)
    X, _ = items()
    left, right = rng.integers(0, 60, size=(2, 300))
    data = Pairs(X, left, right, rng.random(300) < 0.5)
    board = compare(data, learners={"ITML": ITML(random_state=0)})
    assert (board.winner.name, board.verdict.helps) == (board.reference, False)
    assert "of the learned map is served" not in board.verdict.sentence
    # A learner that cannot be fitted is listed with its error.
    few = compare(data, learners={"LogisticMetric": LogisticMetric(n_components=9)})
    assert "n_components must be at most 6" in few["LogisticMetric"].failure
    assert few.best_learner is None


def test_ratings_at_random_teach_nothing():
    """The order of two ratings must not follow from what was learned of each of them."""
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(30, 40)), np.array([rng.choice(30, 2, replace=False) for _ in range(50)]).T
    learner = LogisticMetric(lam=0.01)
    board = mahala.compare(Pairs(X, *pairs), rng.normal(size=50), learners={"LogisticMetric": learner})
    assert board.answers.kind == "quadruplets"
    assert not board.verdict.helps
    assert not board.same_items.verdict.helps
    assert 5 < board.same_items.verdict.n <= 25  # each rating is tested once


def test_directions_are_compared_where_the_cosine_predicts_more():
    """People look at directions, whatever the length of a row."""
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(40, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    a, b, c = rng.integers(40, size=(3, 500))
    near = np.sum((unit[a] - unit[b]) ** 2, axis=1) < np.sum((unit[a] - unit[c]) ** 2, axis=1)
    data = Triplets(unit * rng.uniform(0.1, 10.0, size=(40, 1)), a, np.where(near, b, c), np.where(near, c, b))
    learners = {"LogisticMetric": LogisticMetric(lam=0.1), "OASIS": OASIS(random_state=0)}
    board = compare(data, learners=learners)
    assert board.answers.unit_rows
    assert [board[name].unit_rows for name in ("cosine", *learners)] == [True, True, False]
    assert board.reference == "cosine"
    metric = refit_answers(data, None, unit_rows=True)
    different = (a != b) & (a != c) & (b != c)
    assert (metric.margins(data[different]) > 0.0).all()
    learned = refit_answers(data, LogisticMetric(lam=0.1), unit_rows=True)
    np.testing.assert_allclose(learned.transform(data.X), learned.transform(unit), atol=1e-9)


def test_too_few_items():
    data = triplets(4)
    data = Triplets(data.X, np.zeros(4, dtype=int), data.positive, data.negative)
    board = compare(data, learners={"LMNN": LMNN(max_iter=3)})
    assert board.verdict.kind == "too early to tell"
    assert not board.winner.learned
    with pytest.raises(ValueError, match="must not be empty"):
        mahala.compare(data[:0])
    with pytest.raises(ValueError, match="n_neighbors must be None with Triplets"):
        mahala.compare(data, n_neighbors=3)
    with pytest.raises(ValueError, match="learners must be learners by name, or names among LogisticMetric, LMNN"):
        mahala.compare(data, learners=["ITML"])
    with pytest.raises(ValueError, match="y must be None with triplets"):
        mahala.compare(data, [1, 1, 1, 1])


@given(st.integers(0, 2**16), st.booleans(), st.sampled_from([Pairs, Triplets, Quadruplets]))
def test_agreement_is_that_of_all_pairs_of_answers(seed, named, kind):
    rng = np.random.default_rng(seed)
    X, n = np.eye(4), int(rng.integers(1, 15))
    columns = rng.integers(0, 4, size=(kind._arity, n))
    data = Pairs(X, *columns, rng.random(n) < 0.5) if kind is Pairs else kind(X, *columns)
    people = rng.integers(0, 3, size=n) if named else None

    def question(i):
        """The set of what is compared, and the answer."""
        rows = columns[:, i].tolist()
        if kind is Pairs:
            return frozenset(rows), bool(data.similar[i])
        near, far = frozenset(rows[:2]), frozenset(rows[2:] if kind is Quadruplets else [rows[0], rows[2]])
        return frozenset([near, far]), near

    pairs = [(i, j) for i in range(n) for j in range(i) if question(i)[0] == question(j)[0]]
    others = [(i, j) for i, j in pairs if people is None or people[i] != people[j]]
    repeated, agreement = agreement_of(*questions_of(data), people)
    assert repeated == len({question(i)[0] for i, _ in pairs})
    if not others:
        assert agreement is None
    else:
        assert agreement == pytest.approx(np.mean([question(i)[1] == question(j)[1] for i, j in others]))


def test_a_metric_can_predict_more_than_two_people_agree():
    """Nine of ten people give the usual answer: that is predicted in 0.9 of the cases, but two agree in 0.82."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    a, b, c = (np.repeat(column, 10) for column in rng.permuted(np.tile(np.arange(40), (40, 1)), axis=1)[:, :3].T)
    right = (np.sum((X[a] - X[b]) ** 2, axis=1) < np.sum((X[a] - X[c]) ** 2, axis=1)) ^ (rng.random(400) < 0.1)
    board = compare(Triplets(X, a, np.where(right, b, c), np.where(right, c, b)), learners={})
    answers = board.answers
    assert answers.agreement < 1.0 - board.same_items["Euclidean"].error < answers.ceiling + 0.03
    assert answers.ceiling == pytest.approx(0.9, abs=0.03)
    assert f"below about {100.0 - 100.0 * answers.ceiling:.1f} %" in " ".join(repr(board).split())
    assert "below about" not in repr(replace(board, answers=answers._replace(n_repeated=1)))  # which tells nothing
    with pytest.raises(KeyError, match="no entry 'LMNN', only"):
        board["LMNN"]
    with pytest.raises(ValueError, match="groups must name who gave each of the 9 answers"):
        compare(triplets(9), learners={"LMNN": None}, groups=["ann"])  # before anything is fitted


def test_the_better_plain_distance_is_the_reference_without_new_items():
    """All answers have one anchor, and people look at directions."""
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(30, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    b, c = rng.integers(1, 30, size=(2, 200))
    near = np.sum((unit[0] - unit[b]) ** 2, axis=1) < np.sum((unit[0] - unit[c]) ** 2, axis=1)
    X = unit * rng.uniform(0.1, 10.0, size=(30, 1))
    data = Triplets(X, np.zeros(200, dtype=int), np.where(near, b, c), np.where(near, c, b))
    board = compare(data, learners={})
    assert np.isnan(board["cosine"].error)
    assert board.reference == "cosine"


def test_booleans_are_labels_and_other_options_are_refused():
    data = triplets(50)
    pairs = Pairs(data.X, data.anchor, data.positive)
    assert mahala.compare(pairs, np.arange(50) % 2 == 0, learners={}).answers.kind == "pairs"
    with pytest.raises(ValueError, match="pairs must be of both kinds"):
        mahala.compare(pairs, np.ones(50))
    for option in ({"scaling": "standard"}, {"metric": "f1"}, {"repeats": 3}):
        with pytest.raises(ValueError, match="must be 'auto' with Triplets"):
            mahala.compare(data, **option)
