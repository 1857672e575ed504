"""The site: it builds, opens from a folder with its search, and passes an accessibility check."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.docs]
PAGES = [("index", "light"), ("index", "dark"), ("guides/imbalance", "light"), ("learners/NCA", "dark")]
# Of what is right, one element each is enough.
OPTIONS = {"preload": False, "resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site. Pictures are empty: other tests draw them."""
    for name in ("mkdocs", "latex2mathml"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'mahala[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAHALA_DRAFT", "1")
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        for name in ("gallery", "result_pictures"):
            patch.delitem(sys.modules, name, raising=False)
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.fixture(scope="module")
def page(browser, site):
    """A page of a browser with 1,280 pixels, on the site as a folder."""
    page = browser.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    yield page
    page.close()


@pytest.mark.filterwarnings("ignore")  # of MkDocs and its plugins; those about pages are logged, and raise
def test_the_site_builds(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["']?https?://[^"'> ]*\.(?:js|css|woff2?)""", index), (
        "the site must not load scripts, styles or fonts from elsewhere"
    )
    pictures = re.findall(r'<a href="([^"]*)"><img alt="[^"]+" src="([^"]*)"', index)
    assert len(pictures) == 6
    assert all((site / name).exists() for names in pictures for name in names)
    assert "<math" in (site / "learners" / "NCA.html").read_text(encoding="utf-8")


def test_every_image_has_an_alternative_text(site):
    for file in site.rglob("*.html"):
        for image in re.findall(r"<img [^>]*>", file.read_text(encoding="utf-8")):
            assert re.search(r'alt="[^"]+"', image), f"{file.relative_to(site)}: {image}"


def test_search_works_from_a_folder(page, site):
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").first.click()
    page.keyboard.type("chunklet")
    page.locator(".md-search-result__item").first.wait_for()
    assert page.locator(".md-search-result__item a[href*=RCA]").count() >= 1


def test_contents_are_visible_on_a_screen_of_1280_pixels(page, site):
    page.goto((site / "guides" / "verdict.html").as_uri())
    assert page.locator(".md-sidebar--secondary").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(("name", "scheme"), PAGES)
def test_pages_are_accessible(name, scheme, page, site):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.emulate_media(color_scheme=scheme)
    page.goto((site / f"{name}.html").as_uri())
    results = axe.Axe().run(page, options=OPTIONS).response
    assert results["passes"]
    assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in results["violations"]]
