"""The page as it is sent: what it holds, what it may load, who may use what it asks for, and images."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

import mahala_search
from mahala_search.serve.http.app import create_app
from mahala_search.serve.http.guard import ServerSettings
from mahala_search.serve.page.pages import POLICY, TABS, pages
from mahala_search.serve.service import Service
from mahala_search.serve.store.keys import Keys

from .conftest import WIDTH, new_items

BASE = "/v1/collections/secret-films"
EVIL = "<script>alert(1)</script>"
IMPRESSION = {"query": {"item": "i0"}, "shown": ["i1", "i2"], "clicked": ["i2"]}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False) as service:
        service.create("secret-films", width=WIDTH)
        service.put_items("secret-films", [item._asdict() for item in new_items()])
        yield service


def http_of(service, **settings):
    app = create_app(service, ServerSettings(**settings), pages())
    return TestClient(app, base_url="http://127.0.0.1:8417", raise_server_exceptions=False)


@pytest.fixture
def http(service):
    return http_of(service)


def logged(http):
    return [json.loads(line) for line in http.get(f"{BASE}/log").text.splitlines()]


class Tags(HTMLParser):
    """The tags of a page, and the text inside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inside = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inside.append(data.strip())


def test_tabs_load_files_of_their_own_only(http):
    for path in TABS.values():
        check_tab(http, path)


def check_tab(http, path):
    answer = http.get(path, params={"collection": EVIL, "q": EVIL})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert EVIL not in answer.text
    page = Tags(answer.text)
    assert not any(page.inside)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        for name in {"src", "href"} & attributes.keys():
            assert attributes[name].startswith(("/", "#")) or attributes[name] == "data:,"
    for name in re.findall(r'/static/([^"]+)', answer.text):
        file = http.get(f"/static/{name}")
        assert file.headers["content-type"].startswith(("text/css", "text/javascript"))
        assert file.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", file.text)


def test_scripts_make_text_and_no_html(http):
    for name in ("page", "search", "why", "teach", "watch", "charts"):
        text = http.get(f"/static/{name}.js").text
        assert "import" in text or "export" in text
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|\.href\s*=", text
        )


def test_no_other_file_is_sent(http):
    for name in ("pages.py", "page.html", "..%2Fapi.py", "../api.py", "%00", EVIL):
        assert http.get(f"/static/{name}").status_code == 404, name


def test_a_visit_is_a_user(http):
    cookie = http.get("/").headers["set-cookie"]
    assert re.fullmatch(r"mahala_visit=[0-9a-f]{32}; HttpOnly; Path=/; SameSite=strict", cookie)
    assert "set-cookie" not in http.get("/teach").headers  # the visit continues
    visit = http.cookies["mahala_visit"]
    http.post(f"{BASE}/impressions", json=IMPRESSION).raise_for_status()
    http.post(f"{BASE}/comparisons", json={"query": {"item": "i0"}, "better": "i1", "worse": "i2"}).raise_for_status()
    http.post(f"{BASE}/impressions", json=IMPRESSION | {"user": "ann"}).raise_for_status()
    http.cookies.clear()
    http.post(f"{BASE}/impressions", json=IMPRESSION).raise_for_status()
    assert [line.get("user") for line in logged(http)] == [f"visit:{visit}", f"visit:{visit}", "ann", None]
    bad = http.post(f"{BASE}/impressions", json=IMPRESSION, headers={"Cookie": "mahala_visit=" + "x" * 999})
    assert bad.status_code == 422


def test_over_tls_the_cookie_is_for_tls_only(service):
    app = create_app(service, ServerSettings(), pages())
    assert "Secure" in TestClient(app, base_url="https://127.0.0.1").get("/").headers["set-cookie"]


def test_with_keys_the_page_says_nothing_without_one(service):
    http, keys = http_of(service, keys=True), Keys(service.store.database)
    for path in TABS.values():
        answer = http.get(path)
        assert answer.status_code == 200
        assert "films" not in answer.text
    asked = ["/v1/collections", f"{BASE}/question", f"{BASE}/spectrum", f"{BASE}/items?like=i1", f"{BASE}/images/a.png"]
    assert [http.get(path).status_code for path in asked] == [401] * len(asked)
    reader, teacher = ({"Authorization": f"Bearer {keys.create(role)}"} for role in ("read", "feedback"))
    assert [http.get(path, headers=reader).status_code for path in asked] == [200, 403, 200, 200, 404]
    assert http.get(f"{BASE}/question", headers=teacher).status_code == 200
    assert http.put(f"{BASE}/versions/served", json={"version": 0}, headers=teacher).status_code == 403
    one = {"Authorization": f"Bearer {keys.create('feedback', one_user=True)}"}
    http.get("/")
    http.post(f"{BASE}/impressions", json=IMPRESSION, headers=one).raise_for_status()
    admin = {"Authorization": f"Bearer {keys.create('admin')}"}
    assert json.loads(http.get(f"{BASE}/log", headers=admin).text)["user"].startswith("key:")


def test_pages_of_other_sites_may_not_teach(http):
    http.get("/")
    answer = http.post(f"{BASE}/impressions", json=IMPRESSION, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


def test_a_question_has_three_items(service, http):
    for _ in range(5):
        told = http.get(f"{BASE}/question").json()
        assert len({told[side]["id"] for side in ("query", "left", "right")}) == 3
        assert told["version"] == 0
        assert mahala_search.serve.Client(collection="secret-films", http=http).question().keys() == told.keys()
        assert told["left"]["payload"].keys() == {"number", "even"}
    service.delete_items("secret-films", [f"i{at}" for at in range(38)])
    answer = http.get(f"{BASE}/question")
    assert answer.status_code == 409
    assert "needs three items, but there are 2" in answer.json()["detail"]


def test_items_are_found_by_a_part_of_their_names(service, http):
    vector = [1.0] * WIDTH
    service.put_items("secret-films", [{"id": "x", "vector": vector, "payload": {"title": "A Long STRASSE"}}])
    service.put_items("secret-films", [{"id": "y", "vector": vector, "payload": {"title": ["no text"]}}])
    for like, ids in (("I1", ["i1", *(f"i{at}" for at in range(10, 20))]), ("straße", ["x"]), ("%", []), ("no", [])):
        answer = http.get(f"{BASE}/items", params={"like": like})
        assert [item["id"] for item in answer.json()["items"]] == ids
    assert [item["id"] for item in http.get(f"{BASE}/items?like=i1&start=1&n=1").json()["items"]] == ["i10"]


@pytest.fixture
def folder(tmp_path, service):
    folder = tmp_path / "images"
    (folder / "more").mkdir(parents=True)
    for name in ("a.png", "b b.JPG", "more/c.webp", "d.svg", "e.html", "f.png.txt"):
        (folder / name).write_bytes(PNG)
    (tmp_path / "outside.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (tmp_path / "images-too").mkdir()
    (tmp_path / "images-too" / "g.png").write_bytes(PNG)
    service.images["secret-films"] = folder
    return folder


@pytest.mark.usefixtures("folder")
def test_images_come_from_their_folder(http):
    assert http.get("/v1/collections").json()[0]["images"] is True
    for name, kind in (("a.png", "image/png"), ("b%20b.JPG", "image/jpeg"), ("more/c.webp", "image/webp")):
        answer = http.get(f"{BASE}/images/{name}")
        assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, kind, PNG)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


OUTSIDE = [
    "../outside.png", "..%2Foutside.png", "%2e%2e/outside.png", "more/..%2F..%2Foutside.png", "/etc/passwd",
    "%2Fetc%2Fhosts.png", "..%2Fimages-too%2Fg.png", "link.png", "d.svg", "e.html", "f.png.txt", "more", ".",
    "a.png%00", "a.png%00.jpg", "nothing.png", "..%5Coutside.png", "x" * 5000 + ".png", "..%2Fmahala.db",
]  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_nothing_but_images_of_the_folder_is_sent(http):
    for name in OUTSIDE:
        answer = http.get(f"{BASE}/images/{name}")
        assert answer.status_code == 404, name
        assert PNG not in answer.content


def test_the_spectrum_is_that_of_the_plain_ranking_at_first(http):
    assert http.get(f"{BASE}/spectrum").json() == {"version": 0, "new": [], "known": []}
