"""Self-contained HTML pages: of a QueryAdapter that was fitted to judgments, and of learners compared by answers."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from mahala.evaluation.answer_board import AnswerBoard
from mahala.feedback.query_adapter import QueryAdapter
from mahala.feedback.trust.gains import CrossValidation
from mahala.report.page import Section, chart, code, facts, header, page, table
from mahala.support.arrays import FloatArray, IndexArray

_MOST_QUERIES = 10
# More would not be visible in the chart.
_MOST_GAINS = 1000


def adaptation(
    adapter: QueryAdapter, names: Sequence[str], *, title: str, commands: Sequence[str], measured: Mapping[str, str]
) -> str:
    """Return the page: the verdict, the nDCG before and after, the gains of the queries, and how they were measured.

    `names` are the ids of all rows of queries, `commands` examples of the use of the adapter, and `measured` holds
    facts by name, such as versions. All texts are escaped.
    """
    values, verdict = adapter.cross_validation_, adapter.verdict_
    gains, measure = values.gains, f"nDCG@{adapter.k}"
    counts = f"{(gains > 0.0).sum():,} gain, {(gains < 0.0).sum():,} lose, {(gains == 0.0).sum():,} stay"
    protocol = {
        "Protocol": f"{min(int(adapter.n_folds), len(gains))}-fold cross-validation over the judged queries",
        "Plain": "the ranking by inner products of the vectors as they are",
        "Learned": "the share of the learned map in each fold was chosen on the other folds, and may be none",
        "Interval": "random signs over queries, or Student's t if more than 200 differ",
    }
    ends = "" if not verdict.helps else f" <small>95 % {verdict.low:+.3f} to {verdict.high:+.3f}</small>"
    means = [f"{values.raw.mean():.3f}", f"<b>{values.learned.mean():.3f}</b>", f"{gains.mean():+.3f}{ends}"]
    sections = [
        Section(f"{measure}, plain and learned", table(["plain", "learned", "gain"], [means])),
        Section(
            "The gain of each query",
            chart("gains"),
            f"Of {len(gains):,} queries, {counts}. Each was ranked by a map that was not learned from it.",
        ),
        Section("Queries that lose the most", _queries(values, values.losers(_MOST_QUERIES), names)),
        Section("Queries that gain the most", _queries(values, values.winners(_MOST_QUERIES), names)),
        Section("What next", code(commands)),
        Section("How this was measured", facts(protocol | dict(measured))),
    ]
    headline = header(f"{title} · {len(gains):,} judged queries", verdict.kind.capitalize(), verdict.sentence)
    data = {"gains": {"values": _thinned(gains), "n": len(gains), "measure": measure}}
    return page(f"{title} · mahala adapt", headline, sections, data)


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


def _thinned(gains: FloatArray) -> list[float]:
    """Return gains from the largest to the smallest, with both, at most as many as can be seen."""
    n = len(gains)
    chosen = np.linspace(0, n - 1, min(n, _MOST_GAINS)).round().astype(int)
    thinned: list[float] = np.sort(gains)[::-1][chosen].round(4).tolist()
    return thinned


def _queries(values: CrossValidation, places: IndexArray, names: Sequence[str]) -> str:
    if not len(places):
        return "<p>None.</p>"
    rows = (
        [escape(names[values.query[at]]), f"{values.raw[at]:.3f}", f"{values.learned[at]:.3f}", f"{gain:+.3f}"]
        for at, gain in zip(places, values.gains[places], strict=True)
    )
    return table(["query", "plain", "learned", "gain"], rows, " class=queries")
