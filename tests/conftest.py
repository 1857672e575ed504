"""Data that many tests share.

Tests of data sets that are not in the repository read them from the folder that the environment variable MAHALA_DATA
names, and are skipped without it.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

DATA = Path(os.environ["MAHALA_DATA"]) if os.environ.get("MAHALA_DATA") else None

# The first example of a test may compile. Each run has the same examples; MAHALA_EXAMPLES=1000 draws many new ones.
EXAMPLES = os.environ.get("MAHALA_EXAMPLES")
settings.register_profile("mahala", deadline=None, max_examples=int(EXAMPLES or 20), derandomize=not EXAMPLES)
settings.load_profile("mahala")

# A process that a shell starts in the background ignores Ctrl-C, and one of nohup the end of the terminal, and so do
# their children; some tests send both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Let two test processes compile different kernels first, so that each finds those of the other in the cache.

    They get the first and the second half of the items: each half begins with half of the files in tests/compiled, the
    second from the end, as neighbours in the middle share kernels.
    """
    folder = Path(__file__).parent / "compiled"
    files = sorted({item.path for item in items if folder in item.path.parents})
    half = len(files) // 2
    first, second = (
        [item for path in own for item in items if item.path == path] for own in (files[:half], reversed(files[half:]))
    )
    others = [item for item in items if folder not in item.path.parents]
    n_others = max(0, len(items) // 2 - len(first))
    items[:] = first + others[:n_others] + second + others[n_others:]


def why_missing(*files):
    """Return why these files cannot be read from the data folder, or an empty string if they can."""
    if DATA is None:
        return "MAHALA_DATA, which names the folder with the data sets, is not set"
    missing = [str(DATA / name) for name in files or [""] if not (DATA / name).exists()]
    return f"{', '.join(missing)} not found; MAHALA_DATA names the folder with the data sets" if missing else ""


def needs(*files):
    """Skip a test unless the data folder is there and has these files."""
    return pytest.mark.skipif(bool(why_missing(*files)), reason=why_missing(*files))


@pytest.fixture(scope="module")
def browser():
    """A browser that opens pages; the tests that need it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(names)}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def labelled():
    """Three overlapping classes in five features, of which two are noise."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, size=90)
    X = rng.normal(size=(90, 5))
    X[:, :3] += 2.0 * np.eye(3)[y]
    return X, y


@pytest.fixture
def dataset():
    """Load a data set by name from the data folder, or skip the test."""

    def load(name):
        if why := why_missing(f"{name}.npz"):
            pytest.skip(why)
        with np.load(DATA / f"{name}.npz") as file:
            return file["X"].astype(float), file["y"]

    return load
