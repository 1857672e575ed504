"""The plan of a comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mahala import LDA, NCA
from mahala.evaluation.plan import Plan

PLAN = Plan(
    X=np.eye(3), codes=np.array([0, 1, 1]), classes=("a", "b"), rows=np.arange(3), n_rows=3, parts=[], folds=2,
    repeats=1, counts=np.array([1]), n_neighbors=None, measure="error", scaling="auto", random_state=0, budget=None,
    learners={"a": LDA()}, baselines=[], left_out={}, preprocessor=None, notes=[],
)  # fmt: skip


def test_the_digest_depends_on_all():
    changed = [
        {"X": 2 * PLAN.X},
        {"X": PLAN.X.astype(np.float32)},
        {"codes": PLAN.codes[::-1]},
        {"learners": {"b": LDA()}},
        {"learners": {"a": LDA(shrinkage=0.5)}},
        {"learners": {"a": NCA()}},
        {"folds": 3},
        {"measure": "f1"},
        {"scaling": "none"},
        {"budget": 1.0},
    ]
    digests = {replace(PLAN, **values).digest() for values in ({}, *changed)}
    assert len(digests) == 1 + len(changed)
    assert replace(PLAN, X=PLAN.X.copy(), learners={"a": LDA()}).digest() in digests
