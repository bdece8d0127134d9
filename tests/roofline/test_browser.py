"""The page in a real browser: `pip install ".[browser]"`, and a Chromium on the path or named by PORTABLE_CHROMIUM."""

import os
import re
import shutil

import pytest

from roofline import html
from tests.roofline import fakes, shown

playwright = pytest.importorskip("playwright.sync_api", reason='no Playwright here: pip install ".[browser]"')
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason='no axe-core here: pip install ".[browser]"')

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser():
    path = os.environ.get("PORTABLE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here: install it, or name it by PORTABLE_CHROMIUM")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])  # it opens nothing but our own file
        yield made
        made.close()


@pytest.fixture
def file(tmp_path, quick_ceilings):
    path = tmp_path / "report.html"
    path.write_text(html.page(shown.document(quick_ceilings("serial"), fakes.MARKUP)), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, file):
    """The page at a width, in light or dark; what it logged and asked for must be nothing."""
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


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, width, scheme):
    """Contrast among it, with all unfolded."""
    page = opened(width, scheme)
    page.evaluate(UNFOLD)
    found = axe.Axe().run(page).response
    assert [(rule["id"], node["html"], node["failureSummary"]) for rule in found["violations"] for node in rule["nodes"]] == []
    assert {"color-contrast", "document-title", "html-has-lang"} <= {rule["id"] for rule in found["passes"]}


@pytest.mark.parametrize("unfolded", [False, True])
def test_a_phone_needs_no_sideways_scrolling(opened, unfolded):
    page = opened(360)
    if unfolded:
        page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length)"
        ".map(t => parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b))"
    )
    assert small and min(small) > 10.5, "letters of the plots keep their size"


@pytest.mark.parametrize("width", [1280, 360])
def test_the_keyboard_reaches_every_mark_and_it_speaks(opened, width):
    page = opened(width)
    page.evaluate(UNFOLD)
    marks = page.evaluate("[...document.querySelectorAll('.mark')].filter(m => m.getClientRects().length).length")
    spoken = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        label = page.evaluate(
            "() => { const e = document.activeElement; if (e === document.body) return null;"
            "return e.classList.contains('mark') ? [e.getAttribute('aria-label'), e.getBoundingClientRect().x,"
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


def test_it_reads_without_styles_of_its_own_hiding_anything_in_print(opened):
    page = opened()
    page.emulate_media(media="print")
    assert page.locator("text=Costliest lines").first.is_visible(), "all is unfolded on paper"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", paper)) >= 2


def test_markup_in_names_stays_text(opened):
    page = opened()
    assert page.locator("script").count() == 0
    assert fakes.MARKUP in page.inner_text("main")
