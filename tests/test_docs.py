"""Test that the code of the documentation runs and prints what the pages show, and that no page or link is missing.

If a learner or a command prints or draws something new, `python tests/test_docs.py PAGE ...` writes that into the pages
and beside them; look at the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from mahala.cli.main import app
from mahala.learner import learner_kinds
from processes import COMMAND, Program

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if DOCS / "results" not in page.parents)
FENCE = re.compile(r"^```(?P<language>\w+)(?P<title>[^\n]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<target>[^)#\s]*)(?:#[^)\s]*)?\)")
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e-?\d+)?")
OUTPUT = 'title="Output"'
PICTURE = re.compile(r"\]\((?P<name>[\w-]+\.svg)\)")  # of the same folder: the code of the page draws it
PICTURE_STYLE = {
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "mahala",
    "axes.spines.right": False,
    "axes.spines.top": False,
    # a grey that is seen on white and on black
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), "#8a8f98"),
}
WRITTEN_BY_PROGRAMS = re.compile(r'^```text title="Output"\n.*?^```$', re.DOTALL | re.MULTILINE)
HEAD = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
REQUIRES = re.compile(r'title="Requires ([^"]*)"')  # packages, and environment variables in capitals
# What all pages answer that are asked which learner to use first, without links.
FIRST_ANSWER = (
    "To predict classes or numbers, use NeighborClassifier or NeighborRegressor. To get a metric, run mahala compare "
    "on your table: it tries up to 13 learners and says whether any of them helps. To start with a single learner, "
    "use DMLMJ on scaled features: it has the best mean rank on the 24 tables of our benchmark."
)
FIRST_ANSWERS = ["index.md", "faq.md", "guides/data-scientist.md", "learners/index.md"]
COLUMNS = "100"  # width of the terminal in which commands run
SECONDS = re.compile(r"\d+\.\d+ s *$", re.MULTILINE)
# Pages show what recent versions print. Many distances between rows of the balance scale tie, and an older BLAS breaks
# these ties differently.
RECENT = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def name_of(page):
    return page.relative_to(DOCS).as_posix()


def text_of(page):
    return page.read_text(encoding="utf-8")


def missing_for(block):
    """Return what a block requires and what is not here."""
    names = [name for names in REQUIRES.findall(block["title"]) for name in names.split(", ")]
    return [name for name in names if name not in os.environ and not list(distributions(name=name))]


# Where the pages say that a service is; the tests let it take any port that is free.
SERVICE = "http://127.0.0.1:8417"


def run_page(text, namespace=None):
    """Run the blocks of a page in one namespace; yield what each printed and the output that follows it, or None.

    Blocks that require what is not here are left out. A service that the page starts ends with the page.
    """
    with contextlib.ExitStack() as services:
        yield from run_blocks(text, services, {} if namespace is None else namespace)


def run_blocks(text, services, namespace):
    addresses = []
    namespace["__name__"] = "page"
    blocks = [found for found in FENCE.finditer(text) if found["language"] in ("python", "bash", "text")]
    for block, after in zip_longest(blocks, blocks[1:]):
        if missing_for(block):
            continue
        body = block["body"].replace(SERVICE, addresses[-1] if addresses else SERVICE)
        if block["language"] == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(body, "page", "exec"), namespace)
            output = printed.getvalue()
        elif block["language"] == "bash" and body.startswith("mahala serve --"):
            addresses.append(services.enter_context(started(shlex.split(body))))
            output = ""
        elif block["language"] == "bash":
            output = "".join(run_command(line) for line in body.replace("\\\n", " ").splitlines() if line)
        else:
            continue
        follows = after is not None and OUTPUT in after["title"]
        yield SECONDS.sub("... s", output), after if follows else None


@contextlib.contextmanager
def started(command):
    """Start a service in the background; yield its address."""
    with Program(COMMAND, *command[1:], "--port", "0") as process:
        yield process.stdout.readline().strip()


def run_command(line):
    """Return what a `mahala` or `curl` command prints. Pipes and other programs are not supported."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "curl":
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    assert program == "mahala", line
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.stdout


def same_but_for_rounding(printed, said):
    """Compare two texts: words must be equal, numbers may differ as much as they do between machines.

    Rounding may change the class of a row or the place of a result, and the order of two that are nearly equal. A line
    `...` stands for a line that differs from machine to machine.
    """
    lines, expected = (
        [line.split() for line in re.sub("([█━])+", r"\1", text).replace("p < ", "p = ").splitlines() if line.strip()]
        for text in (printed, said)
    )
    if len(lines) != len(expected):
        return False
    for words in expected:
        at = next((at for at, line in enumerate(lines[:2]) if same_line(line, words)), None)
        if at is None:
            return False
        del lines[at]
    return True


def same_line(words, expected):
    if expected == ["..."]:
        return True
    return len(words) == len(expected) and all(same_word(words[at], expected, at) for at in range(len(words)))


def same_word(word, line, at):
    """Compare a word with that of a line. How much a number may differ depends on what it is."""
    expected = line[at]
    if NUMBER.sub("0", word) != NUMBER.sub("0", expected):
        return False
    one, other = ([float(number) for number in NUMBER.findall(text)] for text in (word, expected))
    if (line[at - 1 : at] == ["="] and line[at - 2].endswith("p")) or line[at + 1 : at + 2] == ["..."]:
        # A p-value, in a sentence or in the column before the time of a fit: the side that it is on must be the same.
        return [p < 0.05 for p in one] == [p < 0.05 for p in other]
    n_digits = len(re.sub(r"\D*$", "", expected).partition(".")[2])
    points = n_digits == 1 and any("%" in each for each in line)
    in_percent = points or "%" in expected or line[at + 1 : at + 2] == ["%"]
    # Percentages: a row of a hundred, or a share of the votes under a metric whose descent rounds in another way.
    # Shares and means: a query of forty finds its item one place later.
    least = 2.0 if in_percent else 0.025 if n_digits > 1 else 0.011
    return one == pytest.approx(other, rel=0.02, abs=least)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", COLUMNS)
    namespace = {}
    picture = None
    if find_spec("mkdocs") is not None:
        monkeypatch.syspath_prepend(DOCS)
        import gallery

        picture = gallery.PICTURES.get(name_of(page))
    for printed, output in run_page(text_of(page), namespace):
        if output is not None and RECENT:
            said = output["body"]
            assert same_but_for_rounding(printed, said), f"the page shows\n{said}\nbut the output is\n{printed}"
        if picture is not None:  # the front page shows what the first example has learned
            assert len(gallery.draw(name_of(page), namespace)) > 1000
            picture = None
    if missing := sorted({name for block in FENCE.finditer(text_of(page)) for name in missing_for(block)}):
        pytest.skip(f"all ran but the blocks that require {', '.join(missing)}")
    assert {found["name"] for found in PICTURE.finditer(text_of(page))} <= {file.name for file in tmp_path.iterdir()}


def test_blocks_that_require_what_is_not_here_are_left_out(monkeypatch):
    page = '```python title="Requires numpy, {}"\nprint(1)\n```\n'
    monkeypatch.delenv("MAHALA_NOTHING", raising=False)
    for name in "no-such-package", "MAHALA_NOTHING":
        assert missing_for(FENCE.search(page.format(name))) == [name]
        assert not list(run_page(page.format(name)))
    monkeypatch.setenv("MAHALA_NOTHING", "1")
    assert [printed for printed, _ in run_page(page.format("MAHALA_NOTHING"))] == ["1\n"]


def test_outputs_are_compared_with_what_is_printed():
    page = '```python\nprint("error", 0.25)\n```\n\n```text title="Output"\nerror 0.5\n```\n'
    ((printed, output),) = run_page(page)
    assert (printed, output["body"]) == ("error 0.25\n", "error 0.5\n")
    assert not same_but_for_rounding("error 0.25\n", "error 0.5\n")
    assert not same_but_for_rounding("error 0.5 0.5\n", "error 0.5\n")
    assert not same_but_for_rounding("mistake 0.5\n", "error 0.5\n")
    assert same_but_for_rounding("error 0.505\n", "error 0.5\n")
    assert same_but_for_rounding("a 8.5 % p = 0.22\nb 8.6 %", "b 8.5 %\na 8.6 % p = 0.09\n")
    assert not same_but_for_rounding("a 8.5 % p = 0.22\n", "a 8.6 % p = 0.02\n")
    assert not same_but_for_rounding("a 6.5 %\n", "a 8.6 %\n")
    assert not same_but_for_rounding("k = 3, 8.5 %\n", "k = 1, 8.5 %\n")
    assert not same_but_for_rounding("+0.620 nDCG, 95 %\n", "+0.580 nDCG, 95 %\n")
    assert same_but_for_rounding("a 1\nb 2\n", "a 1\n...\n")
    assert not same_but_for_rounding("a 1\nb 2\nc 3\n", "a 1\n...\n")


def test_parameters_that_share_a_line_have_a_line_each(monkeypatch):
    pytest.importorskip("griffe", reason="griffe is not installed: pip install 'mahala[docs]'")
    monkeypatch.syspath_prepend(str(DOCS))
    from docstrings import as_markdown

    before = "It is.\n\nParameters\n----------\na, b : as for `C`\nd : int\n    Number.\n\nSo much for M*."
    parameters = "a\n    as for `C`\nb\n    as for `C`\nd : int\n    Number.\n\n"
    after = "It is.\n\nSo much for M\\*.\n\nParameters\n----------\n" + parameters
    assert as_markdown(before) == after


@pytest.mark.parametrize("page", [page for page in PAGES if "```math" in text_of(page)], ids=name_of)
def test_formulas_are_typeset(page, monkeypatch):
    """Nothing of LaTeX is left, as of an environment or a command that the converter does not know."""
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install 'mahala[docs]'")
    monkeypatch.syspath_prepend(DOCS)
    from formulas import BLOCK, on_page_content, on_page_markdown

    blocks = BLOCK.findall(text_of(page))
    assert len(blocks) == text_of(page).count("```math")
    inline = re.findall(r"\$`([^`]*)`\$", text_of(page))
    found = [on_page_markdown(f"```math\n{formula}\n```") for formula in blocks]
    found += [on_page_content(f"$<code>{html.escape(formula)}</code>$") for formula in inline]
    for text in found:
        formula = ElementTree.fromstring(text)  # it is well-formed, too
        assert "\\" not in "".join(formula.itertext())
        assert not {part for part in formula.itertext() if part in ("&", "$", "begin", "end")}


def test_every_learner_has_a_page_and_is_in_the_lists(monkeypatch):
    """Sections of these pages are in one order; some pages have more of them."""
    monkeypatch.syspath_prepend(DOCS)
    import learner_lists

    order = ["Example", "When to use it", "How it works", "Parameters and attributes", "Paper"]
    names = {kind.__name__ for kind in learner_kinds()}
    assert {page.stem for page in (DOCS / "learners").glob("*.md")} - {"index"} == names
    for name in names:
        headings = re.findall(r"^## (.*)$", text_of(DOCS / "learners" / f"{name}.md"), re.MULTILINE)
        assert [heading for heading in headings if heading in order] == order
    pages = learner_lists.pages()
    assert {path.stem for path in pages} == names
    for path, text in {**learner_lists.lists(), **pages}.items():
        assert text_of(path) == text, "run python docs/learner_lists.py"


@pytest.mark.parametrize("page", [*FIRST_ANSWERS, ROOT / "README.md"], ids=str)
def test_which_learner_first_has_one_answer(page):
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text_of(DOCS / page))
    assert FIRST_ANSWER in " ".join(re.sub(r"[*`]", "", text).split())


@pytest.mark.parametrize("name", ["RCA", "OASIS"])  # a distance and a similarity
def test_gallery_draws_a_learner(name, monkeypatch):
    for package in ("mkdocs", "matplotlib"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'mahala[docs]'")
    monkeypatch.syspath_prepend(DOCS)
    import gallery

    assert len(gallery.wines_by(name)) > 5000


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r"[\w./-]+\.md", text_of(ROOT / "mkdocs.yml")))
    assert {name_of(page) for page in PAGES} <= named
    assert all((DOCS / name).exists() for name in named)


def test_lines_of_markdown_have_at_most_120_characters():
    """Rows of tables, links, heads of pages and what a program prints cannot be wrapped."""
    pages = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md"), *DOCS.rglob("*.md")]
    long = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        for line in WRITTEN_BY_PROGRAMS.sub("", HEAD.sub("", text_of(page))).splitlines()
        if len(line) > 120 and not line.lstrip().startswith(("|", "![")) and " " in line.strip()
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_a_page_lead_somewhere(page):
    without_code = FENCE.sub("", text_of(page))
    for link in LINK.finditer(without_code):
        assert (page.parent / link["target"]).exists(), link.group()


def rewrite(page):
    """Write what the blocks of a page print into the page, if it differs, and what they draw beside it."""
    import matplotlib as mpl

    text = result = text_of(page)
    with mpl.rc_context(PICTURE_STYLE | {"backend": "agg"}):
        outputs = list(run_page(text))
    for picture in PICTURE.finditer(text):
        drawn = Path(picture["name"]).read_text(encoding="utf-8")
        (page.parent / picture["name"]).write_text(re.sub("<dc:date>.*?</dc:date>", "", drawn), encoding="utf-8")
    for printed, output in reversed(outputs):
        if output is not None and not same_but_for_rounding(printed, output["body"]):
            lines = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").split("\n"))
            result = result[: output.start("body")] + lines + result[output.end("body") :]
    page.write_text(result, encoding="utf-8")


if __name__ == "__main__":
    os.environ["COLUMNS"] = COLUMNS
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            rewrite(page)
