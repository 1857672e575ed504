"""A browser opens the report: everything is there, nothing else is asked for."""

from __future__ import annotations

import shutil
import subprocess

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

from mahala.cli.main import app

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed: none of {', '.join(NAMES)}")

# It keeps to itself: no updates, no accounts, no services of its maker.
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars",
)  # fmt: skip


def browse(folder, *options):
    command = [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    arguments = ["wine", "--output", str(folder), "--folds", "3", "--repeats", "1", "--learners", "LDA,GML"]
    assert CliRunner().invoke(app, ["compare", *arguments]).exit_code == 0
    return folder / "report.html"


def complaints(errors):
    """What the page itself, not the browser about its surroundings, has to say."""
    return [line for line in errors.splitlines() if "CONSOLE" in line or "Refused" in line or "ERR_" in line]


def test_the_page_is_whole(page, tmp_path):
    result = browse(tmp_path, "--dump-dom", page.as_uri())
    assert "Euclidean" in result.stdout.split("<h1>")[1].split("</h1>")[0]
    assert result.stdout.count("<svg") == 6
    assert result.stdout.rstrip().endswith("</html>")
    assert complaints(result.stderr) == []


def test_a_page_that_asks_for_more_would_be_noticed(page, tmp_path):
    worse = tmp_path / "worse.html"
    text = page.read_text(encoding="utf-8")
    worse.write_text(text.replace("</main>", "<img src='nowhere.png'><script>1</script></main>"), encoding="utf-8")
    assert complaints(browse(tmp_path, "--dump-dom", worse.as_uri()).stderr)


@pytest.mark.parametrize("width", [1200, 400])
def test_it_is_drawn(page, tmp_path, width):
    picture = tmp_path / "page.png"
    browse(tmp_path, f"--window-size={width},2000", f"--screenshot={picture}", page.as_uri())
    pixels = matplotlib.image.imread(picture)[..., :3]
    assert pixels.shape[:2] == (2000, width)
    # The margin at the right is bare, as nothing flows over, and the rest is not.
    assert np.ptp(pixels[:, -8:], axis=(0, 1)).max() == 0.0
    for part in np.array_split(pixels[:, 20:-20], 4):
        assert np.ptp(part) > 0.5
