"""Summarise a comparison: the leaderboard, and the verdict in words."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mahala.evaluation.cross_validation.advice import advise, model_entries, shared_losses
from mahala.evaluation.cross_validation.answers import AnswerPlan, kind_of
from mahala.evaluation.cross_validation.cautions import cautions_of
from mahala.evaluation.cross_validation.entries import (
    decide,
    entries,
    entry_of,
    reference_of,
    scaled_of,
    screened_out,
    unit_gains,
    units_of,
    units_of_answers,
)
from mahala.evaluation.cross_validation.leaderboard import Answers, Leaderboard, p_text, percent, points
from mahala.evaluation.cross_validation.measuring import Cell
from mahala.evaluation.cross_validation.plan import Key, Plan


def summarise(plan: Plan | AnswerPlan, cells: Mapping[Key, Cell], done: list[int], end: str) -> Leaderboard:
    """Make the leaderboard of the test parts that are done; `end` is what ended it before it was complete, or empty."""
    notes = list(plan.notes)
    planned = len(plan.parts) - (plan.n_screening if isinstance(plan, Plan) else 0) if end else len(done)
    if len(done) < planned:
        notes.append(f"Partial: {end} ended the comparison after {len(done)} of {planned} test parts.")
    if isinstance(plan, AnswerPlan):
        return _of_answers(plan, cells, done, planned, notes)
    units = units_of(plan, cells, done)
    reference = reference_of(plan, units)
    chosen, decision = decide(plan, units, reference, plan.measure)
    baselines = {
        name: {key.part: cells[key] for key in plan.keys if key.name == name and key in cells}
        for name in plan.baselines
    }
    shared = shared_losses(plan, cells, done, units)
    ranked, models = entries(plan, cells, done, units, reference), model_entries(plan, cells, shared, reference)
    by_name = {entry.name: entry for entry in ranked}
    advice = advise(plan, shared, decision, by_name[chosen], ranked[0], models)
    target = plan.target
    same = ("n_neighbors", "folds", "repeats", "scaling", "random_state")
    preprocessor = plan.settings.preprocessor
    board = Leaderboard(
        **{name: getattr(plan.settings, name) for name in same},
        n_rows=plan.n_rows,
        rows=plan.rows,
        left_out={**plan.left_out, **dict.fromkeys(screened_out(plan, cells, done), _why_screened_out(plan))},
        entries=tuple(ranked),
        models=tuple(models),
        advice=advice,
        verdict=decision.verdict,
        chosen=chosen,
        reference=reference,
        scaled=scaled_of(plan, units),
        neighbor_counts=plan.counts,
        n_features=plan.X.shape[1],
        classes=target.classes,
        targets=target.numbers(target.values) if target.is_number else None,
        class_counts=() if target.is_number else tuple(np.bincount(target.codes).tolist()),
        first_part=plan.parts[plan.n_screening],
        notes=tuple(notes),
        metric=plan.measure,
        baselines=tuple(
            entry_of(plan, name, parts) for name, parts in baselines.items() if parts and name != reference
        ),
        parts=len(done),
        planned=planned,
        columns=() if preprocessor is None else tuple(preprocessor.columns_),
    )
    board = _in_words(board)
    return replace(board, cautions=tuple(cautions_of(plan, board, units, cells, done)))


def _why_screened_out(plan: Plan) -> str:
    n = sum(len(test) for _, test in plan.parts[: plan.n_screening])
    return f"others were ahead on the {n:,} rows of a first comparison"


def _of_answers(
    plan: AnswerPlan, cells: Mapping[Key, Cell], done: list[int], planned: int, notes: list[str]
) -> Leaderboard:
    """Return the leaderboard of answers about new items, which has that about the same items."""
    n_new = len(plan.splits[0].parts)
    numbers = [part for part in done if part < n_new], [part for part in done if part >= n_new]
    both = [units_of_answers(split, own, plan, cells) for split, own in zip(plan.splits, numbers, strict=True)]
    reference = reference_of(plan, next((units for units in both if units.folds.size), both[0]))
    if plan.unit_rows:
        notes = [*notes, "Rows were scaled to length 1 for distances, because the cosine predicts more answers."]
    boards = []
    for split, units, own in zip(plan.splits, both, numbers, strict=True):
        chosen, decision = decide(plan, units, reference, split.measure)
        board = Leaderboard(
            entries=tuple(entries(plan, cells, own, units, reference)),
            verdict=decision.verdict,
            chosen=chosen,
            reference=reference,
            scaled=reference,
            folds=plan.settings.folds,
            random_state=plan.settings.random_state,
            n_rows=plan.data.X.shape[0],
            n_features=plan.data.n_features,
            parts=len(done),
            planned=planned,
            notes=tuple(notes),
            metric=split.measure,
        )
        boards.append(_in_words(board))
    new, same = boards
    gains = np.empty(0) if new.best_learner is None else unit_gains(both[0], reference, new.best_learner.name)
    answers = Answers(kind_of(plan.data), len(plan.data), plan.n_items, *plan.agreement, plan.unit_rows, gains)
    return replace(new, same_items=same, answers=answers)


def _in_words(board: Leaderboard) -> Leaderboard:
    """Return the leaderboard whose verdict names its measure."""
    return replace(board, verdict=board.verdict._replace(measure=board.measure, text=_sentence(board)))


def _sentence(board: Leaderboard) -> str:
    """Return the verdict in words."""
    verdict, base, best = board.verdict, board.euclidean, board.candidate or board.best_learner
    if best is None:
        unfinished = any(entry.is_set_apart for entry in board.entries)
        failed = (
            "No learner could be fitted here" if len(board.entries) > len(board.ranked) else "No metric was learned"
        )
        none = "No learner was ahead when its time was over" if unfinished else failed
        return f"{none}; {base.spoken} has a {board.measure} of {percent(base.error)}."
    if verdict.kind == "too early to tell":
        what = "" if math.isnan(base.error) else f" The {board.measure} of {base.spoken} is {percent(base.error)}."
        seen = "one test part was measured" if board.parts == 1 else f"there are {verdict.n} {verdict.units}"
        return f"Too early to tell: {seen}.{what}"
    first = verdict.kind[0].upper() + verdict.kind[1:]
    if verdict.kind == "probably helps" and verdict.repeats > 1:
        first += f" ({verdict.wins} of {verdict.repeats} repeats)"
    who = best.name if verdict.helps else f"the best learner, {best.name},"
    choice = "Chosen on other folds, it gains" if verdict.helps else "A learner chosen on other folds gains"
    interval = f"95 % interval {points(verdict.low)} to {points(verdict.high)}, {p_text(verdict.p_value)}"
    what = "answers" if board.metric in ("new items", "same items") else "rows"
    more = f" More {what} are needed to be sure." if verdict.kind == "probably helps" else ""
    return (
        f"{first}: {who} has a {board.measure} of {percent(best.error)}, {base.spoken} {percent(base.error)}. {choice} "
        f"{points(verdict.gain)} points over {verdict.n:,} {verdict.units} ({interval}).{more}"
    )
