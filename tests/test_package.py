"""The package as a whole: what it exports, what importing it costs, what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mahala

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))
]


def test_import_is_light():
    code = "import sys, mahala; print(sorted({m.split('.')[0] for m in sys.modules} & {'numba', 'sklearn', 'scipy'}))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_every_name_is_there_and_documented():
    assert sorted(dir(mahala)) == sorted(mahala.__all__)
    for name in mahala.__all__:
        assert getattr(mahala, name).__doc__
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mahala.nonsense


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "document", "exec"), {"__name__": "document"})


def test_learners_of_the_readme_are_the_learners_there_are():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([A-Z]\w+)", readme, re.MULTILINE))
    from contract.learners import LEARNERS

    assert named == {kind.__name__ for kind in LEARNERS}
