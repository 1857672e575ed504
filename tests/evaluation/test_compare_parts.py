"""Comparisons with groups and times, the order of rows, and what is said of doubtful columns."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier

from mahala import LDA, RCA
from mahala.evaluation.compare import compare as compare_with_baselines
from mahala.evaluation.cross_validation.planning import make_plan
from mahala.evaluation.cross_validation.settings import Settings
from mahala.evaluation.cross_validation.splits import parts_of

pytestmark = pytest.mark.usefixtures("few_rounds")
compare = partial(compare_with_baselines, baselines=False)
PANEL = {"LDA": LDA(), "RCA": RCA()}


def households(n_groups=40, seed=0):
    """Rows of households, which are near each other and have one label."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), 4)
    y = rng.integers(0, 2, n_groups)[groups]
    X = rng.normal(size=(n_groups, 3))[groups] + 0.1 * rng.normal(size=(len(groups), 3))
    return X, y, groups


def plain_errors(X, y, parts, k):
    return [
        1.0 - KNeighborsClassifier(k, algorithm="kd_tree").fit(X[train], y[train]).score(X[test], y[test])
        for train, test in parts
    ]


def test_groups_are_in_one_part():
    X, y, groups = households()
    names = np.array([f"house {group}" for group in groups], dtype=object)
    board = compare(X, y, PANEL, groups=names, folds=4, repeats=2, n_neighbors=3, scaling="none")
    parts = parts_of(y, 4, 2, 0, np.unique(names, return_inverse=True)[1])
    np.testing.assert_allclose(board.euclidean.errors[:, 2], plain_errors(X, y, parts, 3), atol=1e-12)
    assert (board.verdict.units, board.verdict.n) == ("groups", 40)
    train, test = board.first_part
    assert not set(names[train]) & set(names[test])
    without = compare(X, y, PANEL, folds=4, repeats=1, n_neighbors=3, scaling="none")
    assert without.euclidean.error < 0.15
    assert board.euclidean.error > 0.3
    assert (without.verdict.units, without.verdict.n) == ("rows", 160)


@pytest.mark.usefixtures("stored")
def test_few_groups_are_few_folds():
    X, y, _ = households()
    groups = np.arange(160) % 3
    board = compare(X, y, PANEL, groups=groups, folds=5, repeats=1)
    assert (board.folds, board.planned) == (3, 3)
    assert (board.verdict.kind, board.verdict.n, board.winner) == ("too early to tell", 3, board.euclidean)


def test_the_past_predicts_the_future():
    rng = np.random.default_rng(0)
    times = rng.permutation(120) // 2
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + y[:, None]
    days = np.datetime64("2024-01-01") + times
    board = compare(X, y, PANEL, times=days, folds=4, n_neighbors=3, scaling="none")
    parts = parts_of(y, 4, 1, 0, None, times.astype(float))
    np.testing.assert_allclose(board.euclidean.errors[:, 2], plain_errors(X, y, parts, 3), atol=1e-12)
    assert (board.folds, board.repeats, board.planned) == (4, 1, 4)
    train, test = board.first_part
    assert days[train].max() < days[test].min()
    assert board.verdict.n == sum(len(test) for _, test in parts)
    assert board.euclidean.confusion.sum() == board.verdict.n


def shuffled_errors(X, y, times, seed):
    """Errors of all entries, of the rows and of the same rows in another order, on the same test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    boards = [
        compare(X[rows], y[rows], PANEL, times=times[rows], folds=3, n_neighbors=3)
        for rows in (np.arange(len(y)), order)
    ]
    return [{entry.name: entry.errors for entry in board.entries} for board in boards]


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 4))[rng.integers(0, 40, 120)]  # some rows are the same, with other labels
    one, two = shuffled_errors(X, rng.integers(0, 3, 120), np.arange(120) // 20, seed)
    assert one.keys() == two.keys()
    for name, errors in one.items():
        np.testing.assert_allclose(errors, two[name], atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_whole_numbers_does_not_matter(seed):
    """Many rows are equally far away, and sums of scaled features in another order differ by rounding."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(120, 4)).astype(float)
    one, two = shuffled_errors(X, rng.integers(0, 3, 120), np.arange(120) // 20, seed)
    for name, errors in one.items():
        np.testing.assert_allclose(errors, two[name], atol=1e-12, err_msg=name)


def test_a_sorted_table_has_the_error_of_a_shuffled_one():
    """Of few different rows, those of the first class came first, and won all ties."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, 2, 300))
    X = np.column_stack([rng.random(300) < 0.3 + 0.4 * y, rng.random(300) < 0.5]).astype(float)
    order = rng.permutation(300)
    errors = [
        compare(X[rows], y[rows], PANEL, repeats=2, n_neighbors=3).euclidean.error for rows in (slice(None), order)
    ]
    best = min(np.mean((X[:, 0] > 0) != y), 0.5)
    assert errors == pytest.approx([best, best], abs=0.03)


def frame_of(seed=0):
    X, y, groups = households(seed=seed)
    numbers = np.random.default_rng(seed).permutation(1000)[:40]
    return pandas.DataFrame(X, columns=["a", "b", "c"]).assign(household=numbers[groups]), y, numbers[groups]


def copied(n=60, times=3, seed=0):
    """Rows that stand several times, in any order, with labels at random that copies share."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(n), times))
    return rng.normal(size=(n, 3))[rows], rng.integers(0, 2, n)[rows], rows


@pytest.mark.parametrize("kind", ["classes", "number", "times", "groups"])
def test_copies_of_a_row_are_in_one_part(kind):
    X, y, rows = copied()
    crossed = np.where(np.arange(len(y)) == 0, 29, rows // 2)  # a copy is in another group
    options = {"times": {"times": np.arange(len(y))}, "groups": {"groups": crossed}}.get(kind, {})
    target = np.random.default_rng(1).normal(size=60)[rows] if kind == "number" else y
    settings = Settings(folds=3, repeats=2, **options)
    plan = make_plan(X, target, PANEL, settings)
    for train, test in plan.parts:
        assert len(test)
        assert not set(rows[train]) & set(rows[test])
        assert kind != "groups" or not set(rows[train] // 2) & set(rows[test] // 2)
    assert plan.unit == ("groups" if kind == "groups" else "different rows")
    tested = np.bincount(np.concatenate([test for _, test in plan.parts]), minlength=len(y))
    assert kind == "times" or (tested == 2).all()


def test_a_rare_class_is_in_each_part_though_its_rows_are_copies_of_others():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    X, y = np.vstack([X, X]), np.append(y, y)
    y[[30, 31]] = 2  # copies of the first two rows
    parts = make_plan(X, y, PANEL, Settings(folds=2, repeats=1)).parts
    assert all((y[train] == 2).any() and (y[test] == 2).any() for train, test in parts)
    y[[0, 1]] = 3  # of each set of copies one class counts
    with pytest.raises(ValueError, match="the labels y must have at least two rows of each class"):
        make_plan(X, y, PANEL, Settings(folds=2, repeats=1))


def test_copies_are_counted_and_the_error_is_that_on_new_rows():
    X, y, _ = copied()
    board = compare(X, y, PANEL, folds=3, repeats=2, n_neighbors=1)
    assert board.euclidean.error > 0.3
    assert board.verdict.n == 60
    assert "different rows" in board.verdict.sentence
    caution = next(caution for caution in board.cautions if "copies" in caution.subject)
    assert caution.subject == "120 of 180 rows are copies"
    assert caution.sentence == (
        "120 of 180 rows are copies of others (all with the same label). Copies are kept in one part, so that errors "
        "are those on new rows."
    )
    assert caution.subject in board.headline
    changed = np.where(np.arange(180) < 20, 1 - y, y)
    some = compare(X, changed, PANEL, folds=3, repeats=1, n_neighbors=1)
    assert any("with the same label)" in caution.sentence for caution in some.cautions)
    assert not any("copies" in subject for subject in subjects(compare(X[:20], y[:20], PANEL, folds=2, repeats=1)))


def test_copies_are_no_leak():
    X, y = load_wine(return_X_y=True)
    board = compare(np.tile(X, (3, 1)), np.tile(y, 3), ["LDA"], folds=3, repeats=1, n_neighbors=3)
    assert subjects(board) == ["356 of 534 rows are copies"]


def test_a_column_of_groups_is_named_with_the_error_on_new_groups():
    frame, y, groups = frame_of()
    board = compare(frame, y, PANEL, folds=4, repeats=1, n_neighbors=3)
    [caution] = board.cautions
    new = compare(frame, y, PANEL, folds=4, repeats=1, n_neighbors=3, groups=groups)
    on_new = new[board.reference].error
    assert caution.sentence == (
        "Column 'household' looks like an id of groups, because rows with the same value share the label. On "
        f"new groups the 3-NN error of {board.euclidean.spoken} is {100 * on_new:.1f} %, not "
        f"{100 * board.euclidean.error:.1f} %: pass it as groups, or drop it."
    )
    assert on_new > board.euclidean.error + 0.2
    assert board.headline.endswith("(caution: a column of groups)")
    assert "a column of groups" not in subjects(new)
    assert "a column of groups" not in subjects(compare(frame[["a", "b", "c"]], y, PANEL, repeats=1))


def subjects(board):
    return [caution.subject for caution in board.cautions]


def test_the_column_of_groups_is_that_by_which_the_error_rises_most():
    """Rows of one age share the label, but the other features of a row are those of its family."""
    frame, y, groups = frame_of()
    names = np.array([f"family {group}" for group in groups], dtype=object)
    age = 20 + 2 * np.random.default_rng(0).integers(0, 15, len(y)) + y
    street = np.random.default_rng(1).permutation(200)[
        np.unique(groups, return_inverse=True)[1] // 2
    ]  # of two families
    board = compare(frame.drop(columns="household").assign(age=age, street=street, family=names), y, PANEL, repeats=1)
    leak, caution = map(str, board.cautions)
    assert leak.startswith("Column 'age' alone")  # which is odd for one class; families determine the label, too
    assert caution.startswith("Column 'family' looks like an id of groups")


@pytest.mark.parametrize("seed", range(2))
def test_a_column_by_which_the_error_does_not_rise_is_no_group(seed):
    """Rows with the same month share the label, and their other features say so."""
    rng = np.random.default_rng(seed)
    month = rng.integers(0, 40, 400)
    y = rng.integers(0, 2, 40)[month]
    frame = pandas.DataFrame({"month": month, "a": 8.0 * y + rng.normal(size=400)})
    assert "a column of groups" not in subjects(compare(frame, y, PANEL, repeats=1))


@pytest.mark.usefixtures("stored")
def test_a_column_that_gives_the_label_away_is_named():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    frame = pandas.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"]).assign(code=10.0 * y + rng.random(90))
    board = compare(frame, y, PANEL, folds=3, repeats=1)
    assert [*map(str, board.cautions)] == ["Column 'code' alone nearly determines the label: a leak? If so, drop it."]
    assert board.headline.endswith("(caution: a possible leak)")
    assert compare(frame[["a", "b"]], y, PANEL, folds=3, repeats=1, n_neighbors=25).cautions == ()


def eggs(seed=0):
    """Rows of four years, whose class depends on the year and a little on the other columns."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.integers(0, 1400, 120))
    y = (days // 350 + (rng.random(120) < 0.2)) % 2
    frame = pandas.DataFrame(rng.normal(size=(120, 2)) + 0.3 * y[:, None], columns=["a", "b"])
    return frame.assign(**{"Date Egg": pandas.Timestamp("2019-01-01") + pandas.to_timedelta(days, "D")}), y


def test_a_distance_that_is_mostly_a_date_is_named():
    frame, y = eggs()
    board = compare(frame, y, {"RCA": RCA()}, folds=3, repeats=1, n_neighbors=3)
    assert board.winner.name == "Euclidean"  # of days and small numbers
    [caution] = board.cautions
    assert caution.sentence == (
        "100 % of the distance is 'Date Egg', a date (Euclidean): rows that were recorded one after the other are "
        "near. Drop this column, unless rows should be compared by it."
    )
    assert board.headline.endswith("(caution: a date or number of rows)")
    numbers = frame.assign(**{"Date Egg": np.random.default_rng(1).permutation(120) + 0.5})
    assert "a date or number of rows" not in subjects(compare(numbers, y, PANEL, folds=3, repeats=1, scaling="none"))


@pytest.mark.parametrize("kind", ["number", "classes", "array"])
def test_columns_that_give_the_label_away_together_are_named(kind):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(200, 4)), columns=["a", "b", "c", "d"])
    y = (frame["a"] + frame["c"]).to_numpy() / 2.0
    y = np.where(y > 0.0, "high", "low") if kind == "classes" else y
    if kind == "number":
        frame = frame + 10.0
        y = np.hypot(frame["a"], frame["c"]).to_numpy()
    rows, names = (frame.to_numpy(), "'x0' and 'x2'") if kind == "array" else (frame, "'a' and 'c'")
    board = compare_with_baselines(rows, y, PANEL if kind == "classes" else ["LDA"], folds=3, repeats=1)
    [caution] = board.cautions
    assert caution.subject == "a possible leak"
    assert caution.sentence.startswith(f"Columns {names} together nearly determine the label (")
    assert caution.sentence.endswith("): a leak? If so, drop them.")
    linear = next(entry for entry in board.models if "regression" in entry.name)
    assert linear.error < 0.02
    noise = rng.normal(size=200) if kind == "number" else rng.integers(0, 2, 200)
    assert "a possible leak" not in subjects(compare(rows, noise, ["LDA"], folds=3, repeats=1))


@pytest.mark.parametrize(("metric", "constant"), [("error", 0.3), ("balanced", 0.5)])
def test_an_error_above_that_of_a_constant_answer_is_said(metric, constant, stored):
    rows = np.random.default_rng(1).normal(size=(100, 3)), np.repeat(["yes", "no"], [70, 30])
    stored(dict.fromkeys(("Euclidean", "Euclidean, scaled", *PANEL), 0.6))
    board = compare(*rows, PANEL, folds=3, repeats=1, metric=metric)
    assert board.winner.error > constant
    [caution] = board.cautions
    assert caution.sentence == (
        f"k-NN is worse than always answering 'yes': {100 * board.winner.error:.1f} % against {100 * constant:.1f} %."
    )
    stored()
    assert compare(*rows, PANEL, folds=3, repeats=1, metric=metric).cautions == ()


def test_probably_helps_names_both(stored):
    """Few rows and a small gain: the learner is chosen, and the plain distance stays the winner."""
    stored({"LDA": 0.3})
    X, y, _ = households(20)
    board = compare(X, y, {"LDA": LDA()}, folds=3, repeats=2, n_neighbors=3)
    verdict = board.verdict
    assert verdict.kind == "probably helps"
    assert (board.candidate.name, board.winner) == ("LDA", board.euclidean)
    assert verdict.low <= 0.0 < verdict.gain
    assert verdict.p_value > 0.05
    assert verdict.sentence.startswith(f"Probably helps ({verdict.wins} of 2 repeats): LDA has a 3-NN error of ")
    assert verdict.sentence.endswith("More rows are needed to be sure.")


def test_baselines_weight_classes_under_the_balanced_error():
    rng = np.random.default_rng(0)
    y = (np.arange(300) < 30).astype(int)
    X = rng.normal(size=(300, 3)) + 1.2 * y[:, None]
    found = {}
    for metric in ("balanced", "error"):
        board = compare_with_baselines(X, y, {"LDA": LDA()}, folds=3, repeats=1, metric=metric)
        found[metric] = {entry.name: entry.balanced_error for entry in board.models}
    for name in ("logistic regression", "gradient boosting", "NeighborClassifier"):
        assert found["balanced"][name] < found["error"][name] - 0.03
