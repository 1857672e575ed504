"""Command line: the app is in main.py, each command in its own file."""

from importlib.util import find_spec

_MISSING = [name for name in ("rich", "typer") if find_spec(name) is None]
if _MISSING:
    raise ImportError(f"the mahala command needs {', '.join(_MISSING)}: pip install 'mahala[cli]'")
