"""Check that a tag can be released: `python .ci/check_release.py v0.2.0 https://example.org/mahala`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str, address: str) -> list[str]:
    """Return what is to be done before the tag can be released."""
    text = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff")
    }
    version, of_search = (
        re.search(r'^__version__ = "(.*)"$', (ROOT / path).read_text(encoding="utf-8"), re.M)[1]
        for path in ("src/mahala/__init__.py", "search/src/mahala_search/__init__.py")
    )
    source = tomllib.loads(text["pyproject.toml"])["project"].get("urls", {}).get("Source")
    found = []
    if of_search != version:
        found.append(f"mahala-search must have the version of mahala, {version}, got {of_search}")
    if tag != f"v{version}":
        found.append(f"the tag must be v{version}, as src/mahala/__init__.py says, got {tag}")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text["CHANGELOG.md"], re.M):
        found.append(f"CHANGELOG.md must have the heading '## {version} (YYYY-MM-DD)'")
    if source != address:
        found.append(f"Source in [project.urls] of pyproject.toml must be {address}, got {source}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems(*sys.argv[1:])))
