"""Metric and similarity learning, online first."""

from __future__ import annotations

import importlib
import pkgutil
import re

__version__ = "0.1.0"

# The stub beside this file is the one list of public names. A name is loaded on first use, so that `import mahala`
# imports neither Numba nor scikit-learn.
_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}

__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        from mahala.former_names import OF_PACKAGE, hint

        raise AttributeError(f"module 'mahala' has no attribute {name!r}{hint(OF_PACKAGE, name)}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
