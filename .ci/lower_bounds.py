"""Print pip constraints that pin every dependency of the package and its tests to the lower bound in pyproject.toml."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
names = ("cli", "tables", "excel", "serve", "test")
for requirement in [*project["dependencies"], *(line for name in names for line in extras[name])]:
    if found := re.match(r"([\w-]+)>=([\d.]+)", requirement):
        print(f"{found[1]}=={found[2]}")
