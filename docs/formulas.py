"""Formulas of the pages, in LaTeX, as MathML: browsers draw it, without scripts or fonts.

They are written as GitHub shows them, too: a block of the language `math`, or a dollar sign around code.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^```math\n(?P<formula>.*?)\n```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$<code>(?P<formula>[^<]*)</code>\$")


def on_page_markdown(markdown: str, **page: Any) -> str:
    """Convert blocks, as lines of HTML that Markdown leaves alone."""
    return BLOCK.sub(lambda found: f'<div class="formula">{convert(found["formula"], display="block")}</div>', markdown)


def on_page_content(content: str, **page: Any) -> str:
    """Convert what stands in a line."""
    return INLINE.sub(lambda found: convert(html.unescape(found["formula"])), content)
