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

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import mahala_search

FOLDER = Path(__file__).parent / "images"
QUERIES = ["spicy noodle soup", "breakfast with eggs", "cold soup for summer", "vegan curry", "street snack"]


@contextmanager
def served(*options: str) -> Iterator[str]:
    """Serve the demo, and yield the address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mahala", "serve", "--demo", "--port", "0", "--database", f"{folder}/demo.db"]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
            server.terminate()


def main() -> None:
    """Take a picture of the report, and of each tab of the service."""
    chosen = sys.argv[1:] or ["report", "serve"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        if "report" in chosen:
            report(page)
        if "serve" in chosen:
            with served() as address:
                search(page, address)
                teach(page, address)
            with served("--control", "0.3") as address:
                watch(page, address)


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


def search(page: Page, address: str) -> None:
    """One visitor opens the last of ten results three times, and asks why it is where it is."""
    page.goto(f"{address}/?q=spicy+noodle+soup")
    wanted = page.locator("#learned .body").last.get_attribute("data-id")
    for _ in range(3):
        page.locator(f'#learned [data-id="{wanted}"]').click()
        page.locator("#detail-status", has_text="Learned").wait_for(timeout=120_000)
        page.keyboard.press("Escape")
    result = page.locator("#learned > li", has=page.locator(f'[data-id="{wanted}"]'))
    result.get_by_role("button", name="Why is this here?").click()
    result.locator(".why p").first.wait_for()
    save(page, "serve-search", 900)


def teach(page: Page, address: str) -> None:
    """A visitor is asked a question."""
    page.goto(f"{address}/teach")
    page.locator("#question[data-number='1']").wait_for()
    save(page, "serve-teach", 700)


def watch(page: Page, address: str) -> None:
    """Six hundred people look at four results for a dish without meat and fish; three in ten see the plain ranking."""
    rng = np.random.default_rng(0)
    with mahala_search.serve.Client(address) as client:
        found = client.search(text=QUERIES[0])
        place = client.event(found.search_id, found.ids[0], user="the first") or 0
        client.wait(place, 120.0)  # searches count from the first version that has learned
        for number in range(600):
            user = f"person {number}"
            found = client.search(text=QUERIES[number % len(QUERIES)], k=10, user=user)
            green = [one.id for one in found.results[:4] if one.payload.get("diet") in ("vegan", "vegetarian")]
            if rng.random() < 0.2:
                green = [str(rng.choice(found.ids))]
            if green:
                place = client.event(found.search_id, green[0], user=user) or place
        client.wait(place, 120.0)
    page.goto(f"{address}/watch")
    page.locator("#versions tr").nth(2).wait_for()
    page.wait_for_timeout(10_000)  # until the rates of requests and the report are there
    save(page, "serve-watch", 1200)


def save(page: Page, name: str, height: int, width: int = 1400) -> None:
    """Write what the page shows in a window of this size, with 256 colours."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(1000)  # until charts follow the width
    image = Image.open(io.BytesIO(page.screenshot()))
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
