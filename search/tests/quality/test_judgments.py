"""Judgments of items for queries: their forms, their order, and what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparisons.cases import moderate
from mahala_search import Judgments

TRIPLES = [(2, 1, 0.0), (0, 2, 1.0), (0, 0, 2.5)]
NESTED = {2: {1: 0.0}, 0: {2: 1.0, 0: 2.5}}


def as_set(judgments: Judgments) -> set[tuple[int, int, float]]:
    columns = (judgments.query, judgments.item, judgments.grade)
    return set(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def grades(draw: Any) -> dict[tuple[int, int], float]:
    pairs = st.tuples(st.integers(0, 5), st.integers(0, 7))
    return draw(st.dictionaries(pairs, st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]), max_size=30))


def test_every_form_gives_the_same_judgments() -> None:
    rows, items, values = zip(*TRIPLES, strict=True)
    forms: list[Any] = [
        TRIPLES,
        np.array(TRIPLES),
        [list(triple) for triple in TRIPLES],
        NESTED,
        Judgments(rows, items, values, 3, 4),
    ]
    for form in forms:
        judgments = Judgments.of(form, 3, 4)
        assert judgments.query.tolist() == [0, 0, 2]
        assert judgments.item.tolist() == [0, 2, 1]
        assert judgments.grade.tolist() == [2.5, 1.0, 0.0]
        assert judgments.indptr.tolist() == [0, 2, 2, 3]
        assert (judgments.n_queries, judgments.n_items, len(judgments)) == (3, 4, 3)
        assert judgments.judged_queries.tolist() == [0]
        assert (judgments.query.dtype, judgments.grade.dtype) == (np.intp, np.float64)
    assert Judgments.of(forms[-1], 3, 4) is forms[-1]


@moderate
@given(grades(), st.randoms(use_true_random=False))
def test_judgments_are_sorted_and_found_by_query(given_grades: dict[tuple[int, int], float], random: Any) -> None:
    triples = [(*pair, grade) for pair, grade in given_grades.items()] * random.choice([1, 2])  # equal duplicates
    random.shuffle(triples)
    judgments = Judgments.of(triples, 6, 8)
    assert as_set(judgments) == set(triples)
    assert len(judgments) == len(given_grades)
    assert sorted(zip(judgments.query, judgments.item, strict=True)) == list(
        zip(judgments.query, judgments.item, strict=True)
    )
    for i in range(6):
        items, values = judgments.of_query(i)
        expected = {item: grade for (query, item), grade in given_grades.items() if query == i}
        assert dict(zip(items.tolist(), values.tolist(), strict=True)) == expected
        assert (i in judgments.judged_queries) == any(grade > 0 for grade in expected.values())
        assert np.shares_memory(items, judgments.item) or not len(items)


@moderate
@given(grades(), st.lists(st.integers(0, 5), max_size=8))
def test_selected_queries_are_numbered_anew(given_grades: dict[tuple[int, int], float], rows: list[int]) -> None:
    judgments = Judgments.of([(*pair, grade) for pair, grade in given_grades.items()], 6, 8)
    part = judgments.select(np.array(rows, dtype=int))
    assert (part.n_queries, part.n_items) == (len(rows), 8)
    for new, old in enumerate(rows):
        for mine, theirs in zip(part.of_query(new), judgments.of_query(old), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_mask_selects_queries() -> None:
    part = Judgments.of(TRIPLES, 3, 4).select([False, False, True])
    assert as_set(part) == {(0, 1, 0.0)}


@pytest.mark.parametrize("rows", [[3], [-1], [0.0], [[0]], [True, False]])
def test_wrong_selections_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"queries must .*row numbers"):
        Judgments.of(TRIPLES, 3, 4).select(rows)


def test_judgments_by_ids() -> None:
    records = [("q7", 30, 1), ("q3", 10, 2), ("q7", 30, 1)]
    nested = {"q7": {30: 1}, "q3": {10: 2}}
    for form in (records, nested, iter(records)):
        judgments = Judgments.from_ids(form, np.array(["q3", "q7"]), iter([10, 20, 30]))
        assert as_set(judgments) == {(1, 2, 1.0), (0, 0, 2.0)}
        assert (judgments.n_queries, judgments.n_items) == (2, 3)


def test_judgments_are_immutable_also_when_copied() -> None:
    judgments = Judgments.of(TRIPLES, 3, 4)
    for same in (judgments, copy.deepcopy(judgments), pickle.loads(pickle.dumps(judgments))):
        assert as_set(same) == set(TRIPLES)
        with pytest.raises(ValueError, match="read-only"):
            same.grade[0] = 7.0
        with pytest.raises(AttributeError):
            same.n_items = 9  # type: ignore[misc]


@pytest.mark.parametrize("empty", [[], {}, np.empty((0, 3))])
def test_there_may_be_no_judgments(empty: Any) -> None:
    judgments = Judgments.of(empty, 3, 4)
    assert len(judgments) == 0
    assert judgments.judged_queries.tolist() == []
    assert [len(judgments.of_query(i)[0]) for i in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ([(3, 0, 1)], "query row numbers from 0 to 2, got grade 1 for query 3, item 0"),
        ([(0, 0, 1), (-1, 2, 1)], "query row numbers from 0 to 2, got grade 1 for query -1, item 2"),
        ([(0, 4, 1.5)], "item row numbers from 0 to 3, got grade 1.5 for query 0, item 4"),
        ([(0.5, 1, 1)], r"query row numbers that are integers, got grade 1 for query 0\.5, item 1"),
        ([(0, np.nan, 1)], "item row numbers from 0 to 3, got grade 1 for query 0, item nan"),
        ([(0, 1, -1)], "finite grades of at least 0, got grade -1 for query 0, item 1"),
        ([(0, 1, np.nan)], "finite grades of at least 0, got grade nan for query 0, item 1"),
        ([(0, 1, np.inf)], "finite grades of at least 0, got grade inf for query 0, item 1"),
        ([(0, 1, 1), (0, 2, 1), (0, 1, 2)], "one grade per query and item, got 1 and 2 for query 0, item 1"),
        (Judgments.of([], 3, 5), "judgments of 4 items for 3 queries, got 5 items and 3 queries"),
        ([("q", "d", 1)], "use Judgments.from_ids"),
        ({0: [1, 2]}, r"\{query: \{item: grade\}\}, got \[1, 2\] for 0"),
        ([0, 1, 2], r"triples \(query row, item row, grade\).*got an array of shape \(3,\)"),
        ([[0, 1], [1, 2]], r"got an array of shape \(2, 2\)"),
    ],
)
def test_wrong_judgments_are_refused(qrels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Judgments.of(qrels, 3, 4)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([("q", "a", 1), ("z", "a", 1)], "ids in query_ids, got unknown ones: 'z'$"),
        ([("q", i, 1) for i in range(7)], "ids in item_ids, got unknown ones: 0, 1, 2, 3, 4 and 2 more"),
        ([("q", "a", -1)], "got grade -1 for query 'q', item 'a'"),
        ([("q", "a", 1), ("q", "a", 2)], "got 1 and 2 for query 'q', item 'a'"),
        ([("q", "a", "high")], "grade must hold real numbers"),
        ([("q", "a")], r"records must be \(query id, item id, grade\), got \('q', 'a'\)"),
    ],
)
def test_wrong_records_are_refused(records: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Judgments.from_ids(records, ["q"], ["a", "b"])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="item_ids must differ, got 'a' twice"):
        Judgments.from_ids([], ["q"], ["a", "b", "a"])
    with pytest.raises(ValueError, match=r"n_items must be an integer of at least 0, got 2\.5"):
        Judgments.of([], 3, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one entry per judgment, got 2, 1 and 1"):
        Judgments([0, 1], [0], [1.0], 3, 4)
    with pytest.raises(ValueError, match=r"query must be 1-D, one number per judgment, got an array of shape \(1, 1\)"):
        Judgments([[0]], [0], [1.0], 3, 4)
    with pytest.raises(ValueError, match="i must be a query row number from 0 to 2, got 3"):
        Judgments.of([], 3, 4).of_query(3)
