"""The report says what the leaderboard says, and no text in it can do harm."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from mahala import LDA, RCA, MahalanobisMetric
from mahala.evaluation.cross_validation import compare, held_out, refit
from mahala.report.html import Shown, _distances, _leading, _shares, _spread, report

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Elements with their attributes, and the text outside of styles and pictures."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.inside = [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split()).replace("\u00a0", " ")

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"style", "svg"} & set(self.inside):
            self.words.append(data)


def table(classes=2, d=4, spread=1.5, n=80, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + spread * np.eye(classes, d)[y], y


def make(X, y, names=None, learners=None, title="tea", **arguments):
    learners = learners or {"LDA": LDA(), "RCA": RCA()}
    board = compare(X, y, learners, **({"folds": 3, "repeats": 1} | arguments))
    entry = board.best_learner
    shown = None
    if entry is not None:
        metric, mask = held_out(X, y, learners[entry.name], board)
        final = refit(X, y, learners[entry.name], feature_names=names)
        shown = Shown(entry.name, metric, final, X, np.unique(y, return_inverse=True)[1], mask)
    facts = {"Command": f"mahala compare {title}"}
    return board, report(board, shown, title=title, saved="saved", commands=["mahala search x"], measured=facts)


def test_sections_in_their_order():
    board, text = make(*table())
    page = Page(text)
    titles = [
        board.verdict().split(": ")[-1].split(" (")[0],
        "Leaderboard",
        "Error by number of neighbours",
        "Distances before and after",
        "The rows in a plane",
        f"Spectrum of {board.best_learner.name}",
        "Weights of the features",
        "Time of a fit",
        "What next",
        "How this was measured",
    ]
    places = [page.text.index(title) for title in titles[1:]]
    assert places == sorted(places)
    assert titles[0] in page.text
    for entry in board.entries:
        assert entry.name in page.text
        assert f"{100 * entry.error:.1f} %" in page.text
    assert sum(tag == "svg" for tag, _ in page.elements) == 6
    assert "mahala compare tea" in page.text
    assert "mahala search x" in page.text


def test_nothing_is_loaded_and_nothing_runs():
    _, text = make(*table())
    for tag, attributes in Page(text).elements:
        assert tag not in ("script", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "default-src 'none'" in text
    assert "url(http" not in text
    assert "@import" not in text


def test_names_are_text():
    """Of features, classes, learners and files."""
    evil = [EVIL, "\"&'", "]]>--><svg onload=alert(1)>", "_under $x^2$ \\frac", "名前\n\x07 <b>bell"]
    X, y = table(5, 5, n=100)
    labels = np.array(evil, dtype=object)[y]
    _, text = make(X, labels, evil, {evil[0]: LDA(), evil[3]: RCA()}, title=evil[1])
    page = Page(text)
    kinds = {tag for tag, _ in page.elements}
    assert kinds & {"script", "svg", "b"} == {"svg", "b"}  # both are the report's own
    assert all(attributes == {} for tag, attributes in page.elements if tag == "b")
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    for name in evil:
        assert " ".join(name.split()) in page.text
    assert text.count("<b>bell") == 0


def test_a_failure_and_no_learner_at_all():
    class Broken(LDA):
        def fit(self, X, y=None):
            raise ValueError(f"not here: {EVIL}")

    board, text = make(*table(), learners={"broken": Broken()})
    page = Page(text)
    assert board.best_learner is None
    assert f"could not be fitted: not here: {EVIL}" in page.text
    assert EVIL not in text
    assert "Spectrum" not in page.text


def test_the_heading_is_the_outcome():
    rng = np.random.default_rng(0)
    board, text = make(rng.normal(size=(90, 4)), np.arange(90) % 2)
    assert "<h1>No learner beats Euclidean here</h1>" in text
    X, y = table(d=20, n=600, spread=2.0, seed=1)
    board, text = make(X, y, learners={"LDA": LDA()}, scaling="none", repeats=3)
    assert board.beats_euclidean
    assert "<h1>LDA beats Euclidean</h1>" in text


@pytest.mark.parametrize(("classes", "d"), [(2, 1), (12, 13), (3, 2)])
def test_odd_shapes(classes, d):
    X, y = table(classes, d, n=120)
    _, text = make(X, y, learners={"RCA": RCA()})
    assert ("share ten colours" in text) == (classes > 10)


def test_constant_features_and_equal_rows():
    X, y = table()
    X[:, 1] = 5.0
    X[40:] = X[0]
    make(X, y, learners={"RCA": RCA()})


def test_distances_are_those_of_the_pairs():
    rows, codes = np.array([[0.0], [1.0], [3.0]]), np.array([0, 1, 0])
    similar, dissimilar = _distances(rows, codes)
    assert similar.tolist() == [3.0]
    assert sorted(dissimilar.tolist()) == [1.0, 2.0]


def test_leading_directions_are_the_principal_ones():
    from sklearn.decomposition import PCA

    rows = np.random.default_rng(0).normal(size=(50, 5)) * [1.0, 5.0, 2.0, 0.1, 1.0]
    np.testing.assert_allclose(np.abs(_leading(rows)), np.abs(PCA(2).fit_transform(rows)), atol=1e-9)


def test_points_that_coincide_are_spread_a_little():
    grid = np.array([[i, j] for i in range(5) for j in range(5)], dtype=float)
    rng = np.random.default_rng(0)
    assert not _spread(grid, rng)[1]
    twice, spread = _spread(np.repeat(grid, 2, axis=0), rng)
    assert not spread  # half of the points are distinct
    assert twice.tolist() == np.repeat(grid, 2, axis=0).tolist()
    many = np.repeat(grid, 3, axis=0) + 1e-12 * rng.normal(size=(75, 2))
    moved, spread = _spread(many, rng)
    assert spread
    assert len(np.unique(moved.round(6), axis=0)) == 75
    assert 0.1 < np.abs(moved - many).max() < 0.2  # points of the grid are 1 apart


def test_a_line_is_spread_across_itself():
    line = np.column_stack([np.arange(20.0), np.zeros(20)])
    moved, spread = _spread(line, np.random.default_rng(0))
    assert spread
    assert moved[:, 0].tolist() == line[:, 0].tolist()
    assert 1.0 < np.abs(moved[:, 1]).max() <= 1.9


def test_the_page_says_that_points_are_spread():
    X, y = table()
    assert "spread slightly" not in make(X, y, learners={"RCA": RCA()})[1]
    grid = np.column_stack([X[:, :2].round(), y])
    pages = [make(grid, y, learners={"RCA": RCA()})[1] for _ in range(2)]
    assert "Rows that overlap are spread slightly." in pages[0]
    assert _without_seconds(pages[0]) == _without_seconds(pages[1])


def _without_seconds(text):
    return text[: text.index("Time of a fit")]


def test_shares_are_those_of_the_mean_squared_distance():
    X, y = table()
    X = X * [1.0, 10.0, 0.1, 3.0]
    metric = MahalanobisMetric(np.diag([1.0, 2.0, 0.0, 4.0]), scales=[1.0, 5.0, 1.0, 2.0])
    terms = [
        np.mean((X[:, None, j] - X[None, :, j]) ** 2) * metric.matrix[j, j] / metric.scales[j] ** 2 for j in range(4)
    ]
    shown = Shown("m", metric, metric, X, y, y > 0)
    found = dict(_shares(shown, ["a", "b", "c", "d"]))
    np.testing.assert_allclose([found[name] for name in "abcd"], np.array(terms) / sum(terms))
