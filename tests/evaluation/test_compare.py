"""Leaderboards: honest errors, intervals and verdicts."""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from mahala import LDA, MLKR, NCA, OASIS, RCA, MahalanobisMetric, NeighborRegressor
from mahala.data import TablePreprocessor
from mahala.evaluation.compare import ComparisonInterrupted, held_out
from mahala.evaluation.compare import compare as compare_with_baselines
from mahala.evaluation.cross_validation.fitting import refit
from mahala.evaluation.cross_validation.splits import parts_of
from mahala.judge import judge, mean_interval, paired_test

pytestmark = pytest.mark.usefixtures("few_rounds")
PANEL = {"LDA": LDA(), "RCA": RCA()}
compare = partial(compare_with_baselines, baselines=False, repeats=2)


def table(n=90, d=4, classes=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + spread * np.eye(classes, d)[y], y


def test_tables_are_preprocessed_in_each_training_part():
    """Medians and levels of all rows would tell of the test rows: here the error of k-NN is that of a pipeline."""
    rng, n = np.random.default_rng(0), 80
    y = np.arange(n) % 2
    size = rng.normal(size=n) + 10.0 * rng.integers(0, 2, n) + y
    size[rng.random(n) < 0.4] = np.nan
    kind = np.where(rng.random(n) < 0.05, [f"rare {i}" for i in range(n)], rng.choice(["a", "b"], n))
    frame = pandas.DataFrame({"size": size, "kind": kind, "noise": rng.normal(size=n)})
    board = compare(frame, y, PANEL, folds=4, repeats=2, scaling="none", n_neighbors=3)
    parts = parts_of(y, 4, 2, 0)
    errors, leaky = [], []
    for train, test in parts:
        for found, rows in ((errors, train), (leaky, np.arange(n))):
            made = TablePreprocessor().fit(frame.iloc[rows])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # rare values that the training part does not have
                X, X_test = made.transform(frame.iloc[train]), made.transform(frame.iloc[test])
            found.append(1.0 - KNeighborsClassifier(3).fit(X, y[train]).score(X_test, y[test]))
    np.testing.assert_allclose(board.euclidean.errors[:, 2], errors)
    assert not np.allclose(errors, leaky)
    made = TablePreprocessor()
    X = made.fit_transform(frame)
    given = compare(X, y, PANEL, folds=4, repeats=2, scaling="none", n_neighbors=3, preprocessor=made)
    np.testing.assert_array_equal(given.euclidean.errors, board.euclidean.errors)
    with pytest.raises(ValueError, match="preprocessor must have made X"):
        compare(rng.normal(size=(n, 2)), y, PANEL, preprocessor=made)


SCALES = {
    "none": lambda X: np.ones(X.shape[1]),
    "standard": lambda X: X.std(axis=0),
    "minmax": lambda X: np.ptp(X, axis=0),
    "robust": lambda X: np.subtract(*np.quantile(X, [0.75, 0.25], axis=0)),
}


@pytest.mark.parametrize("scaling", list(SCALES))
def test_errors_are_those_of_a_plain_loop(scaling):
    X, y = table()
    X = X * [1.0, 10.0, 0.1, 3.0]
    board = compare(X, y, PANEL, folds=2, repeats=2, scaling=scaling, n_neighbors=3, random_state=5)
    expected = {name: [] for name in ("Euclidean", "Euclidean, scaled", *PANEL)}
    sizes = []
    for train, test in RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=5).split(X, y):
        scales = SCALES[scaling](X[train])
        sizes.append(len(test))
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
        assert entry.error == pytest.approx(np.average(expected[entry.name], axis=0, weights=sizes)[1])


def test_intervals_and_the_verdict_are_over_rows():
    """Mistakes of a plain loop, averaged over repetitions, paired by row."""
    X, y = table(spread=1.0)
    board = compare(X, y, PANEL, folds=3, repeats=3, n_neighbors=5, scaling="none")
    wrong = {name: np.zeros((3, 90)) for name in ("Euclidean", *PANEL)}
    folds = np.zeros((3, 90), dtype=int)
    for part, (train, test) in enumerate(RepeatedStratifiedKFold(n_splits=3, n_repeats=3, random_state=0).split(X, y)):
        unit = np.sqrt(X[train].var(axis=0).mean())
        rows = {name: learner.fit(X[train] / unit, y[train]).transform(X / unit) for name, learner in PANEL.items()}
        for name, mapped in ({"Euclidean": X} | rows).items():
            model = KNeighborsClassifier(5, algorithm="kd_tree").fit(mapped[train], y[train])
            wrong[name][part // 3, test] = model.predict(mapped[test]) != y[test]
        folds[part // 3, test] = part
    for entry in board.entries:
        losses = wrong[entry.name].mean(axis=0)
        assert entry.error == pytest.approx(losses.mean())
        low, high = mean_interval(losses)
        assert (entry.low, entry.high) == pytest.approx((max(low, 0.0), min(high, 1.0)))
        expected = paired_test(losses - wrong["Euclidean"].mean(axis=0))[:3]
        assert (entry.difference, entry.difference_low, entry.difference_high) == pytest.approx(expected)
    errors = [entry.error for entry in board.entries]
    assert errors == sorted(errors)
    values = -np.stack([wrong[name] for name in ("Euclidean", *PANEL)], axis=2)
    decision = judge(values, folds, measure="5-NN error", units="rows")
    assert board.verdict[:-1] == pytest.approx(decision.verdict[:-1])
    assert board.chosen == ["Euclidean", *PANEL][decision.chosen]


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
    assert alone.verdict.sentence.startswith("No learner could be fitted here; ")
    assert not alone.verdict.helps


def test_learners_that_are_not_better_do_not_help(stored):
    stored({"LDA": 0.5, "RCA": 0.55})
    board = compare(*table(), PANEL)
    assert board.verdict.kind == "does not help"
    assert board.winner is board.euclidean
    assert (board.candidate, board.chosen) == (None, board.reference)
    assert board.headline.startswith("Does not help")
    best = board.best_learner
    assert board.verdict.sentence.startswith(
        f"Does not help: the best learner, {best.name}, has a {board.measure} of {100 * best.error:.1f} %, "
    )


def test_a_learner_that_is_better_helps(stored):
    stored({"LDA": 0.1})
    board = compare(*table(400), PANEL, n_neighbors=3)
    verdict = board.verdict
    assert (verdict.kind, verdict.n, verdict.repeats, verdict.wins) == ("shown to help", 400, 2, 2)
    assert board.winner is board.candidate
    assert board.winner.name == board.chosen
    assert verdict.low > 0.0
    assert verdict.p_value < 0.001
    assert board.headline == f"Shown to help: {board.chosen}"
    assert verdict.sentence == (
        f"Shown to help: {board.chosen} has a 3-NN error of {100 * board.winner.error:.1f} %, "
        f"{board.euclidean.spoken} {100 * board.euclidean.error:.1f} %. Chosen on other folds, it gains "
        f"{100 * verdict.gain:.1f} points over 400 rows "
        f"(95 % interval {100 * verdict.low:.1f} to {100 * verdict.high:.1f}, p < 0.001)."
    )


def test_a_tie_goes_to_euclidean(stored):
    stored({"Euclidean": 0.0, "LDA": 0.0, "RCA": 0.0})
    board = compare(*table(), PANEL, folds=3, repeats=2, scaling="none")
    assert [entry.error for entry in board.entries] == [0.0, 0.0, 0.0]
    assert (board.winner.name, board.chosen, board.verdict.helps) == ("Euclidean", "Euclidean", False)


def test_the_reference_is_the_best_plain_distance():
    X, y = table(spread=3.0)
    board = compare(X * [1.0, 1.0, 1.0, 1000.0], y, PANEL, repeats=2)
    assert board.reference == board.euclidean.name == "Euclidean, scaled"
    assert compare(X, y, PANEL, repeats=2, scaling="none").reference == "Euclidean"


def test_zeros_and_ones_are_left_as_they_are():
    """A rare category, divided by its small deviation, would dominate."""
    rng, n = np.random.default_rng(0), 200
    y = np.arange(n) % 2
    rare = (rng.random((n, 8)) < 0.03).astype(float)
    X = np.column_stack([rng.normal(size=(n, 2)) + 2.0 * y[:, None], rare])
    board = compare(X, y, PANEL, folds=3, repeats=1, n_neighbors=3)
    errors = {entry.name: entry.error for entry in board.entries}
    assert {"Euclidean", "Euclidean, scaled", "Euclidean, all scaled"} < set(errors)
    assert {entry.name: entry.scaling for entry in board.entries}["Euclidean, scaled"] == "numbers"
    assert errors["Euclidean, scaled"] < errors["Euclidean, all scaled"]
    expected = []
    for train, test in RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0).split(X, y):
        scales = np.concatenate([X[train, :2].std(axis=0), np.ones(8)])
        model = KNeighborsClassifier(board.n_neighbors, algorithm="kd_tree").fit(X[train] / scales, y[train])
        expected.append(1.0 - model.score(X[test] / scales, y[test]))
    [scaled] = [entry for entry in board.entries if entry.name == "Euclidean, scaled"]
    np.testing.assert_allclose(scaled.errors[:, board.n_neighbors - 1], expected, atol=1e-12)


def test_another_seed_draws_other_folds():
    """test_reproducible.py has the same seed, in any number of processes."""
    X, y = table()
    one, other = (compare(X, y, {"LDA": LDA()}, folds=2, repeats=1, random_state=seed).winner for seed in (1, 2))
    assert not np.array_equal(one.errors, other.errors)


@pytest.mark.usefixtures("stored")
def test_callback():
    X, y = table()
    told = []
    compare(X, y, PANEL, folds=3, repeats=2, callback=lambda *arguments: told.append(arguments))
    assert [done for done, _, _ in told] == list(range(1, 25))
    assert {total for _, total, _ in told} == {24}
    assert {name for _, _, name in told} == {"Euclidean", "Euclidean, scaled", "LDA", "RCA"}


@pytest.mark.usefixtures("stored")
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


@pytest.mark.usefixtures("stored")
def test_large_tables_are_sampled(monkeypatch):
    monkeypatch.setattr("mahala.evaluation.cross_validation.planning.most_rows", lambda n_features: 60)
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
        ({"repeats": 0}, "repeats must be"),
        ({"n_neighbors": 61}, "n_neighbors must be at most 60"),
        ({"scaling": "log"}, "scaling must be"),
        ({"metric": "accuracy"}, "metric must be"),
        ({"budget": 0.0}, "budget must be"),
        ({"learners": {}}, "learners must be one or more"),
        ({"learners": {"Euclidean": LDA()}}, "names other than 'Euclidean'"),
        ({"learners": {"Euclidean, all scaled": LDA()}}, "names other than 'Euclidean'"),
        ({"learners": ["LDA", "Fisher"]}, "names among PA-I, LDA, .* got 'Fisher'"),
        ({"learners": [LDA()]}, "names among PA-I, LDA, .* got LDA"),
        ({"learners": []}, "learners must be one or more"),
        ({"learners": {"it": NeighborRegressor()}}, "must predict classes here, but 'it' is a NeighborRegressor"),
        ({"learners": {"MLKR": MLKR()}}, "learn from classes, but MLKR learns target values"),
        ({"groups": np.zeros(90)}, "groups must have at least two different values"),
        ({"groups": np.arange(80)}, "groups must be 1-D"),
        ({"times": np.zeros(90)}, "times must have a past and a future"),
        ({"times": np.zeros(80)}, "times must have one value for each of the 90 rows"),
        ({"metric": "r2", "learners": {"OASIS": OASIS()}, "n_neighbors": 61}, "n_neighbors must be at most 60"),
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
    assert not plain.steps


@pytest.mark.usefixtures("stored")
def test_held_out_rows_are_not_learned_from():
    X, y = table()
    board = compare(X, y, PANEL, folds=3)
    metric, mask = held_out(X, y, LDA(), board)
    assert mask.sum() == 30
    expected = refit(X[~mask], y[~mask], LDA())
    np.testing.assert_array_equal(metric.matrix, expected.matrix)
    np.testing.assert_array_equal(metric.steps[0].scales, expected.steps[0].scales)


def test_the_panel_runs():
    X, y = table(60)
    board = compare(X, y, folds=2, repeats=1)
    assert len(board.entries) == 15
    assert all(entry.failure is None for entry in board.entries)
    assert all(entry.seconds >= 0.0 for entry in board.entries)


def test_the_confusion_matrix_is_that_of_the_test_rows():
    X, y = table(spread=1.0)
    board = compare(X, y, {"LDA": LDA()}, folds=3, repeats=2, scaling="none", n_neighbors=2)
    plain = board.euclidean
    expected = np.zeros((3, 3), dtype=int)
    for train, test in RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0).split(X, y):
        for row in test:
            nearest = y[train][np.argsort(((X[train] - X[row]) ** 2).sum(axis=1), kind="stable")[:2]]
            expected[y[row], np.bincount(nearest).argmax()] += 1
    np.testing.assert_array_equal(plain.confusion, expected)
    for entry in board.entries:
        assert entry.confusion.sum(axis=1).tolist() == [60, 60, 60]
        assert 1.0 - np.trace(entry.confusion) / entry.confusion.sum() == pytest.approx(entry.error)
    assert "confusion" not in board.table()[0]


def test_no_confusion_matrix_of_hundreds_of_classes_and_of_failures(stored):
    stored({"OASIS": "it has no distances"})
    y = np.repeat(np.arange(301), 2)
    many = compare(np.arange(1204.0).reshape(602, 2), y.astype(str), {"LDA": LDA()}, folds=2, repeats=1)
    assert len(many.classes) == 301
    assert {entry.confusion for entry in many.entries} == {None}
    failed = compare(*table(), {"OASIS": OASIS()}, folds=2, repeats=1)
    assert [entry.confusion is None for entry in failed.entries] == [entry.learned for entry in failed.entries]


def test_scaling_is_chosen_in_the_training_part():
    """Noise in small units harms once scaled, and noise in large units harms unless scaled."""
    X, y = table(n=300, classes=2, spread=4.0)
    noise = np.random.default_rng(1).normal(size=(300, 20))
    small = compare(np.column_stack([X, 0.01 * noise]), y, {"NCA": NCA(max_iter=5)}, folds=3, repeats=1, n_neighbors=3)
    assert {entry.name: entry.scaling for entry in small.entries}["NCA"] == "none"
    large = compare(X * [1.0, 1.0, 100.0, 100.0], y, {"NCA": NCA(max_iter=5)}, folds=3, repeats=1)
    assert {entry.name: entry.scaling for entry in large.entries} == {
        "NCA": "standard", "Euclidean": "none", "Euclidean, scaled": "standard"
    }  # fmt: skip


def fraud(n=400, share=0.05, seed=0):
    """Rare rows of a class that lie apart in one of five features."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < share * n, "fraud", "fine")
    X = rng.normal(size=(n, 5))
    X[y == "fraud", 0] += 3.0
    return X, y


def test_lopsided_classes_are_ranked_by_the_balanced_error():
    X, y = fraud()
    board = compare(X, y, PANEL, folds=4, repeats=1)
    assert (board.metric, board.majority, board.majority_error) == ("balanced", "fine", 0.05)
    assert (board.measure, board.n_neighbors) == ("balanced k-NN error", None)
    assert "over 75 % of rows are of class 'fine': always answering 'fine' has an error of 5.0 %" in board.notes[0]
    for entry in board.entries:
        assert entry.error == pytest.approx(entry.balanced_error)
        assert entry.plain_error < entry.balanced_error
    plain = compare(X, y, PANEL, folds=4, repeats=1, metric="error")
    assert (plain.metric, plain.notes) == ("error", ())


@pytest.mark.parametrize("metric", ["balanced", "f1", "roc_auc"])
@pytest.mark.parametrize("classes", [2, 3])
def test_losses_are_those_of_scikit_learn(metric, classes):
    X, y = table(n=120, classes=classes, spread=1.0)
    keep = (y != 1) | (np.arange(120) < 60)
    X, y = X[keep], y[keep]
    board = compare(X, y, {"LDA": LDA()}, folds=3, repeats=1, n_neighbors=5, metric=metric, scaling="none")
    [euclidean] = [entry for entry in board.entries if entry.name == "Euclidean"]
    for part, (train, test) in enumerate(RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0).split(X, y)):
        for k in (1, 5, 12):
            model = KNeighborsClassifier(k, algorithm="kd_tree").fit(X[train], y[train])
            predicted, shares = model.predict(X[test]), model.predict_proba(X[test])
            if metric == "balanced":
                expected = balanced_accuracy_score(y[test], predicted)
            elif metric == "f1":
                kind = {"average": "macro"} if classes > 2 else {"pos_label": 1}
                expected = f1_score(y[test], predicted, **kind)
            else:
                shares = shares if classes > 2 else shares[:, 1]
                expected = roc_auc_score(y[test], shares, multi_class="ovr")
            assert euclidean.errors[part, k - 1] == pytest.approx(1.0 - expected)


def test_baselines_are_context_only():
    X, y = fraud(share=0.3)
    board = compare_with_baselines(X, y, {"LDA": LDA()}, folds=3, repeats=1)
    assert [own.name for own in board.baselines] == ["cosine", "PCA"]
    models = {own.name: own for own in board.models}
    assert set(models) == {"NeighborClassifier", "logistic regression", "gradient boosting"}
    assert all(own.failure is None for own in (*board.baselines, *board.models))
    assert {own.kind for own in board.models} == {"model"}
    assert {own.kind for own in board.entries} == {"metric"}
    assert not set(models) & {entry.name for entry in board.entries}
    assert f"k-NN with PCA {100 * board.baselines[-1].error:.1f} %" in board.context()
    alone = compare(X, y, {"LDA": LDA()}, folds=3, repeats=1)
    assert (
        alone.context()
        == f"For context: k-NN with {alone.winner.spoken} {100 * alone.winner.error:.1f} %, always 'fine' 30.0 %."
    )
    assert compare(X, y, {"LDA": LDA()}, folds=3, repeats=1, metric="f1").context() is None
    expected = [
        np.mean(LogisticRegression().fit(X[train], y[train]).predict(X[test]) != y[test])
        for train, test in RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0).split(X, y)
    ]
    assert models["logistic regression"].error == pytest.approx(np.mean(expected), abs=0.01)


def test_a_budget_stops_learners_with_what_they_have():
    X, y = table(n=200, d=6)
    slow = NCA(max_iter=10**9, tol=0.0, callback=lambda _: time.sleep(0.02))
    learners = {"NCA": slow, "LDA": LDA()}
    started = time.monotonic()
    board = compare(X, y, learners, folds=2, repeats=1, budget=1.0)
    assert time.monotonic() - started < 10.0
    stopped = {entry.name: entry.stopped for entry in board.entries}
    assert stopped == {"NCA": 2, "LDA": 0, "Euclidean": 0, "Euclidean, scaled": 0}
    assert all(entry.failure is None for entry in board.entries)
    metric = refit(X, y, slow, seconds=0.1)
    assert metric.origin["stopped"] == "time"
    assert "stopped" not in refit(X, y, LDA(), seconds=0.1).origin


class Slow(LDA):
    """Cannot be stopped."""

    def fit(self, X, y=None):
        time.sleep(0.2)
        return super().fit(X, y)


def test_a_budget_that_is_spent_ends_the_comparison():
    X, y = table()
    board = compare(X, y, {"slow": Slow()}, folds=5, repeats=2, budget=0.5)
    assert board.partial
    assert 2 <= board.parts < 10
    assert board.notes == (f"Partial: the budget ended the comparison after {board.parts} of 10 test parts.",)
    assert len(board.entries[0].errors) == board.parts


def test_models_are_measured_where_the_budget_ends_the_comparison():
    X, y = table()
    board = compare_with_baselines(X, y, {"slow": Slow()}, folds=5, repeats=1, budget=0.5)
    assert board.partial
    assert {entry.name for entry in board.models} == {"NeighborClassifier", "logistic regression", "gradient boosting"}
    assert all(entry.difference == entry.difference for entry in board.models)  # on the rows of the learners
    assert {len(entry.errors) for entry in (*board.models, *board.baselines, *board.entries)} == {board.parts}


def interrupted_after(n, *args, **kwargs):
    """Press Ctrl-C after n cells."""

    def callback(done, total, name):
        if done == n:
            raise KeyboardInterrupt

    return compare(*args, callback=callback, **kwargs)


def test_ctrl_c_keeps_what_is_finished_and_the_same_call_goes_on(tmp_path):
    X, y = table()
    Spy.seen.clear()
    arguments = {"folds": 3, "repeats": 2, "resume": tmp_path / "cells.jsonl"}
    learners = {"LDA": LDA(), "spy": Spy()}
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_after(14, X, y, learners, **arguments)
    board = caught.value.leaderboard
    assert isinstance(caught.value, ComparisonInterrupted)
    assert (board.parts, board.partial) == (3, True)
    assert board.notes == ("Partial: Ctrl-C ended the comparison after 3 of 6 test parts.",)
    seen = len(Spy.seen)
    resumed = compare(X, y, learners, **arguments)
    assert len(Spy.seen) == 6
    assert seen == 3
    whole = compare(X, y, learners, folds=3, repeats=2)
    assert not resumed.partial
    for one, two in zip(resumed.entries, whole.entries, strict=True):
        assert one.name == two.name
        np.testing.assert_array_equal(one.errors, two.errors)
        assert (one.error, one.difference_low, one.scaling) == (two.error, two.difference_low, two.scaling)
    assert resumed.verdict == whole.verdict
    compare(X, y, learners, **arguments)
    assert len(Spy.seen) == 12  # of `whole`; the last one is from the file alone
    compare(X + 1.0, y, learners, **arguments)
    assert len(Spy.seen) == 18  # other rows begin anew


@pytest.mark.usefixtures("stored")
def test_ctrl_c_before_a_part_is_finished():
    X, y = table()
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_after(2, X, y, PANEL, folds=3)
    assert not isinstance(caught.value, ComparisonInterrupted)


def test_a_partial_comparison_of_one_part_is_one_fold():
    """No other fold could choose, so nothing is shown."""
    X, y = table()
    with pytest.raises(ComparisonInterrupted) as caught:
        interrupted_after(5, X, y, PANEL, folds=3)
    board = caught.value.leaderboard
    assert (board.parts, board.planned, board.partial) == (1, 6, True)
    assert board.winner is board.euclidean
    assert not board.verdict.helps
    assert (board.verdict.kind, board.verdict.n) == ("too early to tell", 30)
    assert board.verdict.sentence.startswith("Too early to tell: one test part was measured. The ")
    assert board.axis_end > 0.0
