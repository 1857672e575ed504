"""What a release needs: one version, one address, one list of requirements."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import mahala
import mahala_search

ROOT = Path(__file__).parents[1]


def test_the_recipe_requires_what_the_package_requires():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["cli"], *extras["tables"], f"python{project['requires-python']}"]
    expected = {line for line in lines if not line.startswith("mahala[")}
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n(.*?)^\S", recipe, re.DOTALL | re.MULTILINE)[1]
    assert {"".join(line.split()) for line in re.findall(r"^    - (.*)$", run, re.MULTILINE)} == expected
    assert f'version: "{mahala.__version__}"' in recipe


def test_both_packages_have_one_version():
    project = tomllib.loads((ROOT / "search" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert mahala_search.__version__ == mahala.__version__
    assert f"mahala[cli]~={mahala.__version__}" in project["dependencies"]


def test_a_tag_is_released_only_if_version_changelog_and_address_agree():
    problems = runpy.run_path(str(ROOT / ".ci" / "check_release.py"))["problems"]
    text = "\n".join(problems("v9.9", "https://example.org/mahala"))
    assert f"must be v{mahala.__version__}, as src/mahala/__init__.py says, got v9.9" in text
    assert "[project.urls]" in text
    assert "the tag" not in "".join(problems(f"v{mahala.__version__}", ""))
