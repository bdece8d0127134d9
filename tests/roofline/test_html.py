"""The page: whole, offline, and deaf to markup in names."""

from html.parser import HTMLParser

import pytest

from roofline import html
from tests.roofline import fakes

VOID = {"meta", "line", "rect"}


class Page(HTMLParser):
    """Tags, attributes and text, with a check that every element is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.data = [], [], [], []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def test_page_shows_every_run_in_table_and_chart():
    page = Page(
        html.page(fakes.report(fakes.result("all pairs"), fakes.result("windowed", seconds=(1e-4, 1e-4, 2e-4))))
    )
    text = " ".join(page.data)
    assert page.tags.count("tr") == 3
    assert page.tags.count("rect") == 2
    for wanted in ("all pairs", "windowed", "11.0 ms", "10,000", "9.09 G", "-12.5", "A processor", "numpy"):
        assert wanted in text


@pytest.mark.parametrize(
    "report",
    [
        fakes.report(fakes.result(method=fakes.MARKUP)),
        fakes.report(fakes.result(source=fakes.MARKUP)),
        fakes.report(failures=[(fakes.MARKUP, fakes.MARKUP)]),
        fakes.report(fakes.result(), cpu=fakes.MARKUP, versions={fakes.MARKUP: fakes.MARKUP}),
    ],
)
def test_names_cannot_inject_markup(report):
    text = html.page(report)
    page = Page(text)
    assert "script" not in page.tags and "b" not in page.tags
    assert fakes.MARKUP in " ".join(page.data), "the name is shown as it is"


def test_page_needs_no_network_and_no_script():
    text = html.page(fakes.report(fakes.result()))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href"} & {name for name, _ in page.attributes}
    assert "url(" not in text and "@import" not in text and "://" not in text


def test_page_follows_the_reader():
    text = html.page(fakes.report(fakes.result()))
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text
    assert 'lang="en"' in text
    assert "max-width: 44rem" in text, "the table becomes cards on a phone"


def test_chart_is_drawn_in_percentages_within_the_picture():
    """So that its letters keep their size at 360 px, and no bar leaves the picture."""
    rates = [fakes.result(f"m{k}", seconds=(10.0**-k, 1.1 * 10.0**-k, 1.3 * 10.0**-k)) for k in range(9)]
    page = Page(html.page(fakes.report(*rates)))
    widths = [float(value.rstrip("%")) for name, value in page.attributes if name == "width" and value.endswith("%")]
    assert len(widths) == 9 and len(set(widths)) == 9 and widths == sorted(widths)
    assert all(0 < width <= 100 for width in widths)
    assert "viewBox" not in dict(page.attributes)


def test_page_without_any_result_tells_why():
    text = " ".join(Page(html.page(fakes.report(failures=[("all pairs", "LoweringError: no")]))).data)
    assert "Not measured" in text and "LoweringError: no" in text


def test_work_without_pairs_has_a_row_and_no_bar():
    page = Page(html.page(fakes.report(fakes.result(pairs=None, value=None))))
    assert page.tags.count("tr") == 2 and "rect" not in page.tags


def test_charts_of_two_inputs_share_one_axis():
    fast = fakes.result("fast", seconds=(1e-6,) * 3)
    page = Page(html.page(fakes.report(fakes.result("a"), fakes.result("a", source="file"), fast)))
    widths = [value for name, value in page.attributes if name == "width" and value.endswith("%")]
    assert page.tags.count("svg") == 2 and page.tags.count("table") == 2
    assert widths[0] == widths[2] != widths[1], "in the order of the groups: a, fast; a"
