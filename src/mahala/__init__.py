"""Metric and similarity learning, online first."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable

__version__ = "0.2.0"


def _stub_names(package: str) -> dict[str, str]:
    """Return the public names in the stub of a package, and the module of each."""
    stub = (pkgutil.get_data(package, "__init__.pyi") or b"").decode()
    return {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2\b", stub, re.MULTILINE)}


def public_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are loaded on first use.

    The stub beside its `__init__.py` is the one list of its public names, so that `import mahala` imports neither Numba
    nor scikit-learn.
    """
    modules = _stub_names(package)

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_hint(package, name)}")
        if modules[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(modules), [n for n, module in modules.items() if module != package]


def _hint(package: str, name: str) -> str:
    from mahala.support.former_names import OF_PACKAGE, hint

    for part, module in _stub_names(__name__).items() if package == __name__ else ():
        if module == __name__ and name in _stub_names(f"{__name__}.{part}"):
            return f"; it is {__name__}.{part}.{name}"
    return hint(OF_PACKAGE, name)


__getattr__, __dir__, _names = public_names(__name__)
__all__ = [*_names, "__version__"]
