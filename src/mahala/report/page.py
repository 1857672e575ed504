"""Parts of a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from mahala.report import plots


def page(title: str, parts: Sequence[str]) -> str:
    """Return the page with these parts, which are HTML."""
    style = files("mahala.report").joinpath("report.css").read_text(encoding="utf-8")
    return _PAGE.format(title=escape(title), style=style, body="\n".join(parts))


def section(title: str, content: str, note: str = "") -> str:
    """Return a section with a heading, its content, which is HTML, and a note below it."""
    below = f"<p class=note>{escape(note)}</p>" if note else ""
    return f"<section><h2>{escape(title)}</h2>{content}{below}</section>"


def card(figure: Any, name: str) -> str:
    """Return a figure in a frame; names of the figures of a page must differ."""
    return f"<figure class=card>{plots.svg(figure, name)}</figure>"


def code(lines: Sequence[str]) -> str:
    """Return lines of code."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def facts(values: Mapping[str, str]) -> str:
    """Return names and what is to be said of each."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in values.items())
    return f"<dl>{rows}</dl>"


# The policy forbids loading and running anything, so names in the user's table are harmless.
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="generator" content="mahala">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style></head>
<body><main>
{body}
</main></body></html>
"""
