"""Data that many tests share.

Tests of data sets that are not in the repository read them from the folder that the environment variable MAHALA_DATA
names, and are skipped without it.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from functools import cache, partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

DATA = Path(os.environ["MAHALA_DATA"]) if os.environ.get("MAHALA_DATA") else None

# The first example of a test may compile. Each run has the same examples; MAHALA_EXAMPLES=1000 draws so many new ones.
# Tests that draw another number say so with `strategies.examples`.
EXAMPLES = os.environ.get("MAHALA_EXAMPLES")
settings.register_profile("mahala", deadline=None, max_examples=int(EXAMPLES or 12), derandomize=not EXAMPLES)
settings.load_profile("mahala")

# A process that a shell starts in the background ignores Ctrl-C, and one of nohup the end of the terminal, and so do
# their children; some tests send both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


ROOT = Path(__file__).parent
TESTS, SEARCH = ROOT / "tests", ROOT / "search" / "tests"
SLOW = {TESTS / name for name in ("test_campaign.py", "test_warming.py")}
BUDGET = float(os.environ.get("MAHALA_BUDGET") or 15)  # seconds of CPU time for a file of tests


def changed_files():
    """The files that differ from the commit at which this branch left main; none where Git cannot say."""
    for main in ("origin/main", "main"):
        base = subprocess.run(["git", "merge-base", "HEAD", main], cwd=ROOT, capture_output=True, text=True)
        if base.returncode == 0:
            command = ["git", "diff", "--name-only", base.stdout.strip()]
            return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split())
    return set()


@cache
def paper_of(path):
    """The name of the paper whose program a file tests, or None."""
    named = re.match(r"tests/papers/(?:test_)?([a-z]+\d{4})", path.relative_to(ROOT).as_posix())
    return named and named[1]


def is_due(item, changed):
    """Whether what a test of something published is about has changed; other tests always run.

    Types are checked in each run, also of what papers call.
    """
    if getattr(item, "originalname", None) == "test_code_of_a_page_runs_and_prints_what_the_page_says":
        return item.callspec.params["page"].relative_to(ROOT).as_posix() in changed
    if item.path.name == "test_site.py":
        return any(name.startswith(("docs/", "mkdocs.yml", "src/", "search/src/")) for name in changed)
    if item.path.name == "test_campaign.py":
        return any("campaign" in name for name in changed)
    paper = paper_of(item.path)
    return paper is None or any(re.match(rf"(?:tests/)?papers/(?:test_)?{paper}", name) for name in changed)


def leave_out_unchanged(config, items):
    """Leave out what is as on main: the code of pages, the site, papers and the campaign.

    MAHALA_DOCS=all runs all, as each night. So do -k and the name of a test.
    """
    named = config.option.keyword or any("::" in argument for argument in config.args)
    if named or os.environ.get("MAHALA_DOCS") == "all":
        return
    changed = changed_files()
    due = [is_due(item, changed) for item in items]
    config.hook.pytest_deselected(items=[item for item, yes in zip(items, due, strict=True) if not yes])
    items[:] = [item for item, yes in zip(items, due, strict=True) if yes]


def pytest_collection_modifyitems(config, items):
    """Mark tests by what they need, and let each of two test processes begin with half of the slow files."""
    leave_out_unchanged(config, items)
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if SEARCH / "sidecar" in item.path.parents:
            item.add_marker("service")
        if item.path == TESTS / "test_docs.py":
            item.add_marker("docs")
        if item.path in SLOW:
            item.add_marker("slow")
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    # A file stays whole: what its tests share, such as the site, would be made twice.
    files = list(dict.fromkeys(item.path for item in slow))
    early, late = ([item for item in slow if item.path in half] for half in (files[::2], files[1::2]))
    middle = max(0, len(items) // 2 - len(early))
    items[:] = early + others[:middle] + late + others[middle:]


def pytest_collection_finish():
    """Let the garbage collector pass over what was imported and collected: it takes 0.2 s to look through."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Fail where a file of tests cannot be imported: --doctest-ignore-import-errors would leave it out."""
    report = yield
    if (
        report.skipped
        and not {TESTS, SEARCH}.isdisjoint(collector.path.parents)
        and "unable to import module" in str(report.longrepr)
    ):
        report.outcome, report.longrepr = "failed", str(report.longrepr)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Measure the CPU time of a test, and of the processes that it started and that have ended.

    Those of `processes.py` are children of a server, and not counted.
    """
    item.user_properties.append(("cpu", -sum(os.times()[:4])))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        report.cpu = sum(os.times()[:4]) + dict(item.user_properties)["cpu"]
    return report


def pytest_terminal_summary(terminalreporter):
    """List the files over the budget. Kernels that are not in the cache are counted where they are first compiled."""
    seconds = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        seconds[getattr(report, "nodeid", "").split("::")[0]] += getattr(report, "cpu", 0.0)
    over = [f"{used:6.1f} s  {file}" for file, used in seconds.most_common() if used > BUDGET]
    if over:
        terminalreporter.section(f"{sum(seconds.values()):.0f} s of CPU time; files over {BUDGET:.0f} s")
        terminalreporter.write_line("\n".join(over))


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
def as_published():
    """Learners from triplets do what their papers say, however few triplets there are: as with shrinkage=0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mahala.metric.shrinkage.is_determined", lambda *args: True)
        yield


@pytest.fixture
def few_rounds(monkeypatch):
    """Models that predict learn less: their maps end after five iterations, and gradient boosting after three."""
    monkeypatch.setattr("mahala.neighbors.maps.MOST_ITERATIONS", 5)
    monkeypatch.setattr("mahala.evaluation.cross_validation.fitting._ROUNDS", (3,))
    monkeypatch.setattr("mahala.neighbors.trees.N_TREES", 3)
    monkeypatch.setattr("mahala.neighbors.trees.LEAST_ITERATIONS", 3)


@pytest.fixture
def stored(monkeypatch):
    """Comparisons have stored cells and measure nothing; `stored({"LDA": 0.1})` says how wrong candidates are."""
    from stored_cells import store  # not every test imports what evaluations do

    store(monkeypatch)
    return partial(store, monkeypatch)


@pytest.fixture(scope="module")
def browser():
    """A window of a browser, for pages; the tests that need it are skipped where there is none.

    The tests of a file share it: a browser takes two seconds of CPU time to start, and half a second for each window.
    Files do not: as long as it is open, an event loop runs in this thread, and `asyncio.run` fails.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(names)}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_context()
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

    def load(name, target="y"):
        if why := why_missing(f"{name}.npz"):
            pytest.skip(why)
        with np.load(DATA / f"{name}.npz") as file:
            return file["X"].astype(float), file[target]

    return load
