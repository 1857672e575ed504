"""A browser uses the page: from search through clicks to a better ranking, by mouse, by keyboard, and on a phone."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import numpy as np
import pytest

from mahala_search.serve.page.pages import TABS
from mahala_search.serve.service import Service
from mahala_search.serve.store.keys import Keys

from .conftest import served

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

sync_api.expect.set_options(timeout=60_000)  # the learner may have to be compiled first

EVIL = "<img src=x onerror=document.title='harm'><script>document.title='harm'</script>"
LONG = "unbroken" * 30
WIDTH = 8
# A dot, which every browser can show.
GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")


def items():
    vectors = np.random.default_rng(0).normal(size=(30, WIDTH))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    payloads = [{"title": f"title {at}", "text": f"about {at}", "image": "dot.gif"} for at in range(30)]
    payloads[1] = {"title": EVIL, "text": EVIL, EVIL: EVIL}
    payloads[2] = {"title": LONG, "text": LONG, "image": EVIL}
    payloads[3] |= {"site": "https://example.org/3", "script": "javascript:alert(1)"}
    ids = ["a", EVIL, LONG[:250], *(f"i{at}" for at in range(3, 30))]
    return [
        {"id": id, "vector": vector, "payload": payload}
        for id, vector, payload in zip(ids, vectors, payloads, strict=True)
    ]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "dot.gif").write_bytes(GIF)
    with Service(folder / "mahala.db") as service:
        service.create("films", width=WIDTH)
        service.put_items("films", items())
        service.images["films"] = folder
        service.create("other", width=WIDTH)
        service.create("words", width=WIDTH)
        service.put_items("words", items())
        vectors = {item["payload"]["title"]: item["vector"] for item in items()}
        service.encoders["words"] = lambda text: vectors.get(text, np.zeros(WIDTH))
        service.examples["words"] = ["title 7"]
        yield service


@pytest.fixture(scope="module")
def address(service):
    with served(service) as address:
        yield address


@contextmanager
def opened(browser, address, permitted=()):
    """Open a page, and afterwards raise if it asked for anything elsewhere or the console has a message."""
    browser.clear_cookies()
    page = browser.new_page()
    page.set_viewport_size({"width": 1400, "height": 900})
    page.set_default_timeout(60_000)
    heard = []
    page.on("console", lambda message: any(own in message.text for own in permitted) or heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: request.url.startswith((address, "data:")) or heard.append(request.url))
    yield page
    assert page.title() == "" or page.title().endswith(" · mahala")
    page.close()
    assert heard == []


@pytest.fixture
def page(browser, address):
    with opened(browser, address, ["404", "409"]) as page:  # an image that is not there, a question without items
        yield page


def ids(page, ranking="#learned"):
    return page.locator(f"{ranking} [data-id]").evaluate_all("all => all.map(one => one.dataset.id)")


def status(page, text):
    sync_api.expect(page.locator("#status")).to_contain_text(text)


def test_clicks_lead_to_a_better_ranking_which_is_rolled_back(page, address, service):
    page.goto(address)
    page.get_by_role("combobox", name="Item").fill("titl")
    page.locator("#suggestions option").nth(11).wait_for(state="attached")
    page.get_by_role("combobox", name="Item").fill("title 3")
    page.locator("#suggestions option[value=i3]").wait_for(state="attached")
    page.keyboard.press("Enter")
    status(page, "10 results like i3. Both rankings are the same so far.")
    plain = ids(page)
    found = service.search("films", {"item": "i3"})[1]
    assert plain == [one.id for one in found]
    # The one that is nearest to the one above it: one click is enough.
    before = 1 + int(np.diff([one.score for one in found]).argmax())
    wanted = plain[before]
    page.locator(f'#learned [data-id="{wanted}"]').click()
    dialog = page.get_by_role("dialog")
    sync_api.expect(dialog.get_by_role("status")).to_contain_text("Learned:")
    place = ids(page).index(wanted)
    assert place < before
    status(page, f"rose from {before + 1} to {place + 1}")
    page.keyboard.press("Escape")
    sync_api.expect(dialog).to_be_hidden()
    sync_api.expect(page.locator(f'#learned [data-id="{wanted}"]')).to_be_focused()
    result = page.locator("#learned > li").nth(place)
    sync_api.expect(result.locator(".move")).to_contain_text(f"↑{before - place}")
    sync_api.expect(result.locator(".move")).to_contain_text("higher than in the plain ranking")
    result.get_by_role("button", name="Why is this here?").click()
    sync_api.expect(result.locator(".why")).to_contain_text(f"The plain ranking has it at {before + 1}.")
    sync_api.expect(result.locator(".why li")).to_have_text("You chose this among results like title 3.")
    entry = next(iter(service.store.read_log("films", 0, 1)))
    assert entry.user.startswith("visit:")
    assert (entry.version, len(entry.shown), sum(entry.clicked)) == (0, 10, 1.0)

    result.get_by_role("button", name="More like this").click()
    status(page, f"10 results like {wanted}")
    for move, item in ((page.go_back, "i3"), (page.go_forward, wanted), (page.reload, wanted)):
        move()
        status(page, f"10 results like {item}")
        assert page.locator("#query").input_value() == "title 3"

    page.get_by_role("link", name="Watch").click()
    page.get_by_role("img", name="Singular values").wait_for()
    served = service.served("films").model.version
    sync_api.expect(page.locator("#facts")).to_contain_text(f"Served version{served}")
    back = page.locator("#versions tr", has_text="plain ranking").get_by_role("button", name="Roll back")
    back.click()
    page.get_by_role("button", name="Cancel").click()
    assert service.served("films").status()["version"] == served
    back.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Serve it").click()
    status(page, "Version 0 is served now")
    assert [one.id for one in service.search("films", {"item": "i3"})[1]] == plain
    page.get_by_role("button", name="Serve the newest again").click()
    page.get_by_role("button", name="Serve it").click()
    status(page, f"Version {served} is served now")


def test_addresses_of_searches(page, address):
    page.goto(f"{address}/?collection=words")
    page.locator("#examples button").click()
    status(page, "10 results for “title 7”")
    assert page.locator("#query").input_value() == "title 7"
    page.get_by_role("searchbox", name="Words").fill("nonsense")
    page.keyboard.press("Enter")
    status(page, "Nothing here fits “nonsense”")
    sync_api.expect(page.locator("#rankings")).to_be_hidden()
    page.go_back()
    status(page, "10 results for “title 7”")
    page.locator('#learned [data-id="i7"]').click()
    page.get_by_role("dialog").get_by_role("button", name="More like this").click()
    status(page, "10 results like i7")
    page.evaluate("history.pushState(null, '', '?collection=words&item=gone'); dispatchEvent(new Event('popstate'))")
    sync_api.expect(page.get_by_role("alert")).to_contain_text("there is no item 'gone'")
    sync_api.expect(page.locator("#rankings")).to_be_hidden()
    assert page.locator("#status").inner_text() == ""
    page.goto(f"{address}/?collection=words&q=title 3")
    page.locator('#plain [data-id="i3"]').click()
    fields = page.locator(".fields dd")
    sync_api.expect(fields).to_have_text(["https://example.org/3", "javascript:alert(1)"])
    assert fields.locator("a").evaluate_all("all => all.map(one => one.rel + one.href)") == [
        "noopener noreferrerhttps://example.org/3"
    ]
    page.get_by_role("button", name="Close").click()
    sync_api.expect(page.locator('#plain [data-id="i3"]')).to_be_focused()
    status(page, "Learned:")
    sync_api.expect(page.locator('#plain [data-id="i3"]')).to_be_focused()


def test_moves_are_marked_and_a_phone_shows_one_ranking(page, address):
    def answer(route):
        body = route.fetch().json()
        body["results"] = [body["results"][1], {**body["results"][0], "id": "elsewhere"}]
        body["plain"] = body["plain"][:2]
        route.fulfill(json=body)

    page.route("**/search", answer)
    page.goto(f"{address}/?collection=words&q=title 4")
    sync_api.expect(page.locator("#learned .move")).to_contain_text(["1 place higher", "not in the top ten"])
    sync_api.expect(page.locator("#plain .gone")).to_have_text("no longer in the top ten")
    assert page.locator("#plain").is_visible()
    assert not page.locator(".switch").is_visible()
    page.set_viewport_size({"width": 390, "height": 900})
    for name, visible in (("Plain", [False, True]), ("Learned", [True, False])):
        page.get_by_role("radio", name=name).check(force=True)
        assert [page.locator(ranking).is_visible() for ranking in ("#learned", "#plain")] == visible


def test_questions_are_answered_by_keys(page, address, service):
    before = service.store.collections()["films"].n_logged
    page.goto(f"{address}/teach?collection=films")
    for at, (key, counter, n) in enumerate(
        [("ArrowLeft", "answers", "1"), ("ArrowRight", "answers", "2"), ("s", "skipped", "1")]
    ):
        page.locator(f"#question[data-number='{at + 1}']").wait_for()
        page.keyboard.press(key)
        sync_api.expect(page.locator(f"#{counter}")).to_have_text(n)
    page.locator("#question[data-number='4']").wait_for()
    page.locator("#right").click()
    sync_api.expect(page.locator("#answers")).to_have_text("3")
    entries = list(service.store.read_log("films", before, 10))
    assert [(entry.kind, entry.clicked) for entry in entries] == [("comparison", [1.0, 0.0])] * 3
    assert len({entry.user for entry in entries}) == 1


def test_a_problem_of_the_database_is_shown_while_it_lasts(page, address, service, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(service.writer, "problem", "the disk is full")
        patched.setattr(service.writer, "_failed", np.inf)
        page.goto(f"{address}/watch?collection=films")
        sync_api.expect(page.locator("#problem")).to_have_text("the disk is full")
    sync_api.expect(page.locator("#problem")).to_be_hidden()


def test_tabs_fit_every_width_and_the_collection_is_chosen(page, address, service):
    service.configure("films", {"control": {"share": 0.1}})
    for (tab, path), width in itertools.product(TABS.items(), (390, 1400)):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{address}{path}?collection=films")
        if tab == "search":
            page.get_by_role("combobox", name="Item").fill(EVIL)
            page.keyboard.press("Enter")
            status(page, f"10 results like {EVIL}")
            page.get_by_role("button", name="Why is this here?").first.click()
            page.locator(".why p").first.wait_for()
        page.locator(
            {"search": "#learned > li", "teach": "#left .title", "watch": "#spectrum figure"}[tab]
        ).first.wait_for()
        if tab == "watch":
            sync_api.expect(page.locator("#verdict")).to_contain_text("Too early to say: 0 searches with learning")
            assert page.locator("#control figure").count() == 2
            page.locator("#spectrum summary").click()
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen == width, (tab, width)
        for scheme, color in (("light", "rgb(245, 246, 248)"), ("dark", "rgb(20, 23, 28)")):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == color
        assert page.locator("#tab script").count() == 0
    page.get_by_label("Collection").select_option("other")
    page.wait_for_url("**/watch?collection=other")
    sync_api.expect(page.locator("#facts")).to_contain_text("Items0")
    page.get_by_role("link", name="Teach").click()
    sync_api.expect(page.get_by_role("alert")).to_contain_text("needs three items, but there are 0")


def test_a_key_is_asked_for_and_kept_out_of_addresses(browser, service):
    key = Keys(service.store.database).create("read")
    with served(service, keys=True) as address, opened(browser, address, ["401", "403", "404"]) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/?collection=films")
        for given in ("wrong", key):
            page.get_by_label("API key").fill(given)
            page.keyboard.press("Enter")
            if given == "wrong":
                sync_api.expect(page.get_by_role("alert")).to_contain_text("not known here")
        page.locator("#starts img[src^=data]").first.wait_for()
        page.locator("#starts button").first.click()
        status(page, "10 results")
        page.locator("#learned .body").first.click()
        sync_api.expect(page.locator("#detail-status")).to_contain_text("needs a key with the role feedback")
        assert not any(key in url for url in asked)
