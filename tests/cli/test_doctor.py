"""`mahala doctor` as a person uses it."""

from __future__ import annotations

import json
import platform
from types import SimpleNamespace

import numba
import numpy as np
from typer.testing import CliRunner

import mahala
from mahala.cli import doctor
from mahala.cli.main import app


def run(*arguments):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_facts_are_those_of_the_installation(monkeypatch):
    monkeypatch.setenv("NUMBA_OPT", "3")
    monkeypatch.setenv("SECRET_NUMBA_KEY", "not to be shown")
    monkeypatch.setattr(doctor, "_gpu", lambda: "GPU 0")
    with mahala.config_context(n_threads=3):
        facts = json.loads(run("--json"))
    assert facts["mahala"] == mahala.__version__
    assert facts["python"].startswith(platform.python_version())
    expected = {"numpy": np.__version__, "numba": numba.__version__}
    assert expected.items() <= facts["packages"].items()
    assert {"scipy", "scikit-learn", "safetensors"} <= set(facts["packages"])
    assert facts["threads"]["used"] == 3
    assert all(library["threads"] >= 1 for library in facts["blas"])
    assert facts["gpu"] == "GPU 0"
    assert facts["extras"]["cli"] == {"missing": []}  # the command runs
    assert facts["environment"]["NUMBA_OPT"] == "3"
    assert "not to be shown" not in str(facts)


def test_text_has_a_line_for_each_fact(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "_is_installed", lambda name: name != "torch")
    words = [line.split() for line in run().splitlines()]
    assert ["mahala", mahala.__version__] in words
    assert ["GPU", "PyTorch", "is", "not", "installed"] in words
    assert ["[cli]", "installed"] in words
    assert ["[gpu]", "needs", "torch"] in words


def test_compiled_functions_are_counted(tmp_path, monkeypatch):
    for name in "a.nbi", "a.nbc", "a.1.nbc", "other.txt":
        (tmp_path / name).write_bytes(bytes(100))
    dispatcher = SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path)))
    monkeypatch.setattr("mahala.compiled.jit.Kernel.dispatcher", property(lambda kernel: dispatcher))
    assert doctor._cache() == {"folder": str(tmp_path), "functions": 1, "bytes": 300}
    monkeypatch.setattr("mahala.compiled.jit.Kernel.dispatcher", property(lambda kernel: print))
    assert doctor._cache() == {"folder": "no folder", "functions": 0, "bytes": 0}
