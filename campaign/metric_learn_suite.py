"""Run metric-learn's own tests against `mahala.compat.metric_learn`, and metric-learn itself beside it.

    python -m campaign.metric_learn_suite --output suite.json

Its source distribution is downloaded from PyPI into a temporary folder and not changed. A plugin of pytest binds the
name `metric_learn` to the compat module. It also gives the tests two things that have gone since: `pytest.warns(None)`,
which recorded all warnings, and metric-learn's own shims of scikit-learn. A test counts as private if it calls a
function of `metric_learn._util` or a private method of a learner.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

VERSION = "0.7.0"
# These build the messages that public methods are to raise.
_HELPERS = {"make_context", "make_name"}

# Runs inside pytest, before any test is imported.
PLUGIN = """
import os, re, sys, types, warnings
import pytest

_warns = pytest.warns

def warns(expected_warning=Warning, *args, **kwargs):
    if expected_warning is None:
        return warnings.catch_warnings(record=True)
    return _warns(expected_warning, *args, **kwargs)

pytest.warns = warns
# The distribution lacks test/__init__.py, so Python's own package of that name would be found.
tests = types.ModuleType("test")
tests.__path__ = [os.path.join(os.getcwd(), "test")]
sys.modules["test"] = tests

def shims():
    from sklearn.metrics import get_scorer
    from sklearn.utils import _testing, estimator_checks
    module = types.ModuleType("metric_learn.sklearn_shims")
    module.SKLEARN_AT_LEAST_0_22, module.get_scorer = True, get_scorer
    for name in ("set_random_state", "ignore_warnings", "assert_allclose_dense_sparse", "_get_args"):
        setattr(module, name, getattr(_testing, name))
    module.is_public_parameter = lambda name: not (name.startswith("_") or name.endswith("_"))
    return module

if os.environ["SUITE_OF"] == "mahala":
    import mahala.compat.metric_learn as compat
    from mahala.compat.metric_learn import _initial, _util, base_metric, constraints, exceptions, tuples

    def missing(name):
        def function(*args, **kwargs):
            raise NotImplementedError(f"{name} is private to metric-learn")
        return function

    for name in os.environ["SUITE_PRIVATE"].split():
        if not hasattr(_util, name):
            setattr(_util, name, getattr(_initial, name, missing(name)))
    modules = {"_util": _util, "base_metric": base_metric, "constraints": constraints, "exceptions": exceptions,
               "sdml": tuples, "sklearn_shims": shims()}
    sys.modules["metric_learn"] = compat
    sys.modules |= {f"metric_learn.{name}": module for name, module in modules.items()}
"""


def unpacked(folder: Path) -> Path:
    """Download metric-learn's source distribution into a folder, and return where it is unpacked."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-binary", ":all:", f"metric-learn=={VERSION}"], cwd=folder, check=True)
    with tarfile.open(folder / f"metric-learn-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"metric-learn-{VERSION}"


def private_names(tests: Path) -> set[str]:
    """Return the functions that the tests import from `metric_learn._util`."""
    trees = [ast.parse(path.read_text()) for path in tests.glob("test_*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports if node.module == "metric_learn._util" for alias in node.names}


def private_tests(tests: Path, names: set[str]) -> set[str]:
    """Return "file::function" of the tests that call a private function or method."""
    result = set()
    for path in tests.glob("test_*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test"):
                continue
            used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            methods = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            if used & (names - _HELPERS) or any(name in ("_fit", "_validate_calibration_params") for name in methods):
                result.add(f"{path.name}::{function.name}")
    return result


def outcomes(source: Path, library: str, names: set[str]) -> dict[str, tuple[str, str]]:
    """Run the tests; return the outcome of each and, if it failed, why."""
    (source / "suite_plugin.py").write_text(PLUGIN)
    report = source / f"{library}.jsonl"
    (source / "suite_report.py").write_text(
        "import json, os\n"
        "def pytest_runtest_logreport(report):\n"
        "    if report.when == 'call' or report.outcome != 'passed':\n"
        "        why = str(getattr(report.longrepr, 'reprcrash', None) or report.longrepr or '')\n"
        "        with open(os.environ['SUITE_REPORT'], 'a') as file:\n"
        "            file.write(json.dumps([report.nodeid, report.outcome, why[:600]]) + '\\n')\n"
        "def pytest_collectreport(report):\n"
        "    if report.failed:\n"
        "        with open(os.environ['SUITE_REPORT'], 'a') as file:\n"
        "            file.write(json.dumps([report.nodeid, 'failed', str(report.longrepr)[-600:]]) + '\\n')\n"
    )
    paths = [str(source), str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    more = {"SUITE_OF": library, "SUITE_PRIVATE": " ".join(names), "SUITE_REPORT": str(report)}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "suite_plugin", "-p", "suite_report",
               "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "test"]  # fmt: skip
    environment = os.environ | more | {"PYTHONPATH": os.pathsep.join(paths)}
    with open(source / f"{library}.log", "w") as log:
        subprocess.run(command, cwd=source, env=environment, stdout=log, stderr=log, check=False)
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    return {node: (outcome, why) for node, outcome, why in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="file for the outcome of every test, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = unpacked(Path(folder))
        names = private_names(source / "test")
        private = private_tests(source / "test", names)
        results = {library: outcomes(source, library, names) for library in ("mahala", "metric-learn")}
    for library, tests in results.items():
        public = {node: result for node, result in tests.items() if _function(node) not in private}
        counts, all_counts = Counter(o for o, _ in public.values()), Counter(o for o, _ in tests.values())
        share = counts["passed"] / max(counts["passed"] + counts["failed"], 1)
        print(f"{library}: public {dict(counts)}, {share:.1%} passed; with private ones {dict(all_counts)}")
    for node, (outcome, why) in results["mahala"].items():
        if outcome == "failed":
            kind = "private" if _function(node) in private else "public"
            print(f"  {kind}  {node}\n      {' '.join(why.split())[:300]}")
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


def _function(node: str) -> str:
    parts = node.split("[")[0].split("::")
    return f"{Path(parts[0]).name}::{parts[-1]}"


if __name__ == "__main__":
    main()
