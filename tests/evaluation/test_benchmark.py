"""Learners on several data sets: what is measured, kept and tested."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import mahala
from mahala.evaluation import Holdout, bayesian_signed_rank, benchmark

IRIS = load_iris(return_X_y=True)


class Counting:
    """A protocol that counts its calls; errors depend on the names only."""

    def __init__(self):
        self.calls = []

    def __call__(self, learner, dataset, run):
        self.calls.append((learner, dataset, run))
        return {"error": 0.1 * len(learner) + 0.01 * dataset + 0.001 * run, "seconds": 1.0}

    def __getstate__(self):
        return {}


def test_errors_of_learners_from_any_package():
    learners = {
        "Euclidean": None,
        "RCA": mahala.RCA(),
        "LDA": LinearDiscriminantAnalysis(),
        "line": LogisticRegression(),
    }
    found = benchmark(learners, {"iris": IRIS, "wine": "wine"}, Holdout(), runs=2)
    split = train_test_split(*IRIS, test_size=0.3, stratify=IRIS[1], random_state=1)
    scaler = StandardScaler().fit(split[0])
    X, X_test = scaler.transform(split[0]), scaler.transform(split[1])
    y, y_test = split[2:]
    lda = LinearDiscriminantAnalysis().fit(X, y)
    expected = {
        "Euclidean": mahala.knn_error(None, X, y, X_test, y_test).at(3),
        "RCA": mahala.knn_error(mahala.RCA().fit(X, y).metric_, X, y, X_test, y_test).at(3),
        "LDA": mahala.knn_error(None, lda.transform(X), y, lda.transform(X_test), y_test).at(3),
        "line": 1.0 - LogisticRegression().fit(X, y).score(X_test, y_test),
    }
    cells = {cell.method: cell.numbers for cell in found.cells if cell[:3:2] == ("iris", 1)}
    assert {name: numbers["error"] for name, numbers in cells.items()} == pytest.approx(expected, rel=1e-5)
    assert cells["Euclidean"]["seconds"] == 0.0 < cells["RCA"]["seconds"]
    assert found.versions[0]["scikit-learn"]


def test_a_learner_gets_the_run_as_its_seed(tmp_path):
    seeds = []

    class Seeded(mahala.PCA):
        def fit(self, X, y=None):
            seeds.append(self.random_state)
            return super().fit(X)

    benchmark({"a": Seeded(), "b": Seeded(random_state=9)}, {"iris": IRIS}, Holdout(scaling="minmax"), runs=2)
    assert seeds == [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"with a cache, learners and data sets must be picklable, but Seeded\(\) is"):
        benchmark({"a": Seeded()}, {"iris": IRIS}, Holdout(), cache=tmp_path)


def test_cells_are_kept_and_measured_again_if_something_changed(tmp_path):
    protocol = Counting()

    def run(**others):
        protocol.calls.clear()
        given = {"learners": {"a": "x", "b": "xx"}, "datasets": {"one": 1, "two": 2}} | others
        return benchmark(given["learners"], given["datasets"], protocol, runs=2, cache=tmp_path / "deep")

    first = run()
    assert len(protocol.calls) == 8
    again = run()
    assert (protocol.calls, again.cells) == ([], first.cells)
    # Only what belongs to the changed data set or learner.
    run(datasets={"one": 1, "two": 3})
    assert protocol.calls == [("x", 3, 0), ("xx", 3, 0), ("x", 3, 1), ("xx", 3, 1)]
    run(learners={"a": "x", "b": "yyy"}, datasets={"one": 1})
    assert protocol.calls == [("yyy", 1, 0), ("yyy", 1, 1)]
    (versions,) = json.loads((tmp_path / "deep" / "versions.json").read_text())
    assert versions["mahala"]


def test_a_protocol_that_changed_measures_again(tmp_path):
    for protocol, expected in ((lambda *_: {"error": 0.5}, 0.5), (lambda *_: {"error": 0.25}, 0.25)):
        found = benchmark({"a": 1}, {"one": 1}, protocol, runs=1, cache=tmp_path)
        assert found.means().tolist() == [[expected]]


def test_processes_measure_the_same(tmp_path):
    learners = {"Euclidean": None, "RCA": mahala.RCA()}
    means = [
        benchmark(learners, {"iris": IRIS}, Holdout(n_neighbors=5), runs=2, n_jobs=n_jobs).means() for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*means)


@pytest.fixture
def measured():
    """Three learners on eight data sets, of which "good" is better than "bad" on all but one."""
    errors = {name: 0.2 + 0.01 * np.arange(8) for name in ("good", "bad", "same")}
    errors["bad"] = errors["good"] + np.array([0.05, 0.04, 0.06, 0.03, 0.07, 0.02, 0.08, -0.01])
    names = [str(at) for at in range(8)]
    return benchmark(
        {name: name for name in errors}, {name: int(name) for name in names},
        lambda learner, dataset, run: {"error": float(errors[learner][dataset])}, runs=1,
    )  # fmt: skip


def test_tests_of_differences(measured):
    differences = measured.means()[:, 1] - measured.means()[:, 0]
    assert measured.wilcoxon("good", "bad") == pytest.approx(stats.wilcoxon(differences).pvalue)
    better = measured.signed_rank("good", "bad", rope=0.01)
    assert better.better > 0.9
    worse = measured.signed_rank("bad", "good", rope=0.01)
    assert (worse.worse, worse.better) == (better.better, better.worse)
    assert measured.signed_rank("good", "same", rope=0.01).same == 1.0
    with pytest.raises(ValueError, match="must be some of good, bad, same, got 'other'"):
        measured.wilcoxon("good", "other")


def test_the_table(measured):
    lines = str(measured).splitlines()
    assert lines[0] == "|  | good | bad | same |"
    assert lines[2] == "| 0 | 20.0 | 25.0 | 20.0 |"
    assert lines[-1] == "| mean rank | 1.62 | 2.75 | 1.62 |"


def test_signed_rank_is_that_of_a_loop():
    differences, rope = [0.03, -0.02, 0.05, 0.0, 0.012], 0.01
    z = [0.0, *differences]
    weights = np.random.default_rng(0).dirichlet([0.5, 1, 1, 1, 1, 1], 500)
    wins = np.zeros(3)
    for w in weights:
        share = np.zeros(3)
        for i, a in enumerate(z):
            for j, b in enumerate(z):
                side = 0 if a + b > 2 * rope else 2 if a + b < -2 * rope else 1
                share[side] += w[i] * w[j]
        wins[share.argmax()] += 1
    found = bayesian_signed_rank(differences, rope, n_samples=500)
    assert (found.better, found.same, found.worse) == pytest.approx(tuple(wins / 500), abs=0.003)
    assert found.better + found.same + found.worse == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("learners", "datasets", "options", "message"),
    [
        ({}, {"iris": IRIS}, {}, "learners must hold at least one"),
        ({"a": None}, {}, {}, "datasets must hold at least one"),
        ({"a": None}, {"iris": IRIS}, {"runs": 0}, "runs must be at least 1"),
    ],
)
def test_wrong_input(learners, datasets, options, message):
    with pytest.raises(ValueError, match=message):
        benchmark(learners, datasets, Holdout(), **options)
    with pytest.raises(ValueError, match="rope must be a number from 0 on"):
        bayesian_signed_rank([0.1], rope=-1.0)
