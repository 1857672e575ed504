"""The page in a browser: the sentence first, the two buttons, a key, wide and narrow, light and dark."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

from mahala_search.sidecar.experiment.report import make_report
from mahala_search.sidecar.page.pages import pages
from mahala_search.sidecar.records import Control

from .http_sidecar import make, opened, publish, running
from .test_experiment import add, people

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

EVIL = "<img src=x onerror=document.title='harm'>"


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("page")) as sidecar:
        space = make(sidecar, control=Control(0.4))
        team = make(sidecar, "team", control=Control(0.0, "team"))
        with sidecar.store.writing() as connection:
            add(connection, [*people("learned", 0.7), *people("plain", 0.4, 400)], space.id, at=2e9)
            arms = [*people(EVIL, 0.5, 60), *people("an arm with a long name of many words", 0.2, 60)]
            add(connection, [(arm, user, query, {}) for arm, user, query, _ in arms], team.id, at=2e9)
        publish(sidecar)
        yield sidecar


@pytest.fixture(scope="module")
def address(sidecar):
    with running(sidecar, pages=pages()) as address:
        yield address


@contextmanager
def shown(browser, address, width=1400, height=1000, path="/", **scheme):
    """Open the page, and afterwards raise if it asked for anything elsewhere or the console has a message."""
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(**scheme)
    heard = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: request.url.startswith((address, "data:")) or heard.append(request.url))
    page.goto(address + path)
    yield page
    page.close()
    assert [text for text in heard if "401" not in text] == []


def test_the_sentence_is_the_headline_and_the_buttons_work(browser, sidecar, address):
    with shown(browser, address) as page:
        with sidecar.store.reading() as connection:
            report = make_report(connection, sidecar.space("s").space)
        sync_api.expect(page.get_by_role("heading", level=1)).to_have_text(report["sentence"])
        sync_api.expect(page.locator("#verdict")).to_have_text("Shown to help")
        sync_api.expect(page.locator("#arms thead")).to_have_text("measurelearned searchplain search")
        sync_api.expect(page.locator("#arms tbody tr").first).to_have_text("searches600400")
        page.get_by_role("radio", name="purchases").check()
        sync_api.expect(page.locator("#gain-head")).to_have_text("Difference in purchases per search")
        sync_api.expect(page.locator("#served")).to_contain_text("Version 1 is served")
        page.get_by_role("button", name="Serve the plain ranking").click()
        sync_api.expect(page.locator("#served")).to_contain_text("The plain ranking is served, and stays")
        assert sidecar.store.spaces()["s"].pinned == 0
        page.get_by_role("button", name="Serve the newest version").click()
        sync_api.expect(page.locator("#served")).to_contain_text("the newest one follows")


def test_names_of_arms_are_text(browser, address):
    with shown(browser, address, path="/?space=team") as page:
        sync_api.expect(page.locator("#arms thead")).to_contain_text(EVIL)
        assert page.title() == "What search brings · mahala"
        page.get_by_label("Space").select_option("s")
        sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("Learned search brings")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_nothing_is_wider_than_the_screen_and_all_can_be_read(browser, address, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    for space in ("s", "team"):
        with shown(browser, address, width, path=f"/?space={space}", color_scheme=scheme) as page:
            page.locator("#arms table").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            found = Axe().run(page).response["violations"]
            assert [(one["id"], [node["target"] for node in one["nodes"]]) for one in found] == []


def test_a_key_is_asked_for(browser, sidecar):
    _, text = sidecar.keys.create("read")
    with running(sidecar, keys=True, pages=pages()) as address, shown(browser, address) as page:
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        sync_api.expect(page.get_by_role("alert")).to_contain_text(re.compile("key", re.IGNORECASE))
        page.get_by_label("API key").fill(text)
        page.get_by_role("button", name="Continue").click()
        sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text("Learned search brings")


def test_an_empty_sidecar_says_how_a_space_is_made(browser, tmp_path):
    with opened(tmp_path) as empty, running(empty, pages=pages()) as address, shown(browser, address) as page:
        sync_api.expect(page.locator("#how")).to_contain_text("curl -X PUT http://127.0.0.1")
        make(empty, "products")
        sync_api.expect(page.get_by_role("heading", level=1)).to_contain_text(
            "The gain is not measured", timeout=10_000
        )
