"""A self-contained HTML page of a QueryAdapter that was fitted to judgments."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from mahala.extend.report import Section, chart, code, facts, header, page, table
from mahala_search.adapter.query_adapter import QueryAdapter
from mahala_search.arrays import FloatArray, IndexArray
from mahala_search.quality.gains import CrossValidation

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
