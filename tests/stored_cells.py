"""Cells of comparisons with predictions that are drawn, not measured: for tests of verdicts, words, files and pages."""

from __future__ import annotations

import zlib

import numpy as np

from mahala.evaluation.cross_validation import measuring
from mahala.evaluation.cross_validation.answers import AnswerPlan
from mahala.evaluation.cross_validation.measures import losses, rarer_class
from mahala.evaluation.cross_validation.measuring import Cell

# The share of rows that plain distances, and all others, predict wrongly unless a test says another one.
PLAIN, OTHERS = 0.4, 0.1


def stored_cell(plan, key, share, seed=0, **fields):
    """A cell in which a share of the predictions is wrong; numbers have errors of so many deviations instead.

    A text instead of a share is why the candidate could not be fitted.
    """
    if isinstance(share, str):
        return Cell(np.empty(0), np.empty(0), 0.5, "standard", failure=share)
    rng = np.random.default_rng([seed, zlib.crc32(key.name.encode()), key.part])
    test = plan.parts[key.part][1]
    wrong = rng.permutation(len(test)) < round(share * len(test))
    if isinstance(plan, AnswerPlan):
        return Cell(np.array([wrong.mean()]), wrong.astype(float), 0.5, "none")
    values = plan.target.values[test]
    if plan.target.is_number:
        predicted = values + share * rng.normal(size=len(test))
    else:
        predicted = np.where(wrong, (values + 1) % len(plan.target.classes), values)

    def scores(code):
        return (predicted == code).astype(float)[:, np.newaxis]

    fields = {"record_shares": np.zeros(len(plan.records))} | fields
    is_model = key.name in plan.models
    n_neighbors = 0 if is_model else min(plan.settings.n_neighbors or 3, len(plan.counts))
    curve = np.full(1 if is_model else len(plan.counts), 0.5)
    curve[n_neighbors - 1] = losses(
        plan.measure, predicted[:, np.newaxis], values, scores, rarer_class(plan.target.codes)
    )[0]
    usual = {"scaling": "standard", "n_neighbors": n_neighbors, "record_shares": np.zeros(len(plan.records))}
    return Cell(curve, predicted, 0.5, **(usual | fields))


def stored_cells(plan, shares, seed=0, **fields):
    """The cells of candidates and models that have a share, on the test parts on which they are measured."""
    return {key: stored_cell(plan, key, shares[key.name], seed, **fields) for key in plan.keys if key.name in shares}


def store(monkeypatch, shares=None):
    """Let comparisons measure nothing: what they would measure are cells with these shares, by candidate."""
    given = shares or {}

    def measure_cell(plan, key, *_):
        share = OTHERS if key.name in (*plan.learners, *getattr(plan, "models", ())) else PLAIN
        return key, stored_cell(plan, key, given.get(key.name, share))

    monkeypatch.setattr(measuring, "measure_cell", measure_cell)
    monkeypatch.setattr(measuring, "choose", lambda *_: ("standard", "standard"))
