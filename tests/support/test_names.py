"""Rows by name: answers that name items, and what is said where a name is missing or repeated."""

from __future__ import annotations

import numpy as np
import pytest

from mahala import Pairs, Triplets
from mahala.support.names import RowNames

NAMES = ["oak", "elm", "fir"]
X = np.eye(3)


def test_triplets_and_pairs_from_an_index_or_from_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, index=NAMES, columns=["a", "b", "c"])
    for triplets in (
        Triplets.from_names(table, [("fir", "oak", "elm")]),
        Triplets.from_names(X, [("fir", "oak", "elm")], names=NAMES),
        Triplets.from_names(table, pandas.DataFrame({"farther": ["elm"], "query": ["fir"], "nearer": ["oak"]})),
        Triplets.from_names(X, np.array([[7, 5, 6]]), names=[5, 6, 7]),
    ):
        assert [*triplets.anchor, *triplets.positive, *triplets.negative] == [2, 0, 1]
    assert Triplets.from_names(table, [("fir", "oak", "elm")]).feature_names == ("a", "b", "c")
    pairs = Pairs.from_names(table, [("fir", "oak", 1), ("elm", "oak", -1)])
    assert [*pairs.left, *pairs.right, *pairs.similar] == [2, 1, 0, 0, True, False]
    assert Pairs.from_names(table, pandas.DataFrame({"left": ["fir"], "right": ["oak"]})).similar is None


@pytest.mark.parametrize(
    ("answers", "names", "message"),
    [
        (
            [("fir", "oak", "elm"), ("fir", "Elms", "oak")],
            NAMES,
            r"answer 2: 'Elms' is not .* \(did you mean 'elm'\?\)",
        ),
        (
            [("fir", "oak", "elm")],
            ["oak", "fir", "fir"],
            "answer 1: 'fir' is the name of 2 items, such as rows 1 and 2",
        ),
        ([("fir", "oak", "elm")], NAMES[:2], "names must hold a name for each of the 3 rows of X, got 2"),
        ([("fir", "oak")], NAMES, r"answers must be tuples \(anchor, positive, negative\) or a data frame"),
        (NAMES, NAMES, "answers must be tuples"),
        ([("fir", "oak", "elm")], None, "names must be given, or X be a data frame of pandas whose index"),
    ],
)
def test_what_is_wrong_is_named(answers, names, message):
    with pytest.raises(ValueError, match=message):
        Triplets.from_names(X, answers, names)


def test_names_in_a_column_are_found():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"tree": NAMES, "height": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"the column 'tree' has it: use X\.set_index\('tree'\)"):
        Triplets.from_names(table, [("fir", "oak", "elm")])


def test_only_names_that_are_looked_up_must_differ():
    names = RowNames(["oak", "elm", "oak"])
    assert names.rows(["elm"]).tolist() == [1]
    with pytest.raises(ValueError, match="'oak' is the name of 2 items"):
        names.check_distinct()
