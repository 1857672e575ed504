"""Reports for tests."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from mahala import LDA, RCA, MahalanobisMetric, Triplets
from mahala.evaluation.compare import compare, held_out
from mahala.evaluation.cross_validation.fitting import refit
from mahala.report.chart_data import Shown
from mahala.report.html import report
from stored_cells import store

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Elements with their attributes, and the text outside of styles and scripts."""

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
        if not {"style", "script"} & set(self.inside):
            self.words.append(data)


def table(classes=2, d=4, spread=1.5, n=80, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + spread * np.eye(classes, d)[y], y


def make(
    X, y, names=None, learners=None, title="tea", columns=(), commands=("mahala search x",), shares=None,
    row_names=None, **arguments,
):  # fmt: skip
    """Return the leaderboard of stored cells, and its page."""
    learners = learners or {"LDA": LDA(), "RCA": RCA()}
    with pytest.MonkeyPatch.context() as patch:
        store(patch, shares)
        board = compare(X, y, learners, **({"folds": 3, "repeats": 1, "baselines": False} | arguments))
    board = replace(board, columns=columns)
    entry = board.best_learner
    shown = None
    if entry is not None:
        metric, mask = held_out(X, y, learners[entry.name], board)
        final = refit(X, y, learners[entry.name], feature_names=names)
        codes = np.unique(y, return_inverse=True)[1] if board.classes else None
        shown = Shown(entry.name, metric, final, X, codes, mask, names=row_names)
    facts = {"Command": f"mahala compare {title}"}
    return board, report(board, shown, title=title, saved="saved", commands=commands, measured=facts)


def make_of_answers(learner, names=None, n=40):
    """Compare a learner by answers that follow the first column, and return the answers and the page."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(n, 3))
    a, b, c = np.array([rng.choice(n, 3, replace=False) for _ in range(200)]).T
    swap = np.abs(items[a] - items[b])[:, 0] > np.abs(items[a] - items[c])[:, 0]
    answers = Triplets(items, a, np.where(swap, c, b), np.where(swap, b, c))
    with pytest.MonkeyPatch.context() as patch:
        store(patch)
        board = compare(answers, learners={"learner": learner}, folds=3)
    metric = MahalanobisMetric(np.diag([1.0, 0.1, 0.1]))
    shown = Shown("learner", metric, metric, items, None, None, names=names, answers=answers)
    return answers, report(board, shown, title="tea", saved="", commands=["a"], measured={})
