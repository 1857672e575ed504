"""The package as a whole: what it exports and with which types, what importing it costs, what the README shows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
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


def test_stub_has_only_lines_that_the_package_reads():
    stub = (ROOT / "src" / "mahala" / "__init__.pyi").read_text(encoding="utf-8")
    imported = [line.split()[-1] for line in stub.splitlines() if "import" in line and not line.startswith("#")]
    assert [*imported, "__version__"] == mahala.__all__


def test_types_are_those_of_the_names():
    """The options are those of `make lint`, so that the two share a cache."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install 'mahala[dev]'")
    command = [sys.executable, "-m", "mypy", "tests/typed_program.py"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"MYPYPATH": "src"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dependencies_are_those_that_are_imported():
    """Declare every package that a module imports at its top, even one that another dependency would bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.match(r"[\w-]+", line)[0].replace("scikit-learn", "sklearn") for line in project["dependencies"]}
    nodes = [node for path in (ROOT / "src").rglob("*.py") for node in ast.parse(path.read_text(encoding="utf-8")).body]
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported = {module.split(".")[0] for module in modules}
    assert imported - sys.stdlib_module_names - {"mahala"} <= declared


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "document", "exec"), {"__name__": "document"})


def test_learners_of_the_readme_are_the_learners_there_are():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([A-Z]\w+)", readme, re.MULTILINE))
    from contract.learners import LEARNERS

    assert named == {kind.__name__ for kind in LEARNERS}
