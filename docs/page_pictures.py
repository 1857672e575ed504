"""Take the pictures of pages for the documentation: python docs/page_pictures.py [report] [serve].

They are the report of `mahala compare balance` and the page of `mahala serve`. It needs Playwright, Chromium, Pillow.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "images"


@contextmanager
def served() -> Iterator[str]:
    """Serve the demo, and yield the address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mahala", "serve", "--demo", "--port", "0", "--database", f"{folder}/demo.db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
            server.terminate()


def main() -> None:
    """Take a picture of the report of a table, and of that of a search."""
    chosen = sys.argv[1:] or ["report", "serve"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        if "report" in chosen:
            report(page)
        if "serve" in chosen:
            with served() as address:
                gain(page, address)


def report(page: Page) -> None:
    """The top of a report: from what to use to the error by number of neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mahala", "compare", "balance", "--output", folder]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        page.goto(f"{Path(folder).as_uri()}/report.html")
        section = page.locator("section", has=page.locator("[data-chart=by_k] .plot > svg"))
        section.wait_for()
        box = section.bounding_box()
        assert box is not None
        save(page, "report", round(box["y"] + box["height"] + 30), 1280)


def gain(page: Page, address: str) -> None:
    """The page of the sidecar, as soon as a gain is shown in the demo, and half a minute later."""
    page.goto(address)
    page.locator("#verdict", has_text="Shown to help").wait_for(timeout=240_000)
    page.wait_for_timeout(30_000)
    save(page, "serve-report", 760)


def save(page: Page, name: str, height: int, width: int = 1400) -> None:
    """Write what the page shows in a window of this size, with 256 colours."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(1000)  # until charts follow the width
    image = Image.open(io.BytesIO(page.screenshot()))
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
