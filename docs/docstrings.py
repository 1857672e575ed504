"""Docstrings as the site shows them: plain text that a terminal shows well becomes Markdown that a browser does."""

from __future__ import annotations

import re

import griffe

SECTION = re.compile(r"^(?P<name>\w+)\n-{3,}\n", re.MULTILINE)
# One or several names, perhaps what they are, and the indented lines below.
ENTRY = re.compile(r"(?P<names>\w+(?:, \w+)*)(?: : (?P<text>.+))?(?P<block>(?:\n {4}.*)*)")
# An entry whose line is longer than this is text that continues in the next line, not the type of a parameter.
LONGEST_TYPE = 80


class Docstrings(griffe.Extension):
    """Prepares each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """The docstring with code as code, and with lists of parameters and attributes as the parser wants them."""
    text = re.sub(r":(?:class|func|meth):`~?(?:mahala\.)?([\w.]+)`", r"`\1`", docstring)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = re.sub(r"\b([A-Za-z])\*(?!\w)", r"\1\\*", text)  # M* is a matrix, not the beginning of emphasis
    text = re.sub(r"^(>>> .+?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.DOTALL | re.MULTILINE)
    description, *sections = SECTION.split(text)
    result = ""
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        if name in ("Parameters", "Attributes"):
            body, prose = _entries(body, split=name == "Parameters")
            description = "\n\n".join([description.rstrip(), *prose, ""])
        result += f"{name}\n{'-' * len(name)}\n{body}"
    return description + result


def _entries(body: str, split: bool) -> tuple[str, list[str]]:
    """The entries of a section, those of several names once for each, and the prose that follows them."""
    listed, *prose = body.strip("\n").split("\n\n")
    result = []
    for found in ENTRY.finditer(listed):
        names, kind, block = found["names"], found["text"], found["block"]
        first = found[0].split("\n")[0]
        if kind is not None and (not block or len(first) > LONGEST_TYPE):
            kind, block = None, f"\n    {kind}{block}"
        for name in names.split(", ") if split else [names]:
            result.append(name + (f" : {kind}" if kind is not None else "") + block)
    return "\n".join(result) + "\n\n", prose
