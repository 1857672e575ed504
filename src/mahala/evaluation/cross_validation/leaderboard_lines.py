"""The lines of a leaderboard, as text, terminal and page show them."""

from typing import Any, NamedTuple

from mahala.evaluation.cross_validation.entries import Entry

# Fields of entries that are shown after the error, and their titles.
TITLES = {
    "difference": "difference",
    "seconds": "fit",
    "plain_error": "plain error",
    "balanced_error": "balanced error",
    "absolute_error": "mean absolute error",
    "scaling": "scaling",
    "stopped": "stopped",
}


class Line(NamedTuple):
    """An entry as it is shown: its numbers as text by the names of their fields, and their 95 % intervals."""

    entry: Entry
    style: str
    """How the line is set off: "winner", "plain" (a plain distance), "failed", or nothing."""
    texts: dict[str, str]
    intervals: dict[str, str]


def line_of(entry: Entry, euclidean: Entry, winner: Entry) -> Line:
    """Return the line of an entry, given the best of the plain distances and the winner."""
    if entry.failure is not None:
        return Line(entry, "failed", dict.fromkeys(TITLES, "") | {"error": "failed"}, {})
    texts = {name: _text(name, getattr(entry, name)) for name in ("error", *TITLES)}
    ends = {"error": (entry.low, entry.high), "difference": (entry.difference_low, entry.difference_high)}
    if entry is euclidean:
        texts["difference"] = "reference"
        del ends["difference"]
    intervals = {name: (low, high) for name, (low, high) in ends.items() if low == low}
    style = "winner" if entry is winner else "" if entry.learned else "plain"
    return Line(
        entry, style, texts, {n: f"{points(low, n)} to {points(high, n)}" for n, (low, high) in intervals.items()}
    )


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.0421)
    '4.2 %'
    """
    return f"{100.0 * share:.1f} %"


def p_text(p: float) -> str:
    """Format a p-value.

    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def points(share: float, name: str = "") -> str:
    """Format a share in percentage points; a difference has a sign, but not that of -0.0.

    >>> points(-0.00001), points(0.02, "difference")
    ('0.0', '+2.0')
    """
    value = round(100.0 * share, 1) + 0.0
    return f"{value:+.1f}" if name == "difference" else f"{value:.1f}"


def _text(name: str, value: Any) -> str:
    """Format a field of an entry; what is NaN, or no fit that was stopped, is not shown."""
    if isinstance(value, str):
        return value
    if value != value or (name == "stopped" and not value):
        return ""
    if name == "difference":
        return points(value, name)
    if name == "absolute_error":
        return f"{value:.4g}"
    return percent(value) if name.endswith("error") else f"{value:.2f} s" if name == "seconds" else str(value)
