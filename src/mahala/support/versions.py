"""The versions of the libraries that results depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("mahala", "numpy", "scipy", "scikit-learn", "numba")


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, of the libraries and of more packages; those that are not installed are left out.

    >>> list(versions("joblib", "not-installed"))
    ['Python', 'mahala', 'numpy', 'scipy', 'scikit-learn', 'numba', 'joblib']
    """
    found = {"Python": platform.python_version()}
    for name in dict.fromkeys((*PACKAGES, *more)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
