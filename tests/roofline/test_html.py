"""The page: whole, offline, and deaf to markup in names."""

import re
from html.parser import HTMLParser

import pytest

from roofline import html
from tests.roofline import fakes, shown

VOID = {"meta", "br"}


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


@pytest.fixture
def whole(quick_ceilings):
    return html.page(shown.document(quick_ceilings("serial")))


def test_every_row_is_in_table_plots_and_list(whole, quick_ceilings):
    document = shown.document(quick_ceilings("serial"))
    text = " ".join(Page(whole).data)
    rows = [result for part in document["parts"] for result in part["results"]]
    for result in rows:
        assert result["roof"]["verdict"] in text, result["method"]
    for number in range(1, len(rows) + 1):
        assert whole.count(f'id="row{number}"') == 1 and whole.count(f'href="#row{number}"') >= 2, "in table and plot"
    assert "Kernels without floating-point operations" in text and "Over sizes" in text and "Self-checks" in text


def test_what_is_told_of_a_kernel(whole):
    text = " ".join(Page(whole).data)
    for wanted in ("bytes, compulsory", "bytes, requested", "not measured: that needs hardware counters", "Its text",
                   "y[i] += a * x[i]", "Call then faster", "fma float64", "flops per byte", "no flop"[:2], "A processor"[:1]):
        assert wanted in text


def test_without_ceilings_there_are_times(quick_ceilings):
    text = " ".join(Page(html.page(fakes.saved(fakes.result("all pairs"), fakes.result("windowed", seconds=(1e-4,) * 3)))).data)
    for wanted in ("all pairs", "windowed", "11.0 ms", "10,000", "A processor", "numpy"):
        assert wanted in text
    assert "Against the roof" not in text


@pytest.mark.parametrize(
    "document",
    [
        fakes.saved(fakes.result(method=fakes.MARKUP)),
        fakes.saved(fakes.result(source=fakes.MARKUP)),
        fakes.saved(failures=[(fakes.MARKUP, fakes.MARKUP)]),
        fakes.saved(fakes.result(), cpu=fakes.MARKUP, versions={fakes.MARKUP: fakes.MARKUP}),
        None,
    ],
)
def test_names_cannot_inject_markup(document, quick_ceilings):
    text = html.page(document or shown.document(quick_ceilings("serial"), fakes.MARKUP))
    page = Page(text)
    assert "script" not in page.tags and "<b>'" not in text
    assert fakes.MARKUP in " ".join(page.data), "the name is shown as it is"


def test_page_needs_no_network_and_no_script(whole):
    page = Page(whole)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href") and not value.startswith("#")]
    assert "url(" not in whole and "@import" not in whole and "://" not in whole


def test_links_lead_somewhere(whole):
    attributes = Page(whole).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in attributes if name == "href"} <= set(ids)


def test_page_follows_the_reader(whole):
    for wanted in ("prefers-color-scheme: dark", "width=device-width", 'lang="en"', "@media print"):
        assert wanted in whole


def test_page_without_any_result_tells_why():
    text = " ".join(Page(html.page(fakes.saved(failures=[("all pairs", "LoweringError: no")]))).data)
    assert "Not measured" in text and "LoweringError: no" in text


def test_marks_and_roofs_lie_within_the_plots(whole):
    for width, height, inner in re.findall(r'<svg viewBox="0 0 (\d+) (\d+)" role="group"[^>]*>(.*?)</svg>', whole):
        across = [float(x) for x in re.findall(r'translate\(([-\d.]+) ', inner)]
        down = [float(y) for y in re.findall(r'translate\([-\d.]+ ([-\d.]+)\)', inner)]
        assert across and all(40 <= x <= int(width) for x in across) and all(0 <= y <= int(height) for y in down)


def test_sixty_rows_stay_below_half_a_megabyte(quick_ceilings):
    document = shown.document(quick_ceilings("serial"))
    for part in document["parts"]:
        part["results"] = (part["results"] * 5)[:30]
    assert len(html.page(document).encode()) < 500_000


def test_a_page_of_many_rows_tells_less_of_each(quick_ceilings, monkeypatch):
    document = shown.document(quick_ceilings("serial"), "a name")
    whole = html.page(document)
    monkeypatch.setattr(html, "MANY", 3)
    brief = html.page(document)
    assert brief.count("Counted in one launch") == brief.count("<details") < whole.count("Counted in one launch")
    assert '<figure class="small">' in whole and '<figure class="small">' not in brief and brief.count("Every kernel") == 1
