"""Make pictures of reports for the docs: `python -m tests.roofline.screenshots FOLDER REPORT.json
[BEFORE.json AFTER.json]`.

Shows the top of a report's page, its plot, one unfolded card and the page on a phone in dark mode; with two
more reports their common plot. Requires the packages of test_browser.py, and Pillow, which keeps the files
small.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from portable.roofline import diff, html
from tests.roofline.test_browser import chromium

COLOURS = 32  # colours of a picture


def main(folder, report, before=None, after=None):
    """Write the pictures and print their names."""
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as place:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])

        def opened(text, width, scheme="light"):
            path = Path(place) / "page.html"
            path.write_text(text, encoding="utf-8")
            page = browser.new_page(viewport={"width": width, "height": 780}, color_scheme=scheme)
            page.goto(path.as_uri())
            return page

        def keep(name, picture):
            image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            image.save(Path(folder) / f"report_{name}.png", optimize=True)
            print(Path(folder) / f"report_{name}.png")

        text = html.page(diff.read(report))
        page = opened(text, 900)
        keep("top", page.screenshot())
        keep("plot", page.locator("figure:has(.wide)").first.screenshot())
        page.locator("details").first.evaluate("one => one.open = true")
        page.set_viewport_size({"width": 900, "height": 1100})
        page.locator("details").first.scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.querySelector('details').getBoundingClientRect().y + scrollY)")
        keep("card", page.screenshot())
        keep("phone", opened(text, 390, "dark").screenshot())
        if before:
            old, new = diff.read(before), diff.read(after)
            page = opened(diff.page(old, new, diff.changes(old, new)), 900)
            keep("both", page.locator("figure:has(.wide)").first.screenshot())
            keep("lines", page.locator("#change1").screenshot())
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
