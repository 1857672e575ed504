"""A browser opens the report: everything is there and answers, and nothing else is asked for."""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from string import ascii_uppercase

import numpy as np
import pytest

from mahala import LDA, MLKR, RCA, LogisticMetric
from report.cases import EVIL, make, make_of_answers, table

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


DOTS = "g[aria-label=dot] :is(path, circle)"
# Names of classes: letters, and what could do harm if it were not text.
CLASSES = [*ascii_uppercase[:24], EVIL, "red"]


@pytest.fixture(scope="module")
def rows():
    X, y = table(len(CLASSES), 40, spread=2.5, n=390)
    return X[:, :31], np.array(CLASSES)[y]


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    learners, shares = {"LDA": LDA(), "RCA": RCA(), "broken": LDA()}, {"LDA": 0.05, "broken": "not here"}
    columns = [("size", "as it is"), (EVIL, "filled with the median"), ("a_long_name_without_spaces_" * 4, "as it is")]
    commands = ["mahala search a", "import mahala\nx = 1"]
    _, text = make(*rows, learners=learners, columns=columns, commands=commands, shares=shares, scaling="none")
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


@contextmanager
def opened(browser, path, width=1400, scheme="light", complaints=None, n_charts=9):
    """Open the page, and afterwards raise if it asked for anything or the console has a message."""
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.set_default_timeout(30_000)
    heard = [] if complaints is None else complaints
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: request.url == path.as_uri() or heard.append(request.url))
    page.goto(path.as_uri())
    page.locator(".plot > svg").nth(n_charts - 1).wait_for()
    yield page
    page.close()
    assert complaints is not None or heard == []


@pytest.fixture(scope="module")
def page(browser, path):
    """The page, opened once: a test leaves all classes and lines switched on, and may choose another row."""
    with opened(browser, path) as page:
        yield page


def card(page, title):
    return page.locator("figure.card").filter(has=page.locator(f"svg[aria-label^={title!r}]"))


def hover(page, figure, x=0.5, y=0.5):
    """Move the mouse to a place of a chart, in shares of its size, and return the tip."""
    svg = figure.locator(".plot > svg")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    return tip(figure)


def tip(figure):
    lines = figure.locator("g[aria-label=tip] text > tspan")
    lines.first.wait_for()
    return [text.replace("\u200b", "") for text in lines.all_text_contents()]


def places(figure, selector):
    """Return the middles of the elements, in the window."""
    return figure.locator(selector).evaluate_all(
        "all => all.map(e => e.getBoundingClientRect()).map(b => [b.x + b.width / 2, b.y + b.height / 2])"
    )


@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_is_whole_and_nothing_flows_over(browser, page, path, width):
    with nullcontext(page) if width == 1400 else opened(browser, path, width, "dark") as page:
        assert "help" in page.locator("h1").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for box in page.locator(".plot > svg").evaluate_all("all => all.map(e => e.getBoundingClientRect().toJSON())"):
            assert 0 <= box["left"] < box["right"] <= width
            assert box["width"] > 250
            assert box["height"] > 90
        for link in page.locator("nav a").all():
            assert page.locator(link.get_attribute("href")).count() == 1


@pytest.mark.parametrize(
    ("kind", "n_charts", "widths"),
    [
        ("one feature", 9, [420]),
        ("no learner", 4, [420]),
        ("3 classes", 9, [1400]),
        ("60 classes", 9, [420]),
        ("301 classes", 7, [420]),
    ],
)
def test_odd_pages_are_whole_too(browser, tmp_path, kind, n_charts, widths):
    rng = np.random.default_rng(0)
    if kind == "301 classes":
        y = np.repeat(np.arange(301), 4)
        text = make(y[:, None] + rng.normal(size=(1204, 2)), y.astype(str), learners={"RCA": RCA()}, folds=2)[1]
    elif kind in ("3 classes", "60 classes"):
        n = int(kind.split()[0])
        names = np.array([f"a long name, as in a column of text, {code}" for code in range(n)])
        text = make(rng.normal(size=(180, 50)), names[np.arange(180) % n], learners={"RCA": RCA()})[1]
    else:
        shares = {"learner": "not here"} if kind == "no learner" else None
        text = make(*table(2, 1), learners={"learner": RCA()}, shares=shares, folds=2)[1]
    file = tmp_path / "odd.html"
    file.write_text(text, encoding="utf-8")
    for width in widths:
        with opened(browser, file, width, n_charts=n_charts) as page:
            assert page.locator(".plot > svg").count() == n_charts
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            names_are_apart(page)


def test_numbers_before_and_after(browser, tmp_path):
    """Rows of numbers have their names, and a row that is pointed at in one map is ringed in the other."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    names = np.array([f"{EVIL} {at}" for at in range(60)], dtype=object)
    file = tmp_path / "numbers.html"
    _, text = make(X, 100.0 + X[:, 0], learners={"MLKR": MLKR(max_iter=5, random_state=0)}, row_names=names)
    file.write_text(text, encoding="utf-8")
    with opened(browser, file, 420, n_charts=5) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        after = card(page, "after:")
        after.scroll_into_view_if_needed()
        x, y = places(after, DOTS)[10]
        page.mouse.move(x, y)
        name, row, number, _ = tip(after)
        assert name == f"{EVIL} {row.removeprefix('row ')}"
        assert number == f"number {100.0 + X[int(row.removeprefix('row ')), 0]:.4g}"
        rings = page.locator("circle.linked").evaluate_all("all => all.map(e => e.getAttribute('visibility'))")
        assert rings == ["visible", "hidden"]
        page.get_by_label("Name", exact=True).fill(f"{EVIL} 7")
        page.keyboard.press("Enter")
        assert page.get_by_label("Row", exact=True).input_value() == "7"
        assert page.locator("h3").inner_text().startswith(f"The 3 nearest rows of row 7 ({EVIL} 7),")
        row, value, predicted = hover(page, card(page, "true number"))
        assert re.fullmatch(r"row \d+", row)
        assert value.startswith("MLKR: ")
        assert predicted.startswith("true: ")
        select = page.get_by_label("Predicted by")
        other = select.locator("option").nth(1).inner_text()
        select.select_option(other)
        assert hover(page, card(page, "true number"))[1].startswith(f"{other}: ")


def test_items_of_answers_before_and_after(browser, tmp_path):
    names = np.array([f"{EVIL} {at}" for at in range(40)], dtype=object)
    answers, text = make_of_answers(LogisticMetric(), names)
    file = tmp_path / "answers.html"
    file.write_text(text, encoding="utf-8")
    with opened(browser, file, 420, "dark", n_charts=4) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        for title in ("before:", "after:"):
            assert card(page, title).locator("g[aria-label=link] path").count() == len(answers)
        assert re.search(r"\d+\.\d % hold before, \d+\.\d % after", page.locator(".numbers").inner_text())


def names_are_apart(page):
    """Names beside the cells of the confusion matrix do not overlap, nor do level ones above them."""
    for axis, (first, last) in {"y": ("top", "bottom"), "x": ("left", "right")}.items():
        names = page.locator(f"[data-chart=confusion] g[aria-label='{axis}-axis tick label'] text:not(:empty)")
        turned = "/rotate/.test(e.getAttribute('transform'))"
        boxes = names.evaluate_all(f"all => all.map(e => {turned} ? null : e.getBoundingClientRect().toJSON())")
        boxes = [box for box in boxes if box is not None]
        boxes.sort(key=lambda box: box[first])
        assert all(box[last] <= after[first] + 1 for box, after in pairwise(boxes)), axis


def test_a_page_that_asks_for_more_would_be_noticed(browser, path, tmp_path):
    worse = "<img src='nowhere.png'><script>1</script><p onclick='1'></p>"
    file = tmp_path / "worse.html"
    file.write_text(path.read_text(encoding="utf-8").replace("</main>", f"{worse}</main>"), encoding="utf-8")
    complaints = []
    with opened(browser, file, complaints=complaints) as page:
        page.evaluate("document.querySelector('[onclick]').click()")
    for kind in ("nowhere.png", "inline script", "inline event handler"):
        assert [text for text in complaints if kind in text], (kind, complaints)


def test_charts_follow_the_colours_of_the_page(page):
    colours = """() => [document.querySelector('.card'), document.querySelector('.plot svg text')].map(
        (e, at) => getComputedStyle(e)[at ? 'fill' : 'backgroundColor'].match(/[0-9.]+/g).slice(0, 3).map(Number))"""
    for scheme, dark in (("light", False), ("dark", True)):
        page.emulate_media(color_scheme=scheme)
        background, text = page.evaluate(colours)
        assert (sum(background) < sum(text)) == dark
        assert contrast(background, text) > 4.5
    page.emulate_media(color_scheme="light")


def contrast(first, second):
    """Return the ratio of luminances of WCAG 2."""

    def luminance(colour):
        parts = np.array(colour) / 255.0
        return np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_leaderboard_is_sorted_by_a_click(page):
    board = page.locator("table.board")
    column = board.locator("th").evaluate_all("all => all.findIndex(e => e.textContent.startsWith('difference'))")

    def values(at):
        cells = board.locator("tbody tr:not(.failed)").evaluate_all(f"all => all.map(e => e.cells[{at}].dataset.value)")
        return cells if at == 0 else [float(cell) for cell in cells]

    for at, title in ((0, "metric"), (column, "difference")):
        board.get_by_role("button", name=title).click()
        up = values(at)
        assert up == sorted(up)
        assert board.locator("th[aria-sort=ascending]").inner_text().startswith(title)
        board.get_by_role("button", name=title).click()
        assert values(at) == up[::-1]
        assert board.locator("th[aria-sort]").count() == 1
    assert "could not be fitted" in board.locator("tbody tr").last.inner_text()
    columns = page.locator("table.sortable").last
    columns.get_by_role("button", name="what was done").click()
    columns.get_by_role("button", name="what was done").click()
    assert columns.locator("tbody td").first.inner_text() == EVIL


def test_a_line_says_its_values_and_can_be_switched_off(page):
    figure = card(page, "k-NN error")
    name, value = hover(page, figure)
    assert name in ("LDA", "RCA", "Euclidean")
    assert re.fullmatch(r"\d+ neighbours: \d+\.\d %", value)
    lines = figure.locator("g[aria-label=line] path")
    before = lines.count()
    button = page.locator(".legend").first.get_by_role("button", name="RCA")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert lines.count() == before - 1
    button.click()
    assert lines.count() == before


def test_rows_say_their_numbers_and_classes(page, rows):
    labels = rows[1]
    figure = card(page, "after:").last
    figure.scroll_into_view_if_needed()
    for x, y in places(figure, DOTS)[:40:8]:
        page.mouse.move(x, y)
        number, label, kind = tip(figure)
        assert label == f"class {labels[int(number.removeprefix('row '))]}"
        assert kind in ("held out", "fitted to")


def test_neighbours_of_a_row_before_and_after(page, rows):
    X, labels = rows
    page.get_by_label("Row", exact=True).fill("25")
    assert f"row 25, {labels[25]}" in " ".join(page.locator("h3").inner_text().split())
    lists = page.locator(".neighbours table")
    found = lists.first.locator("tbody tr").evaluate_all("all => all.map(e => [+e.cells[0].textContent, e.className])")
    far = np.linalg.norm(X - X[25], axis=1)
    far[25] = np.inf
    assert [row for row, _ in found] == np.argsort(far)[:3].tolist()
    assert [kind == "same" for _, kind in found] == [labels[row] == labels[25] for row, _ in found]
    n_same = sum(kind == "same" for _, kind in found)
    assert lists.first.locator("caption").inner_text() == f"before: Euclidean: {n_same} of 3 are of its class"
    assert card(page, "before:").last.locator("g.chosen, .chosen").count() >= 1
    other = lists.last.locator("tbody button").first
    number = other.inner_text()
    other.click()
    assert page.get_by_label("Row", exact=True).input_value() == number
    page.get_by_label("Row", exact=True).fill("390")
    assert page.locator("output").inner_text() == "Row 390 is not among the 390 rows shown."


def test_a_click_on_a_point_chooses_its_row(page):
    figure = card(page, "before:").last
    figure.scroll_into_view_if_needed()
    x, y = places(figure, DOTS)[100]
    page.mouse.move(x, y)
    number = tip(figure)[0].removeprefix("row ")
    page.mouse.click(x, y)
    assert page.get_by_label("Row", exact=True).input_value() == number


def test_26_classes_can_be_told_apart_and_switched_off(page):
    legend = page.locator("[data-chart=plane] .legend")
    buttons = legend.locator("button[aria-pressed]")
    assert buttons.evaluate_all("all => all.map(e => e.title)") == sorted(CLASSES)
    looks = legend.locator("path").evaluate_all("all => all.map(e => e.getAttribute('d') + e.getAttribute('fill'))")
    assert len(set(looks)) == 26
    dots = card(page, "after:").last.locator(DOTS)
    before = dots.count()
    legend.get_by_role("button", name="none").click()
    assert dots.count() < before / 10
    buttons.first.click()
    assert 15 <= dots.count() <= 30  # the rows of one class, and rings
    legend.get_by_role("button", name="all").click()
    assert dots.count() == before


def test_names_of_classes_are_text(page):
    assert page.locator("script").count() == 4
    assert page.locator("[data-chart=classes]").get_by_text("<script>alert(1)</sc").count() > 0
    for _ in range(2):  # off and on
        page.locator("[data-chart=plane]").get_by_role("button", name=EVIL).click()


def test_confusions_of_each_metric(page):
    figure = card(page, "rows: the class")
    select = page.get_by_label("Metric", exact=True)
    assert sorted(select.locator("option").all_text_contents()) == ["Euclidean", "LDA", "RCA"]
    counts = []
    for option in ("LDA", "Euclidean"):
        select.select_option(option)
        figure.scroll_into_view_if_needed()
        (x, y), *_ = places(figure, "g[aria-label=cell] rect")
        page.mouse.move(x, y)
        what, number = tip(figure)
        assert what == "<script>alert(1)</script> recognised" or " taken for " in what
        assert re.fullmatch(r"\d+ of 15, \d+\.\d %", number)
        counts.append(figure.locator("g[aria-label=cell] rect").count())
    assert counts[0] != counts[1]


def test_class_sizes_errors_histograms_and_the_spectrum_have_tips(page):
    assert hover(page, card(page, "rows of each class"))[1] == "15 rows, 3.8 %"
    assert re.fullmatch(r".*: \d+\.\d % wrong", hover(page, card(page, "error in each class"), 0.5)[1])
    assert hover(page, card(page, "before:").first)[0].startswith("distance ")
    figure = card(page, "share of each eigenvalue")
    assert re.fullmatch(r"direction \d+", hover(page, figure)[0])
    assert figure.locator("rect").count() == 30
    page.get_by_role("button", name="all, log axes").click()
    # The rank of LDA with 26 classes, or of RCA.
    assert hover(page, figure, 0.97)[0] in ("direction 25", "direction 30")


def test_commands_are_copied(page):
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    buttons = page.locator(".copy")
    assert buttons.count() == 2
    for at, command in enumerate(["mahala search a", "import mahala\nx = 1"]):
        buttons.nth(at).click()
        sync_api.expect(buttons.nth(at)).to_have_text("Copied")
        assert page.evaluate("window.copied") == command
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error(); }; }")
    sync_api.expect(buttons.first).to_have_text("Copy")
    buttons.first.click()
    sync_api.expect(buttons.first).to_have_text("Copied")
    assert page.evaluate("getSelection().toString()") == "mahala search a"


def test_a_chart_is_saved_for_a_paper(page, tmp_path):
    figure = card(page, "share of each eigenvalue")
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as download:
            figure.get_by_role("button", name=kind).click()
        download.value.save_as(tmp_path / kind)
        content = (tmp_path / kind).read_bytes()
        assert download.value.suggested_filename == f"spectrum.{kind}"
        assert content.startswith(start)
        assert b"var(--" not in content
