"""Report of a comparison of learners by the answers that they foresee, as a single, self-contained HTML page."""

from collections.abc import Mapping
from html import escape

import numpy as np

from mahala.evaluation.answer_board import AnswerBoard
from mahala.report.page import Section, chart, facts, header, page


def answers_page(board: AnswerBoard, *, title: str, saved: str, measured: Mapping[str, str]) -> str:
    """Return the page: the verdicts, the share of answers each learner foresees, and the gains of items."""
    best = board.best_learner
    protocol = {
        "New items": f"{board.folds} folds over items: answers without any item of a fold are learned from, and those "
        "whose first item is in it are foreseen",
        "The same items": f"{board.folds} folds over questions; the answers to one question are in one fold",
        "Plain": "the Euclidean distance and the cosine of the rows as they are",
        "Verdict": "the learner of each fold is chosen on the other folds; the gain is over the better plain distance",
    }
    if board.kind == "quadruplets":
        protocol["The same items"] = f"{board.folds} folds over pairs; both pairs of a tested answer are in one fold"
        protocol["Pairs"] = "both pairs of a tested answer have an item of the fold, and each pair is tested once"
    sections = [Section("Answers foreseen", _table(board), " ".join(board.sentences()[2:]))]
    data: dict[str, object] = {}
    if best is not None and len(board.gains):
        gains = np.sort(board.gains)[::-1]
        data["gains"] = {
            "values": gains.round(4).tolist(),
            "n": len(gains),
            "measure": "answers foreseen",
            "unit": "item",
        }
        note = f"{best.name} against {board.reference}, for each item that no answer learned from compares."
        sections.append(Section("The gain of each item", chart("gains"), note))
    sections += [Section("What was saved", f"<p>{escape(saved)}</p>")]
    sections.append(Section("How this was measured", facts(protocol | dict(measured))))
    text = " ".join(board.sentences()[:2])
    headline = header(f"{title} · {board.heading()}", board.verdict.kind.capitalize(), text)
    return page(f"{title} · mahala compare", headline, sections, data)


def _table(board: AnswerBoard) -> str:
    heading, *lines = board.cells()
    head = "".join(f"<th{' class=n' if at else ''}>{escape(text)}</th>" for at, text in enumerate(heading))
    body = []
    for line in lines:
        cells = "".join(f"<td{' class=n' if at else ''}>{escape(text)}</td>" for at, text in enumerate(line))
        body.append(f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
