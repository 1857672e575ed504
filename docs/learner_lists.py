"""Write the lists of learners from the heads of their pages, and into these times and papers.

    python docs/learner_lists.py

The papers are the references of the docstrings. The lists are in README.md, mkdocs.yml, the page of all learners and
the gallery. A list keeps its order; a new learner comes last in its group. The times are those of the tables in
scale.md (batch learners) and speed.md (online ones).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from mahala.learner import learner_kinds
from mahala.support.citations import references_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HEAD = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[(.*?)\]\(.*?\)")
Head = dict[str, str]
# The paragraph with the times of a learner, and what follows it.
TIMES = re.compile(r"(?:## Cost\n)?\*\*Measured\*\*.*?\n\n(?=## )", re.DOTALL)
NEXT = "## Parameters and attributes"
PAPERS = re.compile(r"(?<=^## Paper\n).*?(?=\n\n|\n\Z)", re.DOTALL | re.MULTILINE)
STEPS = 100_000


def head(page: Path) -> Head:
    """Return what the head of a page says: `group`, `learns from`, `gallery` and `row`, the cells of a table."""
    match = HEAD.match(page.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{page} should begin with a head between two lines of ---, as the pages beside it do")
    return dict(line.split(": ", 1) for line in match[1].splitlines())


def groups(heads: dict[str, Head], key: Callable[[Head], str]) -> Iterator[tuple[str, list[str]]]:
    for group in sorted({key(each) for each in heads.values()}):
        yield group, [name for name, each in heads.items() if key(each) == group]


def with_entries(text: str, start: str, entry: str, names: list[str], write: Callable[[str], str]) -> str:
    """Return a text with an entry for each name in the list that follows `start`; `entry` is a pattern of one."""
    match = re.compile(rf"{entry}(?:\n+{entry})*", re.MULTILINE).search(text, text.index(start))
    assert match is not None, start
    space = "\n\n" if "\n\n" in match[0] else "\n"
    before = re.findall(entry, match[0], re.MULTILINE)
    entries = space.join(write(name) for name in in_order(names, before))
    return text[: match.start()] + entries + text[match.end() :]


def in_order(names: list[str], before: list[str]) -> list[str]:
    return sorted(names, key=lambda name: before.index(name) if name in before else len(before))


def lists() -> dict[Path, str]:
    """Return the text of each file with a list of learners."""
    heads = {page.stem: head(page) for page in sorted((DOCS / "learners").glob("*.md")) if page.stem != "index"}
    paths = ROOT / "README.md", ROOT / "mkdocs.yml", DOCS / "learners" / "index.md", DOCS / "gallery.md"
    readme, site, index, gallery = (path.read_text(encoding="utf-8") for path in paths)

    def row(name: str) -> str:
        return f"| [{name}]({name}.md) | {heads[name]['row']} |"

    def link(name: str) -> str:
        return f"          - {name}: learners/{name}.md"

    def picture(name: str) -> str:
        return f"[**{name}**: {heads[name]['gallery']}](learners/{name}.md)"

    for source, names in groups(heads, lambda each: each["learns from"]):
        cells = re.findall(r"^\| .*? \| ", readme, re.MULTILINE)
        cell = next(cell for cell in cells if LINK.sub(r"\1", cell) == f"| {source} | ")
        before, _, after = readme.partition(cell)[2].partition("\n")
        listed = ", ".join(f"`{name}`" for name in in_order(names, re.findall(r"`(\w+)`", before)))
        readme = f"{readme.partition(cell)[0]}{cell}{listed} |\n{after}"
    for group, names in groups(heads, lambda each: each["group"]):
        site = with_entries(site, f"  - {group}:\n", r"^ +- (\w+): learners/\w+\.md$", names, link)
    for group, names in groups(heads, lambda each: each["group"].partition(",")[0]):
        index = with_entries(index, f"## {group}\n", r"^\| \[(\w+)\]\(\w+\.md\) \|.*$", names, row)
    gallery = with_entries(gallery, '<div class="gallery"', r"^\[\*\*(\w+)\*\*.*$", list(heads), picture)
    return dict(zip(paths, (readme, site, index, gallery), strict=True))


def table(page: str, corner: str) -> Iterator[list[str]]:
    """Yield the lines of a table of a page, which has this text in its first cell, as cells."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = text[text.index(f"| {corner} |") :].partition("\n\n")[0].splitlines()
    for number, line in enumerate(lines):
        if number != 1:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def fits() -> dict[str, str]:
    """Return what a fit takes, by the name of a batch learner."""
    (_, *sizes), *lines = table("scale.md", "learner | 20,000 × 50")
    what = [re.sub(r"^(.*) × (\S+)(.*)$", r"\1\3 rows of \2 features", size) for size in sizes]
    words = {"refused": "no room", "> 15 s": "more than 15 s"}
    return {
        name: "**Measured** [seconds of a fit](../scale.md#many-features) with default parameters: "
        + "; ".join(
            f"{size}: {words.get(cell, cell.partition(',')[0])}" for size, cell in zip(what, cells, strict=True)
        )
        for name, *cells in lines
    }


def steps() -> dict[str, str]:
    """Return what many steps take, by the name of an online learner."""
    times: dict[str, dict[str, float]] = {}
    for corner in ("d = 16", "d = 384"):
        _, *lines = table("speed.md", corner)
        for names, *cells in lines:
            learners = [names.split()[0]] if '"' in names else names.split(", ")
            for name, cell in zip(learners, cells[0].split(", "), strict=False):
                if (DOCS / "learners" / f"{name}.md").exists():
                    times.setdefault(name, {})[corner.removeprefix("d = ")] = float(cell)
    return {
        name: f"**Measured** [seconds](../speed.md#single-calls) of {STEPS:,} steps in one `partial_fit`: "
        + ", ".join(f"{micros * STEPS / 1e6:.2g} with {d} features" for d, micros in by_size.items())
        for name, by_size in times.items()
    }


def papers(kind: type) -> str:
    """Return the papers in the docstring of a learner, with italic names of journals and conferences."""
    return " ".join(str(paper._replace(venue=f"*{paper.venue}*")) for paper in references_of(kind))


def pages() -> dict[Path, str]:
    """Return the text of each page of a learner, with its times and its paper."""
    result, times = {}, {**fits(), **steps()}
    for kind in learner_kinds():
        path = DOCS / "learners" / f"{kind.__name__}.md"
        text = PAPERS.sub(lambda _, kind=kind: fill(papers(kind)), path.read_text(encoding="utf-8"))
        text = TIMES.sub("", text)
        heading = "" if "## Cost\n" in text else "## Cost\n"
        result[path] = text.replace(NEXT, f"{heading}{fill(f'{times[kind.__name__]}.')}\n\n{NEXT}")
    return result


def fill(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    for path, text in {**lists(), **pages()}.items():
        path.write_text(text, encoding="utf-8")
