"""Leaderboards: honest errors, intervals and verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from mahala import GML, LDA, OASIS, RCA, MahalanobisMetric, Relief
from mahala.evaluation.cross_validation import compare, corrected_t, default_panel, held_out, refit
from mahala.evaluation.statistics import holm
from mahala.learner import Learner

PANEL = {"LDA": LDA(), "RCA": RCA()}


def table(n=90, d=4, classes=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + spread * np.eye(classes, d)[y], y


def noisy(seed=0):
    """One informative feature among 30 noisy ones."""
    rng = np.random.default_rng(seed)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 31))
    X[:, 3] += 3.0 * y
    return X, y


def plain_corrected_t(differences, n_train, n_test):
    """Nadeau and Bengio (2003), section 3: t = mean / sqrt((1/J + n2/n1) s²)."""
    J = len(differences)
    mean = sum(differences) / J
    variance = sum((x - mean) ** 2 for x in differences) / (J - 1)
    error = ((1 / J + n_test / n_train) * variance) ** 0.5
    half = stats.t.interval(0.95, J - 1)[1] * error
    return mean, mean - half, mean + half, 2 * (1 - stats.t.cdf(abs(mean / error), J - 1))


@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=20).filter(lambda v: np.std(v) > 0.02), st.integers(2, 10))
def test_corrected_t_is_the_papers(values, folds):
    ours = corrected_t(np.array(values), folds, 0.01)
    np.testing.assert_allclose(ours, plain_corrected_t(values, folds - 1.0, 1.0), rtol=1e-9, atol=1e-12)


def test_equal_differences_are_not_certain():
    """Two parts that differ by one row each prove nothing, though they vary by nothing."""
    mean, low, high, p = corrected_t(np.array([0.1, 0.1]), 2, 0.1)
    assert low < mean < high
    assert p > 0.05
    assert corrected_t(np.zeros(10), 5, 0.1)[3] == 1.0


@pytest.mark.parametrize("scaling", ["standard", "none"])
def test_errors_are_those_of_a_plain_loop(scaling):
    X, y = table()
    X = X * [1.0, 10.0, 0.1, 3.0]
    board = compare(X, y, PANEL, folds=4, repeats=2, scaling=scaling, random_state=5)
    expected = {name: [] for name in ("Euclidean", "Euclidean, scaled", *PANEL)}
    for train, test in RepeatedStratifiedKFold(n_splits=4, n_repeats=2, random_state=5).split(X, y):
        scales = X[train].std(axis=0) if scaling == "standard" else np.ones(4)
        rows = {"Euclidean": X, "Euclidean, scaled": X / scales}
        for name, learner in PANEL.items():
            rows[name] = learner.fit(X[train] / scales, y[train]).transform(X / scales)
        for name, own in rows.items():
            errors = []
            for k in (1, 3, 5, 25):
                model = KNeighborsClassifier(k, algorithm="kd_tree").fit(own[train], y[train])
                errors.append(1.0 - model.score(own[test], y[test]))
            expected[name].append(errors)
    if scaling == "none":
        del expected["Euclidean, scaled"]
    assert {entry.name for entry in board.entries} == set(expected)
    for entry in board.entries:
        np.testing.assert_allclose(entry.errors[:, [0, 2, 4, 24]], expected[entry.name], atol=1e-12)
        assert entry.error == pytest.approx(np.mean(expected[entry.name], axis=0)[1])


def test_differences_intervals_and_adjusted_p_values():
    X, y = table(spread=1.0)
    board = compare(X, y, PANEL, folds=3, repeats=3, n_neighbors=5)
    base = board.euclidean
    tests = {
        e.name: plain_corrected_t(e.errors[:, 4] - base.errors[:, 4], 2.0, 1.0) for e in board.entries if e.learned
    }
    adjusted = holm([test[3] for test in tests.values()])
    for (name, expected), p in zip(tests.items(), adjusted, strict=True):
        entry = next(e for e in board.entries if e.name == name)
        assert (entry.difference, entry.difference_low, entry.difference_high) == pytest.approx(expected[:3])
        assert entry.p_value == pytest.approx(p)
        mean, low, high, _ = plain_corrected_t(entry.errors[:, 4], 2.0, 1.0)
        assert (entry.error, entry.low, entry.high) == pytest.approx((mean, max(low, 0.0), min(high, 1.0)))
    errors = [entry.error for entry in board.entries]
    assert errors == sorted(errors)


class Spy(LDA):
    """Notes the rows that it is fitted on."""

    seen: list = []  # noqa: RUF012  (shared by clones on purpose)

    def fit(self, X, y=None):
        Spy.seen.append(np.array(X))
        return super().fit(X, y)


def test_scales_come_from_the_training_part_alone():
    """Each training part, as the learner sees it, has unit variance: with scales of all rows it would not."""
    Spy.seen.clear()
    X, y = table()
    compare(X, y, {"spy": Spy()}, folds=3, repeats=1)
    assert len(Spy.seen) == 3
    for rows in Spy.seen:
        assert len(rows) == 60
        np.testing.assert_allclose(rows.std(axis=0), 1.0)
        assert np.abs(rows - X[:60] / X.std(axis=0)).max() > 1e-3


def test_all_learners_see_the_same_parts():
    X, y = table()
    board = compare(X, y, {"one": LDA(), "two": LDA()}, folds=3)
    one, two = (entry for entry in board.entries if entry.learned)
    np.testing.assert_array_equal(one.errors, two.errors)


class Broken(LDA):
    def fit(self, X, y=None):
        raise RuntimeError("no luck <today>")


class Indefinite(LDA):
    metric_ = MahalanobisMetric(np.diag([1.0, 1.0, 1.0, -1.0]))


def test_a_failure_is_an_entry():
    X, y = table()
    learners = {"broken": Broken(), "OASIS": OASIS(), "indefinite": Indefinite(), "LDA": LDA()}
    board = compare(X, y, learners, folds=3)
    failed = {entry.name: entry.failure for entry in board.entries[-3:]}
    assert failed == {
        "indefinite": "Indefinite learned a metric that is not positive semi-definite",
        "broken": "no luck <today>",
        "OASIS": "OASIS learns a bilinear similarity, which has no distances",
    }
    assert all(np.isnan(entry.error) for entry in board.entries[-3:])
    assert board.best_learner.name == "LDA"
    alone = compare(X, y, {"broken": Broken()}, folds=3)
    assert alone.best_learner is None
    assert not alone.winner.learned
    assert alone.verdict().startswith("No learner could be fitted here")


def test_noise_beats_nobody():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 6)), rng.integers(0, 2, size=120)
    board = compare(X, y, {"LDA": LDA(), "GML": GML(), "Relief": Relief()})
    assert not board.beats_euclidean
    assert board.verdict().startswith("No learner beats Euclidean here: the best, ")
    assert board.winner is board.entries[0]


def test_one_feature_of_many_is_found():
    board = compare(*noisy(), {"LDA": LDA(), "GML weights": GML(diagonal=True)})
    assert board.beats_euclidean
    assert board.winner.learned
    words = board.verdict()
    assert words.startswith(f"{board.winner.name} cuts the 3-NN error from {100 * board.euclidean.error:.1f} % (")
    assert (
        f"to {100 * board.winner.error:.1f} % ({-100 * board.winner.difference:.1f} points less, 95 % interval" in words
    )
    assert f"p = {board.winner.p_value:.2g}, adjusted for 2 learners)." in words


def test_a_tie_goes_to_euclidean():
    X, y = table(spread=50.0)
    board = compare(X, y, PANEL, folds=3, scaling="none")
    assert [entry.error for entry in board.entries] == [0.0, 0.0, 0.0]
    assert board.winner.name == "Euclidean"
    assert not board.beats_euclidean


def test_rounding_is_no_difference():
    ours, theirs = np.array([7, 1, 2, 2, 2, 7]) / 3, np.array([2, 7, 7, 2, 1, 2]) / 3
    assert (ours - theirs).mean() > 0.0
    mean, low, high, p_value = corrected_t(ours - theirs, 2, 0.1)
    assert (mean, low, p_value) == (0.0, -high, 1.0)


def test_scaling_that_matters_is_said():
    X, y = table(spread=3.0)
    board = compare(X * [1.0, 1.0, 1.0, 1000.0], y, PANEL)
    assert board.euclidean.name == "Euclidean, scaled"
    assert "Scaling the features alone takes Euclidean from" in board.verdict()


def test_same_seed_same_numbers_in_any_number_of_processes():
    X, y = table()
    learners = {"LDA": LDA(), "Relief": Relief(n_samples=20)}
    boards = [compare(X, y, learners, folds=2, random_state=1, n_jobs=n_jobs) for n_jobs in (1, 2)]
    other = compare(X, y, learners, folds=2, random_state=2)
    for one, two in zip(*(board.entries for board in boards), strict=True):
        assert one.name == two.name
        np.testing.assert_array_equal(one.errors, two.errors)
    assert any(
        not np.array_equal(one.errors, next(e for e in other.entries if e.name == one.name).errors)
        for one in boards[0].entries
    )


def test_callback():
    X, y = table()
    told = []
    compare(X, y, PANEL, folds=3, repeats=2, callback=lambda *arguments: told.append(arguments))
    assert [done for done, _, _ in told] == list(range(1, 25))
    assert {total for _, total, _ in told} == {24}
    assert {name for _, _, name in told} == {"Euclidean", "Euclidean, scaled", "LDA", "RCA"}


def test_small_classes():
    X, y = table(30)
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[:2] = "rare"
    board = compare(X, labels, PANEL)
    assert board.folds == 2
    assert board.notes == ("2 folds instead of 5, because class 'rare' has only 2 rows.",)
    assert board.classes == ("a", "b", "c", "rare")
    labels[0] = "alone"
    with pytest.raises(ValueError, match="one of 'alone', 'rare'"):
        compare(X, labels, PANEL)
    with pytest.raises(ValueError, match="two classes, got only 'a'"):
        compare(X, ["a"] * 30, PANEL)


def test_large_tables_are_sampled(monkeypatch):
    monkeypatch.setattr("mahala.evaluation.cross_validation.MOST_ROWS", 60)
    X, y = table(300)
    y[:295] = np.arange(295) % 2
    y[295:] = 2
    board = compare(X, y, PANEL, folds=3)
    assert len(board.rows) == len(set(board.rows.tolist())) < 65
    assert (y[board.rows] == 2).sum() == 3
    assert board.notes == (
        f"A sample of {len(board.rows)} of the 300 rows was compared, with the same share of each class.",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folds": 1}, "folds must be at least 2"),
        ({"repeats": 0}, "repeats must be an integer"),
        ({"n_neighbors": 61}, "n_neighbors must be at most 60"),
        ({"scaling": "log"}, "scaling must be"),
        ({"learners": {}}, "learners must be one or more"),
        ({"learners": {"Euclidean": LDA()}}, "names other than 'Euclidean'"),
    ],
)
def test_wrong_arguments(arguments, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        compare(X, y, **({"learners": PANEL, "folds": 3} | arguments))


def test_wrong_learners_and_too_many_features():
    X, y = table()
    with pytest.raises(TypeError, match="learners of mahala"):
        compare(X, y, {"knn": KNeighborsClassifier()})
    with pytest.raises(ValueError, match="at most 5000 can be compared"):
        compare(np.zeros((10, 5001)), np.arange(10) % 2, PANEL)


def test_sparse_rows():
    X, y = table()
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (compare(rows, y, PANEL, folds=3) for rows in (X, sp.csr_array(X)))
    for one, two in zip(dense.entries, sparse.entries, strict=True):
        assert one.error == pytest.approx(two.error, abs=1e-9)


def test_refit_takes_raw_rows():
    X, y = table()
    X = X * [1.0, 10.0, 0.1, 3.0]
    names = ["a", "b", "c", "d"]
    metric = refit(X, y, LDA(), feature_names=names)
    scaled = LDA().fit(X / X.std(axis=0), y).metric_
    np.testing.assert_allclose(metric.pairwise(X), scaled.pairwise(X / X.std(axis=0)))
    assert metric.feature_names == tuple(names)
    assert metric.origin["learner"] == "LDA"
    plain = refit(X, y, None, "none")
    np.testing.assert_allclose(plain.distance(X[0], X[1]), np.linalg.norm(X[0] - X[1]))
    assert plain.scales is None


def test_held_out_rows_are_not_learned_from():
    X, y = table()
    board = compare(X, y, PANEL, folds=3)
    metric, mask = held_out(X, y, LDA(), board)
    assert mask.sum() == 30
    expected = refit(X[~mask], y[~mask], LDA())
    np.testing.assert_array_equal(metric.matrix, expected.matrix)
    np.testing.assert_array_equal(metric.scales, expected.scales)


@pytest.mark.parametrize("shape", [(150, 4), (1797, 64), (5000, 784), (20_000, 16), (20_000, 300), (500, 3000)])
def test_panels_are_learners(shape):
    panel = default_panel(*shape)
    assert "LDA" in panel
    assert all(isinstance(learner, Learner) for learner in panel.values())


def test_the_panel_runs():
    X, y = table(60)
    board = compare(X, y, folds=2, repeats=1)
    assert len(board.entries) == 11
    assert all(entry.failure is None for entry in board.entries)
    assert all(entry.seconds >= 0.0 for entry in board.entries)
