"""A self-contained HTML page of learners that were compared by answers."""

from collections.abc import Mapping
from html import escape

import numpy as np

from mahala.evaluation.answer_board import AnswerBoard
from mahala.report.page import Section, chart, facts, header, page, table


def answers_page(board: AnswerBoard, *, title: str, saved: str, measured: Mapping[str, str]) -> str:
    """Return the page: the verdicts, the share of answers each learner predicts, and the gains of items."""
    best = board.best_learner
    protocol = {
        "New items": f"{board.folds} folds over items: answers without any item of a fold are learned from, and those "
        "whose first item is in it are predicted",
        "The same items": f"{board.folds} folds over questions; the answers to one question are in one fold",
        "Plain": "the Euclidean distance and the cosine of the rows as they are",
        "Verdict": "the learner of each fold is chosen on the other folds; the gain is over the better plain distance",
    }
    if board.kind == "quadruplets":
        protocol["The same items"] = f"{board.folds} folds over pairs; both pairs of a tested answer are in one fold"
        protocol["Pairs"] = "both pairs of a tested answer have an item of the fold, and each pair is tested once"
    heading, *lines = ([escape(cell) for cell in line] for line in board.cells())
    sections = [Section("Answers predicted", table(heading, lines), " ".join(board.sentences()[2:]))]
    data: dict[str, object] = {}
    if best is not None and len(board.gains):
        values = np.sort(board.gains)[::-1].round(4).tolist()
        data["gains"] = {"values": values, "n": len(values), "measure": "answers predicted", "unit": "item"}
        note = f"{best.name} against {board.reference}, for each item that no answer learned from compares."
        sections.append(Section("The gain of each item", chart("gains"), note))
    sections.append(Section("What was saved", f"<p>{escape(saved)}</p>"))
    sections.append(Section("How this was measured", facts(protocol | dict(measured))))
    text = " ".join(board.sentences()[:2])
    headline = header(f"{title} · {board.heading()}", board.verdict.kind.capitalize(), text)
    return page(f"{title} · mahala compare", headline, sections, data)
