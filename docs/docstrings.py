"""Docstrings as the site shows them: plain text that a terminal shows well becomes Markdown that a browser does."""

from __future__ import annotations

import re

import griffe

ENTRY = re.compile(r"^(?P<names>\w+(?:, \w+)*) : (?P<text>.+)$")
SECTIONS = ("Parameters", "Attributes")
# An entry whose line is longer than this is text that goes on in the next line, not the type of a parameter.
LONGEST_TYPE = 80


class Docstrings(griffe.Extension):
    """Prepares each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """The docstring without reStructuredText, and with words after a colon as what they are: a description."""
    text = re.sub(r":(?:class|func|meth):`~?(?:mahala\.)?([\w.]+)`", r"`\1`", docstring)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = re.sub(r"\b([A-Za-z])\*(?!\w)", r"\1\\*", text)  # M* is a matrix, not the beginning of emphasis
    lines, section = text.split("\n"), ""
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and re.fullmatch("-{3,}", lines[number + 1]):
            section = line
        found = ENTRY.match(line) if section in SECTIONS else None
        if found is None:
            continue
        explained = number + 1 < len(lines) and lines[number + 1].startswith("    ")
        if not explained or len(line) > LONGEST_TYPE:
            lines[number] = f"{found['names']}\n    {found['text']}"
    return "\n".join(lines)
