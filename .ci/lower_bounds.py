"""Print pip constraints that pin every dependency of the packages and their tests to its lower bound."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
library, search = (
    tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (ROOT, ROOT / "search")
)
extras = [library["optional-dependencies"][name] for name in ("cli", "tables", "excel", "test")]
for requirement in sum(extras, [*library["dependencies"], *search["dependencies"]]):
    if found := re.match(r"([\w-]+)>=([\d.]+)", requirement):
        print(f"{found[1]}=={found[2]}")
