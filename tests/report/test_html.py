"""The report says what the leaderboard says, and no text in it can do harm."""

from __future__ import annotations

import json
import re
from html import escape

import numpy as np
import pytest

from mahala import LDA, MLKR, RCA, LogisticMetric, NeighborClassifier
from mahala.evaluation.compare import compare
from mahala.evaluation.cross_validation.fitting import refit
from mahala.evaluation.examples import examples_of
from mahala.report.html import report
from report.cases import EVIL, Page, make, make_of_answers, table


def data(text):
    return json.loads(re.search(r'<script type="application/json" id=data>(.*?)</script>', text, re.DOTALL)[1])


def test_sections_in_their_order():
    board, text = make(*table(), columns=[("sugar", "filled with the median, 3.5")])
    page = Page(text)
    titles = [
        "Leaderboard",
        "Error by number of neighbours",
        "Classes and their errors",
        "Which classes are confused",
        "Distances before and after",
        "The rows in a plane, and their neighbours",
        f"Spectrum of {board.best_learner.name}",
        "Weights of the columns",
        "What was done to the columns",
        "What next",
        "How this was measured",
    ]
    assert re.findall(r"<h2>(.*?)</h2>", text) == titles
    assert re.findall(r'<li><a href="#(s\d+)">(.*?)</a>', text) == [
        (f"s{at}", title) for at, title in enumerate(titles)
    ]
    assert re.findall(r"<section id=(s\d+)>", text) == [f"s{at}" for at in range(len(titles))]
    assert " ".join(board.verdict.sentence.split()) in page.text
    for entry in board.entries:
        assert entry.name in page.text
        assert f"{100 * entry.error:.1f} %" in page.text
    charts = [attributes["data-chart"] for _, attributes in page.elements if "data-chart" in attributes]
    assert charts == list(data(text)) == ["by_k", "classes", "confusion", "pairs", "plane", "spectrum"]
    for said in (
        "mahala compare tea",
        "mahala search x",
        "filled with the median, 3.5",
        "The largest class, 0, has 50.0 %",
    ):
        assert said in page.text


def test_models_have_a_table_of_their_own():
    X, y = table()
    model = NeighborClassifier(trees=False, linear=False, n_bins=2)
    board, text = make(X, y, learners={"LDA": LDA(), "<i>it": model})
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[:2] == ["Models", "Leaderboard"]
    page = Page(text)
    assert " ".join(board.summary.split()) in page.text
    assert "<i>it" in page.text
    assert "<i>it" not in text
    assert f"<h1>{escape(board.headline)}</h1>" in text


def test_predictions_are_text():
    X, y = table()
    labels = np.array(["<b>one", "two"])[y]
    board = compare(X, labels, {"LDA": LDA()}, folds=3, repeats=1, baselines=False)
    examples = examples_of(
        X, labels, NeighborClassifier(trees=False, n_bins=2), board, names={EVIL: [0, 1], "b": [2, 3]}
    )
    text = report(board, None, title="tea", saved="", commands=[], measured={}, examples=examples)
    page = Page(text)
    assert examples.heading() in page.text
    assert f"Row {examples.examples[0].row}:" in page.text
    assert "<b>one" in page.text
    assert "<b>one" not in text
    assert EVIL not in text


def test_without_columns_no_section_on_them():
    assert "What was done to the columns" not in make(*table())[1]


def test_names_are_text():
    """Of features, classes, learners, columns, commands and files."""
    evil = [EVIL, "\"&'", "]]>--><svg onload=alert(1)>", "_under $x^2$ \\frac", "名前\n\x07 <b>bell", "</script><i>"]
    X, y = table(6, 6, n=120)
    labels = np.array(evil, dtype=object)[y]
    _, text = make(
        X, labels, evil, {evil[0]: LDA(), evil[3]: RCA()}, title=evil[1], columns=[(name, name) for name in evil],
        commands=evil,
    )  # fmt: skip
    page = Page(text)
    assert [tag for tag, _ in page.elements if tag == "script"] == ["script"] * 4  # all the report's own
    assert not {"svg", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert all(attributes == {} for tag, attributes in page.elements if tag == "b")
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    for name in evil:
        assert " ".join(name.split()) in page.text
    assert sorted(data(text)["plane"]["classes"]) == sorted(evil)
    assert "<b>bell" not in text
    assert "</script><i>" not in text


def test_a_failure_and_no_learner_at_all():
    board, text = make(*table(), learners={"broken": LDA()}, shares={"broken": f"not here: {EVIL}"})
    page = Page(text)
    assert board.best_learner is None
    assert f"could not be fitted: not here: {EVIL}" in page.text
    assert EVIL not in text
    assert "Spectrum" not in page.text
    assert list(data(text)) == ["by_k", "classes", "confusion"]


def test_the_heading_is_the_outcome():
    board, text = make(*table(), shares={"LDA": 0.5, "RCA": 0.5})
    assert board.verdict.kind == "does not help"
    assert f"<h1>{board.headline}</h1>" in text
    assert "For context: k-NN with" in text
    board, text = make(*table(), shares={"LDA": 0.0}, n_neighbors=3)
    assert board.winner.name == "LDA"
    assert "<h1>Shown to help: LDA</h1>" in text


def test_cautions_are_at_the_top():
    X, _ = table()
    board, text = make(X, np.repeat([0, 1], [54, 26]), shares=dict.fromkeys(("LDA", "RCA"), 0.5))
    [caution] = board.cautions
    page = Page(text)
    assert caution.sentence in page.text
    assert page.text.index(caution.sentence) < page.text.index(board.verdict.sentence)
    assert board.headline.endswith(f"(caution: {caution.subject})")


def test_a_number_to_predict():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = 100.0 + X[:, 0] + 0.1 * rng.normal(size=90)
    board, text = make(X, y, learners={"MLKR": MLKR(max_iter=20, random_state=0)})
    page = Page(text)
    assert board.metric == "r2"
    assert " ".join(board.verdict.sentence.split()) in page.text
    assert "mean absolute error" in page.text
    assert not {"classes", "confusion", "pairs"} & set(data(text))
    assert "Which classes are confused" not in text
    told = data(text)["predictions"]
    best = min(board.ranked, key=lambda entry: entry.error)
    assert told["entries"][told["first"]]["name"] == best.name
    np.testing.assert_allclose(told["entries"][told["first"]]["predicted"], best.predicted, rtol=1e-3)
    np.testing.assert_allclose(told["truth"], y, rtol=1e-3)
    np.testing.assert_allclose(data(text)["plane"]["values"], y, rtol=1e-3)
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[2:6] == [
        "Predicted and true", "The rows in a plane, and their neighbours", "Spectrum of MLKR", "Weights of the columns",
    ]  # fmt: skip


def test_answers_are_lines_between_items():
    names = np.array([f"{EVIL} {at}" for at in range(40)], dtype=object)
    answers, text = make_of_answers(LogisticMetric(), names)
    plane = data(text)["plane"]
    left, other, before, after = plane["answers"]
    assert (left, other) == (answers.anchor.tolist(), answers.positive.tolist())
    near, far = (
        np.square(answers.X[answers.anchor] - answers.X[role]) for role in (answers.positive, answers.negative)
    )
    assert before == (near.sum(axis=1) < far.sum(axis=1)).astype(int).tolist()
    assert sum(after) > sum(before)
    assert plane["names"][7] == f"{EVIL} 7"
    assert EVIL not in text
    assert "the errors above are those of others" in Page(text).text
    assert "Weights of the columns" in text


def test_weights_are_those_of_the_metric():
    X, y = table()
    X[:, 2] *= 100.0
    _, text = make(X, y, names=["a", "b", "c", "d"], learners={"LDA": LDA()})
    weights = refit(X, y, LDA(), feature_names=["a", "b", "c", "d"]).column_weights(X)
    shown = re.findall(r"<li><span>(.)</span>.*?<span class=n>(.*?) %</span>", text)
    assert [name for name, _ in shown] == sorted(weights, key=lambda name: -weights[name])
    assert [float(share) for _, share in shown] == [round(100 * weights[name], 1) for name, _ in shown]


@pytest.mark.parametrize(("classes", "d"), [(2, 1), (12, 13), (3, 2), (71, 72)])
def test_odd_shapes(classes, d):
    X, y = table(classes, d, n=6 * max(classes, 20))
    _, text = make(X, y.astype(str), learners={"RCA": RCA()})  # many whole numbers would be numbers to predict
    assert len(data(text)["plane"]["classes"]) == classes
    assert ("some look alike" in text) == (classes > 70)


def test_hundreds_of_classes_have_no_confusion_matrix():
    y = np.repeat(np.arange(301), 2)
    X = np.random.default_rng(0).normal(size=(602, 2)) + y[:, None]
    _, text = make(X, y.astype(str), learners={"RCA": RCA()}, shares={"RCA": "two rows are needed"}, folds=2)
    assert "confusion" not in data(text)
    assert "Which classes are confused" not in text
    assert "Of 301 classes, the 40 with the most rows." in text
    assert data(text)["classes"]["entries"] == []


def test_constant_features_and_equal_rows():
    X, y = table()
    X[:, 1] = 5.0
    X[40:] = X[0]
    make(X, y, learners={"RCA": RCA()})


def test_the_page_says_that_points_are_spread():
    X, y = table()
    assert "spread slightly" not in make(X, y, learners={"RCA": RCA()})[1]
    grid = np.column_stack([X[:, :2].round(), y])
    pages = [make(grid, y, learners={"RCA": RCA()})[1] for _ in range(2)]
    assert "Rows that overlap are spread slightly." in pages[0]
    assert data(pages[0]) == data(pages[1])


def test_a_large_table_gives_a_page_of_less_than_3_megabytes():
    X, y = table(26, 30, n=2100)
    _, text = make(X, y, learners={"RCA": RCA()}, folds=2)
    assert len(data(text)["plane"]["points"]) == 2000
    assert "A sample of 2,000 rows is shown." in text
    assert len(text.encode()) < 3e6
