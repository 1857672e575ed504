"""Take the pictures of the page of `mahala serve` for the documentation: python docs/page_pictures.py.

It needs Playwright, Chromium and Pillow.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import mahala

FOLDER = Path(__file__).parent / "images"
QUERIES = ["spicy noodle soup", "breakfast with eggs", "cold soup for summer", "vegan curry", "street snack"]


def main() -> None:
    """Serve the demo, let people use it, and take a picture of each tab."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mahala", "serve", "--demo", "--port", "0", "--database", f"{folder}/demo.db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1400, "height": 900})
                search(page, address)
                teach(page, address)
                watch(page, address)
            finally:
                server.terminate()


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
    """Two hundred people prefer dishes without meat and fish, with some noise."""
    rng = np.random.default_rng(0)
    with mahala.serve.Client(address) as client:
        place = 0
        for number in range(200):
            query = QUERIES[number % len(QUERIES)]
            found = client.search(text=query, k=10)
            green = [one.id for one in found.results if one.payload.get("diet") in ("vegan", "vegetarian")]
            choice = green[0] if green and rng.random() < 0.8 else str(rng.choice(found.ids))
            place = client.event(found.search_id, choice, user=f"person {number}") or place
        client.wait(place, 120.0)
    page.goto(f"{address}/watch")
    page.locator("#versions tr").nth(2).wait_for()
    page.wait_for_timeout(4000)  # until the rates of requests are there
    save(page, "serve-watch", None)


def save(page: Page, name: str, height: int | None) -> None:
    """Write what the page shows, with 64 colours; all of it without a height."""
    page.set_viewport_size({"width": 1400, "height": height or 900})
    image = Image.open(io.BytesIO(page.screenshot(full_page=height is None)))
    image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
