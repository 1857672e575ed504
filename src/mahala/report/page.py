"""A self-contained HTML page: text from Python, charts from JSON that a script in the page draws.

The charts are Observable Plot's (with D3, 490 KB): it has tips and symbols, its SVG takes on the colours of the page,
light or dark, and it runs under a policy that forbids `eval`. Plotly needs 1.2 MB or more, Vega-Lite 770 KB and `eval`,
and uPlot draws no points with shapes. Both files in `vendor/` are as published.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "report.js")


class Section(NamedTuple):
    """A section of a page: its title, its content, which is HTML, a note below it, and its charts' data."""

    title: str
    content: str
    note: str = ""
    data: Mapping[str, object] = {}


def page(title: str, header: str, sections: Sequence[Section]) -> str:
    """Return the page with this header, which is HTML, a list of contents, the sections, and the data of its charts."""
    numbered = list(enumerate(sections))
    scripts = [_file(name) for name in _SCRIPTS]
    return Template(_file("report.html")).substitute(
        policy=_policy(scripts),
        title=escape(title),
        style=_file("report.css"),
        header=header,
        contents="".join(f'<li><a href="#s{at}">{escape(section.title)}</a></li>' for at, section in numbered),
        sections="\n".join(
            f"<section id=s{at}><h2>{escape(title)}</h2>{content}"
            f"{f'<p class=note>{escape(note)}</p>' if note else ''}</section>"
            for at, (title, content, note, _) in numbered
        ),
        data=_json(dict(item for section in sections for item in section.data.items())),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def header(eyebrow: str, headline: str, verdict: str, more: str, first: str) -> str:
    """Return the header of a page, of texts and of HTML: `first` stands above the verdict, and `more` below it."""
    return (
        f"<header><p class=eyebrow>{escape(eyebrow)}</p><h1>{escape(headline)}</h1>{first}"
        f"<p class=verdict>{escape(verdict)}</p>{more}</header>"
    )


def chart(title: str, name: str, data: object, note: str) -> Section:
    """Return a section with a chart, which the script draws from the data of this name."""
    return Section(title, f'<div data-chart="{escape(name)}"></div>', note, {name: data})


def code(commands: Sequence[str]) -> str:
    """Return commands, each of one or more lines, with a button that copies it."""
    return "".join(
        f"<div class=code><pre><code>{escape(command)}</code></pre><button type=button class=copy>Copy</button></div>"
        for command in commands
    )


def facts(values: Mapping[str, str]) -> str:
    """Return names and what is to be said of each."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in values.items())
    return f"<dl>{rows}</dl>"


def _file(name: str) -> str:
    return files("mahala.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Forbid loading anything and running any other script, so that names in the user's table are harmless."""
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}"


def _json(data: Mapping[str, object]) -> str:
    """Return JSON in which no text can end the element that it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
