"""Test the page in a real browser: `pip install ".[browser]"`, and a Chromium on the path or named by
PORTABLE_CHROMIUM."""

import os
import re
import shutil

import pytest

from portable.roofline import diff, html
from tests.roofline import fakes, shown

playwright = pytest.importorskip("playwright.sync_api", reason='no Playwright here: pip install ".[browser]"')
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason='no axe-core here: pip install ".[browser]"'
)

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def chromium():
    """Return the path of Chromium, or None."""
    return os.environ.get("PORTABLE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here: install it, or name it by PORTABLE_CHROMIUM")
    with playwright.sync_playwright() as driver:
        # it opens only our file
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def file(tmp_path, quick_ceilings):
    path = tmp_path / "report.html"
    path.write_text(html.page(shown.document(quick_ceilings("serial"), fakes.MARKUP)), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, file):
    """Open the page at a width, in light or dark mode; it must not log messages nor request other files."""
    told, pages = [], []

    def made(width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: told.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield made
    for page in pages:
        page.close()
    assert told == []


UNFOLD = "for (const one of document.querySelectorAll('details')) one.open = true"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, width, scheme):
    """The checks include contrast, with all cards unfolded."""
    page = opened(width, scheme)
    page.evaluate(UNFOLD)
    found = axe.Axe().run(page).response
    assert [
        (rule["id"], node["html"], node["failureSummary"])
        for rule in found["violations"]
        for node in rule["nodes"]
    ] == []
    assert {"color-contrast", "document-title", "html-has-lang"} <= {rule["id"] for rule in found["passes"]}


@pytest.mark.parametrize("unfolded", [False, True])
def test_a_phone_needs_no_sideways_scrolling(opened, unfolded):
    page = opened(360)
    if unfolded:
        page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length).map(t =>"
        " parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b))"
    )
    assert small and min(small) > 10.5, "letters of the plots keep their size"


@pytest.mark.parametrize("width", [1280, 360])
def test_the_keyboard_reaches_every_mark_and_it_speaks(opened, width):
    page = opened(width)
    page.evaluate(UNFOLD)
    marks = page.evaluate(
        "[...document.querySelectorAll('.mark')].filter(m => m.getClientRects().length).length"
    )
    spoken = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        label = page.evaluate(
            "() => { const e = document.activeElement; if (e === document.body) return null;return"
            " e.classList.contains('mark') ? [e.getAttribute('aria-label'), e.getBoundingClientRect().x,"
            " e.getBoundingClientRect().y + scrollY] : ''; }"
        )
        if label is None:
            break
        if label:
            assert re.search(r"per compulsory byte.*of attainable, bound by", label[0])
            spoken.add(tuple(label))
    assert marks >= 12 and len(spoken) == marks


def test_a_mark_leads_to_its_row(opened):
    page = opened()
    page.locator("a.mark:visible").first.focus()
    page.keyboard.press("Enter")
    number = page.evaluate("location.hash").removeprefix("#row")
    assert page.locator(f"#row{number}").is_visible(), "its details unfold"


def test_paper_has_what_is_unfolded_and_few_pages(opened, browser, tmp_path, quick_ceilings):
    """A card prints as its line, and fully if the reader has unfolded it; eleven rows need at most six
    pages."""
    page = opened()
    page.evaluate("document.querySelectorAll('details')[1].open = true")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    texts = page.locator("text=Counted in one launch")
    assert [texts.nth(k).is_visible() for k in range(3)] == [False, False, True]
    document = shown.document(quick_ceilings("serial"), parts=1)
    document["parts"][0]["results"] = (document["parts"][0]["results"] * 2)[:11]
    (tmp_path / "eleven.html").write_text(html.page(document), encoding="utf-8")
    eleven = browser.new_page()
    eleven.goto((tmp_path / "eleven.html").as_uri())
    paper = eleven.pdf(format="A4")
    eleven.close()
    assert paper.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 6


OVERLAPS = """() => {
  // labels of one drawing that meet, as quadrangles: two are apart if a side of one separates them
  const corners = t => { const b = t.getBBox(), m = t.getScreenCTM(), e = 1.5;
    const left = b.x, right = b.x + b.width, top = b.y + 3, bottom = b.y + b.height - 3;
    return [[left, top], [right, top], [right, bottom], [left, bottom]].map(
      ([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]); };
  const apart = (p, q) => [p, q].some(r => [0, 1].some(k => {
    const [x, y] = r[k], [u, v] = r[k + 1], n = [v - y, x - u];
    const on = s => s.map(([a, b]) => a * n[0] + b * n[1]), a = on(p), b = on(q);
    return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a); }));
  const found = [];
  for (const svg of document.querySelectorAll('svg[role=group]')) {
    const texts = [...svg.querySelectorAll('.label, .roofname')].filter(t => t.getClientRects().length);
    texts.forEach((t, k) => texts.slice(k + 1).forEach(o => {
      if (!apart(corners(t), corners(o))) found.push([t.textContent, o.textContent]); }));
  }
  return found; }"""


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_do_not_collide(opened, width):
    page = opened(width)
    page.evaluate(UNFOLD)
    assert page.evaluate(OVERLAPS) == []
    marks, labels = (page.locator(f".mark{inner}:visible").count() for inner in ("", " .label"))
    assert 0 < 0.9 * marks <= labels, "nearly every mark finds room for its number"


def test_two_reports_are_one_plot(browser, tmp_path, quick_ceilings):
    """Plot reports before and after on one machine, and of two spaces."""
    before, after = (shown.document(quick_ceilings("serial"), parts=1) for _ in range(2))
    result = after["parts"][0]["results"][2]
    values = [0.25 * s for s in result["seconds"]["values"]]
    result["seconds"] |= {"values": values, "median": values[1], "lower": values[0], "upper": values[2]}
    result["roof"]["seconds"]["value"] *= 0.25
    result["roof"]["share_of_attainable"] *= 4.0
    page, told = browser.new_page(), []
    page.on("request", lambda request: told.append(request.url))
    (tmp_path / "both.html").write_text(
        diff.page(before, after, diff.changes(before, after)), encoding="utf-8"
    )
    page.goto((tmp_path / "both.html").as_uri())
    assert told == [(tmp_path / "both.html").as_uri()] and axe.Axe().run(page).response["violations"] == []
    assert page.evaluate(OVERLAPS) == [] and page.locator(".wide .moved").count() >= 5
    assert "1 faster" in page.inner_text(
        ".lead:not(.failed)"
    ) and "of its roof before, at" in page.inner_text("#change6")
    page.close()


def test_markup_in_names_stays_text(opened):
    page = opened()
    assert page.locator("script").count() == 0
    assert fakes.MARKUP in page.inner_text("main")
