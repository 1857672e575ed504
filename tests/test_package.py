"""The package as a whole: what it exports and with which types, what importing it costs, what the README shows."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import mahala
from mahala.learner import learner_kinds

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("package", ["mahala", "mahala.extend", "mahala_search"])
def test_import_is_light(package):
    heavy = "{'numba', 'sklearn', 'scipy'}"
    code = f"import sys, {package}; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


SERVE = """
import sys
import numpy as np
import mahala

metric = mahala.Metric.load(sys.argv[1])
X = np.random.default_rng(0).normal(size=(4, 3))
metric.embed(X)
metric.embed(X[:1], side="item")
metric.rank(X[0], X, k=2)
metric.explain(X[0], X[1])
if isinstance(metric, mahala.MahalanobisMetric):
    metric.transform(X)
    metric.distance(X[0], X[1])
    metric.predict_comparisons(mahala.Pairs(X, [0], [1]))
else:
    metric.similarity(X, X)
print(sorted({name.split(".")[0] for name in sys.modules} & {"numba", "sklearn", "scipy", "rich", "typer"}))
"""


@pytest.mark.parametrize("kind", ["MahalanobisMetric", "BilinearMetric"])
def test_a_metric_is_applied_without_numba_and_scikit_learn(kind, tmp_path):
    """A process that only serves starts in the time that NumPy takes."""
    matrix = [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    options = {"threshold": 1.0} if kind == "MahalanobisMetric" else {}
    getattr(mahala, kind)(matrix, **options).save(tmp_path / "metric.safetensors")
    command = [sys.executable, "-c", SERVE, str(tmp_path / "metric.safetensors")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_every_name_is_there_and_documented():
    assert len(dir(mahala)) <= 48
    packages = [getattr(mahala, name) for name in sorted(set(dir(mahala)) - set(mahala.__all__))]
    assert len(packages) == 7
    for package in [mahala, *packages]:
        assert package.__doc__
        assert set(package.__all__) <= {*dir(package), "__version__"}
        for name in package.__all__:
            assert getattr(package, name).__doc__
    for place in ("evaluation.Leaderboard", "batch.Relief", "online.RDML"):
        with pytest.raises(AttributeError, match=rf"it is mahala\.{place}"):
            getattr(mahala, place.partition(".")[2])
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mahala.nonsense


def test_signatures_show_plain_types():
    packages = [getattr(mahala, name) for name in sorted(set(dir(mahala)) - set(mahala.__all__))]
    public = [getattr(package, name) for package in [mahala, *packages] for name in package.__all__]
    members = [member for kind in public for member in inspect.getmembers(kind, inspect.isfunction)]
    methods = [method for name, method in members if not name.startswith("_") or name == "__init__"]
    for value in [*public, *methods]:
        if callable(value) and value is not mahala.ModelFileError:  # a ValueError, which has no signature
            assert not re.search("Annotated|Where|_NestedSequence|<function", str(inspect.signature(value))), value
    for kind in learner_kinds():
        assert len(str(inspect.signature(kind))) <= 250, kind
        assert not re.search("Any|_NestedSequence", str(inspect.signature(kind.fit))), kind
    documentation = pydoc.render_doc(mahala.NCA)
    assert "Where(" not in documentation
    assert "n_components: int | None = None" in documentation
    assert str(inspect.signature(mahala.PA)).startswith(
        "(variant='I', *, record=100000, random_state: int | None = None,"
    )


def test_no_name_is_that_of_a_module_beside_it():
    """Importing the module would put it in the place of the function."""
    for stub in (ROOT / "src" / "mahala").rglob("__init__.pyi"):
        package = "mahala" + ".".join(["", *stub.parent.relative_to(ROOT / "src" / "mahala").parts])
        names = {name for name, module in mahala._stub_names(package).items() if module != package}
        assert not names.intersection(path.stem for path in stub.parent.iterdir()), package


def test_stub_has_only_lines_that_the_package_reads():
    stub = (ROOT / "src" / "mahala" / "__init__.pyi").read_text(encoding="utf-8")
    lines = [line for line in stub.splitlines() if "import" in line and not line.startswith("#")]
    imported = [line.split()[-1] for line in lines if not line.startswith("from mahala import")]
    assert [*imported, "__version__"] == mahala.__all__


@pytest.mark.parametrize("name", ["mahala.extend", "mahala.extend.commands"])
def test_names_for_other_packages_are_there_and_say_what_they_are_for(name):
    package = importlib.import_module(name)
    stub = (ROOT / "src" / Path(*name.split(".")) / "__init__.pyi").read_text(encoding="utf-8")
    lines = [line for line in stub.splitlines() if line.startswith("from")]
    assert len(lines) == len(package.__all__)
    for line, exported in zip(lines, package.__all__, strict=True):
        assert "  # " in line, line
        assert hasattr(package, exported)


def test_dependencies_are_those_that_are_imported():
    """Declare every package that a module imports at its top, even one that another dependency would bring.

    What only the commands need, and the reports that they write, is in an extra.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    allowed = {
        folder: {re.match(r"[\w-]+", line)[0].replace("scikit-learn", "sklearn") for line in lines}
        for folder, lines in (
            (".", project["dependencies"]),
            ("cli", extras["cli"]),
            ("report", extras["cli"]),
            ("engine/torch", extras["gpu"]),
        )
    }
    package = ROOT / "src" / "mahala"
    for path in package.rglob("*.py"):
        nodes = ast.parse(path.read_text(encoding="utf-8")).body
        modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        imported = {module.split(".")[0] for module in modules} - sys.stdlib_module_names - {"mahala"}
        folders = [folder for folder in allowed if path.is_relative_to(package / folder)]
        assert imported <= set().union(*(allowed[folder] for folder in folders)), path


WITHOUT_EXTRAS = """
import sys
for name in ("rich", "typer"):
    sys.modules[name] = None  # importing it fails
import numpy as np
import mahala

for name in mahala.__all__:
    getattr(mahala, name)
X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
print(mahala.PA(random_state=0).fit(X, y).transform(X).shape)
print(mahala.NCA(max_iter=2, random_state=0).fit(X, y).transform(X).shape)
try:
    mahala.NCA(verbose=True).fit(X, y)
except ImportError as error:
    print(error)
from mahala.__main__ import main
main()
"""


def test_the_library_works_without_what_the_commands_need():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout.splitlines()[:2] == ["(20, 3)"] * 2
    assert done.stdout.splitlines()[2:] == ["progress bars need Rich: pip install 'mahala[cli]'"]
    assert done.stderr == "error: the mahala command needs rich, typer: pip install 'mahala[cli]'\n"


@pytest.mark.parametrize(("library", "name", "extra"), [("torch", "PyTorch", "gpu"), ("river", "river", "river")])
def test_a_bridge_names_the_library_that_it_needs(library, name, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)  # importing it fails
    monkeypatch.delitem(sys.modules, f"{library}.base", raising=False)
    monkeypatch.delitem(sys.modules, f"mahala.{library}", raising=False)
    with pytest.raises(ImportError, match=rf"mahala\.{library} needs {name}: pip install 'mahala\[{extra}\]'"):
        importlib.import_module(f"mahala.{library}")


def test_the_package_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "mahala", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"mahala {mahala.__version__}"


@pytest.mark.docs
@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documents_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = ModuleType("document")
    monkeypatch.setitem(sys.modules, "document", module)  # where pickle finds its classes
    exec(compile(block, "document", "exec"), vars(module))


def test_every_pattern_that_searches_input_takes_linear_time():
    """30 kB of what a pattern repeats; quadratic time would be many seconds."""
    repeated = (*" 1aA_(-+%$.,", "1,", "1 ", "$ ", "%(", "\r\n", "id_", "\r\ncontent-length: ")
    inputs = [part * (30_000 // len(part)) + end for part in repeated for end in ("", "x", " !")]
    patterns = {}
    for package in ("mahala.cli", "mahala.comparisons", "mahala.data", "mahala_search", "mahala.stream"):
        folder = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}."):
            try:
                names = vars(importlib.import_module(module.name))
            except ModuleNotFoundError as error:
                if error.name not in ("psycopg", "qdrant_client", "faiss"):  # which are optional
                    raise
                continue
            for name, pattern in names.items():
                if isinstance(pattern, re.Pattern):
                    patterns[pattern] = f"{module.name}.{name}"
    assert len(patterns) > 10
    for pattern, name in patterns.items():
        for text in inputs:
            started = time.process_time()
            pattern.search(text if isinstance(pattern.pattern, str) else text.encode())
            assert time.process_time() - started < 1.0, f"{name} on {text[:20]!r}"
