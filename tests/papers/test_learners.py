"""All learners with one protocol: its pieces on small input."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mahala.learner import learner_kinds
from mahala.metric import BilinearMetric
from papers import learners
from papers.study import Cell, studies

STUDY = studies("learners")["table1"]


def test_every_learner_from_labels_is_there():
    compared = {type(learners._learner(method, 0)).__name__ for method in STUDY.methods} - {"NoneType"}
    others = {"MLKR", "LogisticMetric"}  # learn from target values, and from answers
    of_metric_learn = {"Covariance", "LFDA", "LSML", "SCML", "SDML"}
    of_pydml = {"ANMM", "MCML", "NCMML"}
    assert compared == {kind.__name__ for kind in learner_kinds()} - others - of_metric_learn - of_pydml


def test_parts_of_each_class_and_their_scale():
    X, y, X_test, y_test = learners.split("wine", 0, None)
    whole, train = Counter(np.concatenate([y, y_test]).tolist()), Counter(y.tolist())
    assert train == {code: round(0.7 * count) for code, count in whole.items()}
    assert X.min(axis=0).tolist() == [0.0] * 13
    assert X.max(axis=0).tolist() == [1.0] * 13
    assert not {row.tobytes() for row in X} & {row.tobytes() for row in X_test}


def test_wide_tables_are_reduced_in_proportion(monkeypatch):
    monkeypatch.setattr(learners, "MOST_FEATURES", 8)
    monkeypatch.setattr(learners, "N_COMPONENTS", 4)
    X, *_ = learners.split.__wrapped__("wine", 0, None)
    assert X.shape[1] == 4
    widths = np.ptp(X, axis=0)
    assert widths[0] == pytest.approx(1.0)
    assert np.all(np.diff(widths) < 0.0)


def test_the_most_similar_rows_vote_as_in_a_loop():
    rng = np.random.default_rng(0)
    X, X_test, M = rng.normal(size=(30, 4)), rng.normal(size=(20, 4)), rng.normal(size=(4, 4))
    y, y_test = rng.integers(0, 3, 30), rng.integers(0, 3, 20)
    wrong = 0
    for x, label in zip(X_test, y_test, strict=True):
        nearest = sorted(range(30), key=lambda i: -(x @ M @ X[i]))[:3]
        votes = Counter(y[nearest].tolist())
        wrong += min(code for code in votes if votes[code] == max(votes.values())) != label
    assert learners.similarity_error(BilinearMetric(M), X, y, X_test, y_test) == pytest.approx(wrong / 20)


def test_cells():
    found = {method: STUDY.measure("wine", method, 0, None) for method in ("Euclidean", "Cosine", "LDA", "OGD")}
    assert all(0.0 <= numbers["error"] < 20.0 for numbers in found.values())
    assert found["LDA"]["seconds"] > 0.0


def test_placings_and_their_picture():
    errors = {"Euclidean": (5.0, 9.0, 7.0), "LDA": (4.0, 8.0, 7.0), "MDM": (6.0, 9.0, 8.0)}
    cells = [
        Cell(table, method, run, {"error": error + 0.1 * run, "seconds": 2.0})
        for method, own in errors.items()
        for table, error in zip(("wine", "spam", "iris"), own, strict=True)
        for run in range(2)
    ]
    text = learners.placings(cells)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    table = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    assert list(table) == ["LDA", "Euclidean", "MDM"]
    assert table["LDA"]["mean rank"] == "1.2"  # 1, 1 and 1.5
    assert (table["LDA"]["up to 1,000 rows"], table["LDA"]["more rows"]) == ("1.2", "1.0")
    assert table["LDA"]["lower error, higher error than Euclidean"] == "2, 0"
    assert table["MDM"]["lower error, higher error than Euclidean"] == "0, 2"
    left, right = STUDY.draw(cells, None).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["MDM", "Euclidean", "LDA"]
    assert sum(len(line.get_xdata()) for line in right.lines) == 3
