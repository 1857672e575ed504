"""JSON output of the commands."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables, for scripts.")]


def print_json(value: Any) -> None:
    """Print a value as one line of strict JSON: arrays as lists, NaN and infinities as null."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's types; importing NumPy to check them would slow down --help
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
