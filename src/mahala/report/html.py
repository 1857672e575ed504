"""Report of a comparison as a single, self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mahala.data.scaling import divided, feature_scales
from mahala.evaluation.leaderboard import EUCLIDEAN_SCALED, Entry, Leaderboard, p_text, percent
from mahala.metric import MahalanobisMetric
from mahala.report import plots
from mahala.report.page import card, code, facts, page, section
from mahala.support.arrays import BoolArray, FloatArray, IndexArray
from mahala.support.validation import is_sparse

# More points would overlap too much, and pairs of more rows would not change the histograms.
_MOST_POINTS = 2000
_MOST_ROWS_OF_PAIRS = 600
_MOST_FEATURES = 20
_MOST_LINES = 5


@dataclass(frozen=True, eq=False)
class Shown:
    """The learned metric that the figures show, and the rows, some of which were held out when it was fitted."""

    name: str
    metric: MahalanobisMetric
    """Fitted to the rows that are not held out."""
    final: MahalanobisMetric
    """Fitted to all rows, for the spectrum and the features."""
    X: Any
    codes: IndexArray
    held_out: BoolArray


def report(
    leaderboard: Leaderboard,
    shown: Shown | None,
    *,
    title: str,
    saved: str,
    commands: Sequence[str],
    measured: Mapping[str, str],
) -> str:
    """Return the page: the verdict, the leaderboard, figures of `shown`, and how everything was measured.

    `saved` is a sentence on the contents of the model file, `commands` are examples of its use, and `measured` holds
    facts by name, such as versions. All texts are escaped.
    """
    parts = [
        _headline(leaderboard, title, saved),
        section("Leaderboard", _table(leaderboard), _table_note(leaderboard)),
        section(
            "Error by number of neighbours",
            card(_by_k(leaderboard), "by-k"),
            "Means over all test parts; the band marks the ranking's number.",
        ),
    ]
    if shown is not None:
        parts += _pictures(leaderboard, shown)
    parts += [
        section("Time of a fit", _times(leaderboard), "CPU seconds on one thread, the median over training parts."),
        section("What next", code(commands)),
        section("How this was measured", _how(leaderboard, measured)),
    ]
    return page(f"{title} · mahala compare", parts)


def _headline(board: Leaderboard, title: str, saved: str) -> str:
    # If no learner wins, the heading already says the first words of the verdict.
    plainly = "No learner beats Euclidean here"
    word = f"{board.winner.name} beats Euclidean" if board.beats_euclidean else plainly
    verdict = board.verdict().removeprefix(f"{plainly}: ")
    verdict = verdict[0].upper() + verdict[1:].replace(" %", "\u00a0%").replace("p = ", "p\u00a0=\u00a0")
    size = f"{len(board.rows):,} rows · {board.n_features:,} features · {len(board.classes):,} classes"
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in board.notes)
    return (
        f"<header><p class=eyebrow>{escape(title)} · {size}</p><h1>{escape(word)}</h1>"
        f"<p class=verdict>{escape(verdict)}</p><p>{escape(saved)}</p>{notes}</header>"
    )


def _table(board: Leaderboard) -> str:
    lines = [_line(board, entry) for entry in board.entries]
    return (
        f"<table class=board><thead><tr><th>metric</th><th class=n>{board.n_neighbors}-NN error</th>"
        f"<th class=wide>0 <span class=end>{percent(board.axis_end)}</span></th>"
        "<th class=n>to Euclidean</th><th class=n>p</th></tr></thead><tbody>" + "".join(lines) + "</tbody></table>"
    )


def _line(board: Leaderboard, entry: Entry) -> str:
    if entry.failure is not None:
        return (
            f"<tr class=failed><td>{escape(entry.name)}</td><td colspan=4>could not be fitted: "
            f"{escape(entry.failure)}</td></tr>"
        )
    kind = "winner" if entry is board.winner and entry.learned else "" if entry.learned else "plain"
    low, middle, high = (min(100.0 * value / board.axis_end, 100.0) for value in (entry.low, entry.error, entry.high))
    dot = f'<i class=dot style="left:{middle:.2f}%"></i>' if entry.error <= board.axis_end else "<i class=beyond>›</i>"
    bar = f'<div class=track><i class=reach style="left:{low:.2f}%;width:{high - low:.2f}%"></i>{dot}</div>'
    if entry is board.euclidean:
        difference = "<td class=n>the best</td>"
    else:
        ends = f"{_points(entry.difference_low)} to {_points(entry.difference_high)}"
        difference = f"<td class=n>{_points(entry.difference)} <small>{ends}</small></td>"
    p = "" if np.isnan(entry.p_value) else p_text(entry.p_value).removeprefix("p ").removeprefix("= ")
    return (
        f"<tr class='{kind}'><td>{escape(entry.name)}</td>"
        f"<td class=n><b>{percent(entry.error)}</b> <small>{100 * entry.low:.1f} to {100 * entry.high:.1f}</small></td>"
        f"<td class=wide>{bar}</td>{difference}<td class=n>{escape(p)}</td></tr>"
    )


def _points(difference: float) -> str:
    """Format a difference in percentage points, with its sign."""
    shown = f"{100.0 * difference:+.1f}"
    return "0.0" if float(shown) == 0.0 else shown.replace("-", "−")


def _table_note(board: Leaderboard) -> str:
    n = sum(entry.learned for entry in board.ranked)
    adjusted = f", adjusted for {n} learners (Holm)" if n > 1 else ""
    return (
        "Dot: mean error; line and small numbers: 95 % interval. To Euclidean: difference to the best Euclidean "
        f"distance in percentage points, with its interval. p: p-value of no difference{adjusted}."
    )


def _by_k(board: Leaderboard) -> Any:
    """Draw the errors of the leading learners and of the Euclidean distances."""
    leading = [entry for entry in board.ranked if entry.learned][:_MOST_LINES]
    plain = [entry for entry in board.ranked if not entry.learned]
    lines = {entry.name: entry.errors.mean(axis=0) for entry in (*leading, *plain)}
    return plots.errors_by_neighbors(lines, board.neighbor_counts, board.n_neighbors, [entry.name for entry in plain])


def _pictures(board: Leaderboard, shown: Shown) -> list[str]:
    before_name, after_name = board.euclidean.name, shown.name
    scales = feature_scales(shown.X[np.flatnonzero(~shown.held_out)], "standard")
    before = divided(shown.X, scales) if before_name == EUCLIDEAN_SCALED else shown.X
    before = before.toarray() if is_sparse(before) else np.asarray(before, dtype=np.float64)
    after = shown.metric.transform(shown.X)
    rng = np.random.default_rng(board.random_state)
    rows = _some(np.flatnonzero(shown.held_out), _MOST_ROWS_OF_PAIRS, rng)
    points = _some(np.arange(len(before)), _MOST_POINTS, rng)
    histograms, planes, spreads = [], [], []
    for number, (name, mapped) in enumerate(((f"before: {before_name}", before), (f"after: {after_name}", after))):
        pairs = _distances(mapped[rows], shown.codes[rows])
        histograms.append(card(plots.distances_of_pairs(*pairs, name), f"pairs-{number}"))
        where, spread = _spread(_leading(mapped)[points], rng)
        spreads.append(spread)
        own, held_out = shown.codes[points], shown.held_out[points]
        planes.append(card(plots.plane(where, own, board.classes, held_out, name), f"plane-{number}"))
    many = f" The {len(board.classes)} classes share ten colours and shapes." if len(board.classes) > 10 else ""
    coincide = " Rows that overlap are spread slightly." if any(spreads) else ""
    names = shown.final.feature_names or [f"x{j}" for j in range(shown.final.n_features_in)]
    return [
        section(
            "Distances before and after",
            f"<div class=pair>{''.join(histograms)}</div>",
            f"Pairs of {len(rows):,} held-out rows, to which {after_name} was not fitted. The less the two overlap, "
            "the better. Distances are divided by their median, because only their ratios matter.",
        ),
        section(
            "The rows in a plane",
            f"<div class=pair>{''.join(planes)}</div>",
            "The two directions of largest variance under each distance. Strong: held-out rows; faint: "
            f"rows to which {after_name} was fitted.{coincide}{many}",
        ),
        section(
            f"Spectrum of {after_name}",
            card(plots.spectrum(shown.final.spectrum), "spectrum"),
            f"The rank is {shown.final.n_components:,} of {len(shown.final.spectrum):,}. If the first few directions "
            "hold most of the sum, rows can be stored with fewer numbers.",
        ),
        section(
            "Weights of the features",
            _bars([(name, 100.0 * share) for name, share in _shares(shown, names)], "{:.1f} %"),
            "The share of each feature's own term in the mean squared distance"
            + (f"; the {_MOST_FEATURES} largest of {len(names)}." if len(names) > _MOST_FEATURES else "."),
        ),
    ]


def _some(rows: IndexArray, most: int, rng: np.random.Generator) -> IndexArray:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _distances(rows: NDArray[Any], codes: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the distances of all pairs within a class, and of all other pairs."""
    from scipy.spatial.distance import pdist

    i, j = np.triu_indices(len(rows), 1)
    distances = pdist(rows) if rows.shape[1] else np.zeros(len(i))
    same = codes[i] == codes[j]
    return distances[same], distances[~same]


def _leading(rows: NDArray[Any]) -> NDArray[Any]:
    """Project rows to the two directions of largest variance; the second is zero if there is only one."""
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    flat = centred @ vectors[:, :-3:-1]
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def _spread(points: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], bool]:
    """Return the points, spread if they lie on a line or most of them coincide, and whether they were spread."""
    extent = float(np.ptp(points, axis=0).max()) or 1.0
    if np.ptp(points[:, 1]) <= 1e-9 * extent:  # only one direction, as for LDA with two classes
        return points + np.array([0.0, 0.1 * extent]) * rng.uniform(-1.0, 1.0, (len(points), 1)), True
    distinct = len(np.unique((points / extent).round(6), axis=0))
    if 2 * distinct >= len(points):
        return points, False
    reach = 0.2 * extent / distinct**0.5  # less than half a cell of a grid, so that the grid stays visible
    return points + rng.uniform(-reach, reach, points.shape), True


def _shares(shown: Shown, names: Sequence[str]) -> list[tuple[str, float]]:
    scales = np.ones(len(names)) if shown.final.scales is None else shown.final.scales
    # A constant feature has a scale of 1, but no share.
    constant = np.ptp(shown.X.toarray() if is_sparse(shown.X) else shown.X, axis=0) == 0.0
    variances = np.where(constant, 0.0, feature_scales(shown.X, "standard") ** 2)
    terms = shown.final.matrix.diagonal() * variances / scales**2
    shares = terms / (terms.sum() or 1.0)
    return [(names[j], float(shares[j])) for j in np.argsort(-shares, kind="stable")[:_MOST_FEATURES]]


def _times(board: Leaderboard) -> str:
    learned = sorted((entry for entry in board.ranked if entry.learned), key=lambda entry: -entry.seconds)
    return _bars([(entry.name, entry.seconds) for entry in learned], "{:.2g} s")


def _bars(values: Iterable[tuple[str, float]], form: str) -> str:
    values = list(values)
    most = max((value for _, value in values), default=0.0) or 1.0
    lines = (
        f"<li><span>{escape(name)}</span><span class=track><i class=bar style='width:{100 * value / most:.2f}%'></i>"
        f"</span><span class=n>{form.format(value)}</span></li>"
        for name, value in values
    )
    return f"<ul class=bars>{''.join(lines)}</ul>"


def _how(board: Leaderboard, measured: Mapping[str, str]) -> str:
    scaling = (
        "each feature divided by its standard deviation in the training part" if board.scaling == "standard" else "none"
    )
    told = {
        "Protocol": f"stratified {board.folds}-fold cross-validation, "
        + ("once" if board.repeats == 1 else f"repeated {board.repeats} times")
        + ", with the same folds for all",
        "Error": f"share of test rows misclassified by the vote of their {board.n_neighbors} nearest training rows",
        "Scaling": scaling,
        "Intervals, p": "corrected resampled t-test (Nadeau, Bengio, 2003), because training parts overlap; p-values "
        "adjusted by Holm's method",
        "Caution": "the winner was selected on the same test parts, so its error is slightly optimistic; the adjusted "
        "p-value accounts for the selection",
        "Seed": str(board.random_state),
        **measured,
    }
    return facts(told)
