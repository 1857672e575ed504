"""Write the lists of learners from the heads of their pages: `python docs/learner_lists.py`.

They are in README.md, mkdocs.yml, the page of all learners and the gallery. A list keeps its order; a new learner comes
last in its group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HEAD = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[(.*?)\]\(.*?\)")
Head = dict[str, str]


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


if __name__ == "__main__":
    for path, text in lists().items():
        path.write_text(text, encoding="utf-8")
