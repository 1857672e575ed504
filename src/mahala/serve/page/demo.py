"""The demo: functions and classes of NumPy, SciPy and scikit-learn, found by what they do.

Their names and first sentences are read from the source files that are installed with mahala; nothing is imported and
nothing is fetched.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mahala.serve.page.encoders import WordEncoder

NAME, WIDTH, MOST = "demo", 64, 2000
# Folders whose modules are read, with the name under which their functions are called.
_SOURCES = (
    ("numpy", ("lib", "linalg", "fft", "ma", "polynomial", "_core/fromnumeric.py", "_core/numeric.py")),
    ("scipy", ("linalg", "stats", "signal", "optimize", "sparse", "spatial", "interpolate", "ndimage", "integrate")),
    ("sklearn", ("cluster", "linear_model", "metrics", "preprocessing", "model_selection", "ensemble", "datasets")),
)
_SKIPPED = {"tests", "testing", "benchmarks", "externals", "_precompute", "setup.py", "conftest.py"}
# A definition at the left margin, the lines of its signature, and the first paragraph of its docstring.
_HEAD = re.compile(
    r'^(?:def|class) (?P<name>[A-Za-z]\w*)[^\n]*\n(?:(?:    [^"\n][^\n]*|\)[^\n]*)\n){0,40}?'
    r' +[rR]?"""(?P<text>[^\n]*(?:\n[^\n]*[^\s][^\n]*)*)',
    re.MULTILINE,
)


def demo_items() -> tuple[WordEncoder, list[dict[str, Any]]]:
    """Return about 2,000 items with text and vectors, and the encoder that made the vectors."""
    found: dict[str, dict[str, str]] = {}
    for name, summary, module in itertools.islice(_by_turns(), MOST):
        payload = {"title": name, "text": summary, "library": module.partition(".")[0], "module": module}
        found.setdefault(f"{module}.{name}", payload)
    payloads = list(found.values())
    texts = [f"{_spaced(one['title'])} {one['text']} {_spaced(one['module'])}" for one in payloads]
    encoder, vectors = WordEncoder.of(texts, WIDTH)
    items = [
        {"id": id, "vector": vector, "payload": payload}
        for id, vector, payload in zip(found, vectors, payloads, strict=True)
    ]
    return encoder, items


def _by_turns() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the first sentence and the module of functions and classes, by turns from each folder."""
    readers = [_of_folder(library, folder) for library, folders in _SOURCES for folder in folders]
    while readers:
        for reader in list(readers):
            one = next(reader, None)
            if one is None:
                readers.remove(reader)
            else:
                yield one


def _of_folder(library: str, folder: str) -> Iterator[tuple[str, str, str]]:
    spec = importlib.util.find_spec(library)
    assert spec is not None, "it is a dependency"
    assert spec.origin is not None, "it has an __init__.py"
    root = Path(spec.origin).parent
    place = root / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    module = library if place.is_file() or folder == "lib" else f"{library}.{folder}"
    for path in files:
        if _SKIPPED.isdisjoint(path.relative_to(root).parts):
            for name, summary in documented(path.read_text(encoding="utf-8")):
                yield name, summary, module


def documented(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the public functions and classes of a module, with the first paragraphs of their docstrings.

    A pattern finds them, because to parse the files takes ten times as long.
    """
    for found in _HEAD.finditer(source):
        summary = " ".join(found["text"].partition('"""')[0].split())
        if 20 <= len(summary) <= 300:
            yield found["name"], summary


def _spaced(name: str) -> str:
    """Return the words of a name: `LinearRegression` and `linear_regression` have the same two."""
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).replace("_", " ").replace(".", " ")
