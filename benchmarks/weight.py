"""How much code there is to read: lines, long functions, many parameters, `Any`, public names, the way of a fit.

    python benchmarks/weight.py                    # of this checkout
    python benchmarks/weight.py --beside v0.2.0    # and of another commit
    python benchmarks/weight.py --list             # the functions that are long or have many parameters

Lines of code are those without blank lines, comments, docstrings and imports; a line's length is without its
indentation. "Search" is the package mahala-search.
"Predictor" is `neighbors/`. The parameters of commands are their options and are not counted. The files that a fit to
labels passes are those of which it runs a function, the second time; kernels count. The checks, locks and limits in
`support/`, which all estimators share, are counted apart.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

LONG, MANY = 60, 8  # lines of a function, and its parameters
SEARCH = re.compile(r"(serve|feedback)/")  # where it was before it became a package of its own
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_NO_CODE = {*(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)}


# Prints, for each learner named, its name and the numbers of files outside of `support/` and in it.
WAY = """
import sys
import numpy as np
import mahala
y = np.arange(120) % 3
X = np.random.default_rng(0).normal(size=(120, 5)) + np.eye(3, 5)[y]
for name in sys.argv[1:]:
    files, learner = set(), getattr(mahala, name)(random_state=0)
    learner.fit(X, y)
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    learner.fit(X, y)
    sys.setprofile(None)
    own = [file for file in files if file.startswith(mahala.__path__[0])]
    shared = sum("/support/" in file for file in own)
    print(name, len(own) - shared, shared)
"""


class Function(NamedTuple):
    """A function, its place, and what it asks of a reader."""

    place: str
    n_lines: int
    n_parameters: int


class File(NamedTuple):
    """What there is to read in a file."""

    name: str
    lines: list[str]
    functions: list[Function]
    n_any: int


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines with code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {n for token in tokens if token.type not in _NO_CODE for n in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(tree):
        apart = node if isinstance(node, ast.Import | ast.ImportFrom) else None
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            apart = node.body[0]
        if apart is not None:
            lines -= set(range(apart.lineno, (apart.end_lineno or apart.lineno) + 1))
    return lines


def read(path: Path, name: str) -> File:
    """Read a file of source code."""
    source = path.read_text()
    tree, text = ast.parse(source), source.splitlines()
    numbers = code_lines(source, tree)
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_lines = len(numbers & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
            arguments = node.args
            names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            n_parameters = len([each for each in names if each not in ("self", "cls")])
            command = name.startswith("cli/") and any("Annotated" in ast.unparse(each) for each in arguments.args)
            place = f"{name}:{node.lineno} {node.name}"
            functions.append(Function(place, n_lines, 0 if command else n_parameters))
    n_any = sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
    return File(name, [text[n - 1].strip() for n in sorted(numbers)], functions, n_any)


def weigh(root: Path) -> tuple[dict[str, str], list[Function]]:
    """Return the figures of a checkout, and the functions that are long or have many parameters."""
    package = root / "src" / "mahala"
    files = [read(path, path.relative_to(package).as_posix()) for path in sorted(package.rglob("*.py"))]
    apart = root / "search" / "src"
    search = [file for file in files if SEARCH.match(file.name)]
    search += [read(path, path.relative_to(apart).as_posix()) for path in sorted(apart.rglob("*.py"))]
    predictor = [file for file in files if file.name.startswith("neighbors/")]
    library = [file for file in files if file not in search and file not in predictor]
    functions = [function for file in files if file not in search for function in file.functions]
    n_code = sum(len(file.lines) for file in library)
    n_characters = sum(len(line) for file in library for line in file.lines)
    names = re.findall(r"^from .* import (\w+) as \1$", (package / "__init__.pyi").read_text(), re.M)
    figures = {
        "files of the library": f"{len(library):,}",
        "lines of code: library": f"{n_code:,}",
        "predictor": f"{sum(len(file.lines) for file in predictor):,}",
        "search": f"{sum(len(file.lines) for file in search):,}",
        "characters a line": f"{n_characters / n_code:.1f}",
        f"functions over {LONG} lines": f"{sum(each.n_lines > LONG for each in functions)}",
        f"functions of more than {MANY} parameters": f"{sum(each.n_parameters > MANY for each in functions)}",
        "`Any`": f"{sum(file.n_any for file in library + predictor):,}",
        "names at the top of `mahala`": f"{len(names)}",
        **files_passed(root),
    }
    return figures, [each for each in functions if each.n_lines > LONG or each.n_parameters > MANY]


def files_passed(root: Path) -> dict[str, str]:
    """Return how many files of a checkout two fits to labels pass."""
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-W", "ignore", "-c", WAY, "PA", "OASIS"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {
        f"files that {name}.fit passes": f"{n_own}, and {n_support} of support/" for name, n_own, n_support in lines
    }


def checkout(commit: str, folder: str) -> Path:
    """Write the source of a commit into a folder."""
    command = ["git", "archive", commit]
    archive = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="COMMIT", help="weigh another commit, too")
    parser.add_argument("--list", action="store_true", help="list the functions that are long or have many parameters")
    options = parser.parse_args()
    columns: dict[str, dict[str, str]] = {}
    if options.beside:
        with tempfile.TemporaryDirectory() as folder:
            columns[options.beside] = weigh(checkout(options.beside, folder))[0]
    columns["this checkout"], functions = weigh(Path(__file__).parents[1])
    table = Table("", *columns)
    for row in columns["this checkout"]:
        table.add_row(row, *(figures[row] for figures in columns.values()))
    console = Console()
    console.print(table)
    if options.list:
        for function in sorted(functions, key=lambda each: -each.n_lines):
            console.print(f"{function.n_lines:4} lines, {function.n_parameters:2} parameters  {function.place}")


if __name__ == "__main__":
    main()
