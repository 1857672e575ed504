"""What the site takes from elsewhere: the address of the project, and the list of published versions."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Link to the repository that pyproject.toml names, and show the menu of versions if mike builds the site."""
    project = tomllib.loads(Path(config.config_file_path).with_name("pyproject.toml").read_text(encoding="utf-8"))
    config.repo_url = project["project"].get("urls", {}).get("Source")
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_post_page(output: str, **page: Any) -> str:
    """Name the dialog of the search, to which the theme gives no name that a screen reader could say."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')
