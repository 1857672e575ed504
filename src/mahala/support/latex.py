"""Tables in LaTeX."""

import re
from collections.abc import Sequence

_ESCAPES = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "±": r"$\pm$",
    "…": r"\dots{}",
    "²": r"\textsuperscript{2}",
    "\n": " ",
}
_ESCAPED = re.compile(f"[{re.escape(''.join(_ESCAPES))}]")


def escaped(text: str) -> str:
    r"""Return text as LaTeX prints it, with a thin space before the sign of a percentage.

    >>> print(escaped("R&D_1: 4.2 %"))
    R\&D\_1: 4.2\,\%
    """
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text).replace(r" \%", r"\,\%")


def latex_table(groups: Sequence[Sequence[Sequence[str]]], note: str, caption: str, label: str | None) -> str:
    """Return a table with rules of the package booktabs; of each group of rows the first is the heading.

    Cells, note and caption are LaTeX.
    """
    lines = [r"\begin{table}", r"\centering", f"\\caption{{{caption}}}"]
    lines += [] if label is None else [f"\\label{{{label}}}"]
    lines.append(f"\\begin{{tabular}}{{l{'r' * (len(groups[0][0]) - 1)}}}")
    for number, (heading, *rows) in enumerate(groups):
        lines += [r"\midrule" if number else r"\toprule", _row(heading), r"\midrule", *map(_row, rows)]
    lines += [r"\bottomrule", r"\end{tabular}", rf"\par\smallskip\footnotesize {note}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
