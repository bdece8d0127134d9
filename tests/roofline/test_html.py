"""Test the page: complete, without access to the network, and with markup in names escaped."""

import copy
import dataclasses
import functools
import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from portable.roofline import ceiling, checks, documents, html, reporting, roofplot, rows, tables, verdicts
from portable.roofline.timing import Samples
from tests.roofline import fakes, shown

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collect tags, attributes and text, and check that every element is closed in order."""

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


@functools.cache
def page_of(ceilings):
    return html.page(shown.document(ceilings("serial")))


@pytest.fixture
def whole(quick_ceilings):
    return page_of(quick_ceilings)


def test_every_row_is_in_table_plots_and_list(whole, quick_ceilings):
    document = shown.document(quick_ceilings("serial"))
    text = " ".join(Page(whole).data)
    rows = [result for part in document["parts"] for result in part["results"]]
    for result in rows:
        assert result["roof"]["verdict"] in text, result["method"]
    for number in range(1, len(rows) + 1):
        assert whole.count(f'id="row{number}"') == 1 and whole.count(f'href="#row{number}"') >= 2, (
            "in table and plot"
        )
    assert (
        "Kernels without floating-point operations" in text and "Over sizes" in text and "Self-checks" in text
    )


def test_what_is_told_of_a_kernel(whole):
    text = " ".join(Page(whole).data)
    for wanted in (
        "bytes, compulsory",
        "bytes, requested",
        "bytes from L1, counted",
        "bytes from L2, modelled",
        "Its text",
        "y[i] += a * x[i]",
        "Call then faster",
        "fma float64",
        "flops per byte",
        "no flop"[:2],
        "A processor"[:1],
    ):
        assert wanted in text


def test_without_ceilings_there_are_times(quick_ceilings):
    text = " ".join(
        Page(
            html.page(fakes.saved(fakes.result("all pairs"), fakes.result("windowed", seconds=(1e-4,) * 3)))
        ).data
    )
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
    assert not [
        value for name, value in page.attributes if name in ("src", "href") and not value.startswith("#")
    ]
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
    for width, height, inner in re.findall(
        r'<svg viewBox="0 0 (\d+) (\d+)" role="group"[^>]*>(.*?)</svg>', whole
    ):
        across = [float(x) for x in re.findall(r"translate\(([-\d.]+) ", inner)]
        down = [float(y) for y in re.findall(r"translate\([-\d.]+ ([-\d.]+)\)", inner)]
        assert (
            across and all(40 <= x <= int(width) for x in across) and all(0 <= y <= int(height) for y in down)
        )


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
    assert (
        brief.count("Counted in one launch") == brief.count("<details") < whole.count("Counted in one launch")
    )
    assert (
        '<figure class="small">' in whole
        and '<figure class="small">' not in brief
        and brief.count("Every kernel") == 1
    )


def test_the_same_reason_is_told_once(quick_ceilings):
    """Three rows of one kernel at the same distance from its roof share one sentence, with their numbers."""
    document = shown.document(quick_ceilings("serial"), parts=1)
    (part,) = document["parts"]
    part["results"] = [
        part["results"][2] | {"method": name, "source": name} for name in ("one", "two", "three")
    ]
    (cause, *_) = part["results"][0]["roof"]["reason"]["causes"]
    text = " ".join(Page(html.page(document)).data)
    told = cause["text"][:1].upper() + cause["text"][1:]
    assert text.count(f"No. 1, 2, 3: {told}") == 1
    help_ = verdicts.CAUSES[verdicts.titled(cause["name"])[0]][1]
    assert text.count(help_) <= 1 + 2 * 3, "in the group, and in the cards, which are folded"


def test_rows_of_one_name_are_told_apart_on_the_plot(quick_ceilings):
    """Labels state how the rows' inputs differ: here regions of a program named E and L."""
    results = [
        shown.result(
            quick_ceilings("serial"), "edm.bound", ["axpy"], slow, source=f"a.py, E = {E}, L = 1,000"
        )
        for E, slow in ((5, 2.0), (20, 20.0))
    ]
    part = reporting.Report("serial", fakes.machine(), results, ceilings=quick_ceilings("serial"))
    page = html.page(documents.document([part.as_dict()]))
    labels = re.findall(r'<text class="label"[^>]*>([^<]*)</text>', page)
    assert {"1 edm.bound, E = 5", "2 edm.bound, E = 20"} <= set(labels)


def test_kernels_of_a_call_have_the_rows_number(whole):
    """The rows are numbered as in the table below the plot."""
    small = re.findall(r'<figure class="small">(.*?)</figure>', whole, re.S)
    first = re.findall(r'<text class="label"[^>]*>([^<]*)</text>', small[0])
    assert sorted(first) == ["1.1", "1.2"] and "1.1 axpy" in " ".join(Page(whole).data)
    assert re.findall(r'<text class="label"[^>]*>([^<]*)</text>', small[2]) == ["3"]


def test_small_helpers_share_a_line(quick_ceilings):
    document = shown.document(quick_ceilings("serial"), parts=1)
    result = document["parts"][0]["results"][0]
    result["roof"]["kernels"][1] |= {"share_of_time": 0.005, "label": "helper"}
    found = rows.kernels_of(rows.rows_of(rows.parts_of(document)))
    assert found["small"] == ["helper"] and "helper" not in [
        kernel["label"] for _, kernel, _ in found["told"]
    ]
    assert "1 small ones, each below 1% of every call: helper" in " ".join(Page(html.page(document)).data)


@pytest.mark.parametrize(("quick", "marks"), [(True, 12), (False, 0)])
def test_shares_that_are_not_to_be_trusted_are_marked(quick_ceilings, monkeypatch, quick, marks):
    monkeypatch.setattr(ceiling.Ceilings, "doubts", [])
    document = shown.document(quick_ceilings("serial"))
    for part in document["parts"]:
        part["checks"] = checks.of_part(part["machine"], None, None, quick)
        for result in part["results"]:
            result["roof"]["checks"] = []  # a separate part: these take microseconds
    text = io.StringIO()
    Console(file=text, width=250).print(tables.tables(document)[0])
    assert text.getvalue().count("%?") == marks
    page = " ".join(Page(html.page(document)).data)
    assert ("%?" in page) == quick and ("No share of the roof is to be trusted: --quick" in page) == quick


def test_a_calls_time_is_one_bar(whole):
    """The bar consists of Python, copies and kernels."""
    bars = re.findall(
        r'<svg class="bars" height="14" role="img" aria-label="([^"]*)">(.*?)</svg>', whole, re.S
    )
    assert len(bars) == 12 and all("copies" in told for told, _ in bars if "waiting" in told)
    for _, inner in bars:
        assert 95 <= sum(map(float, re.findall(r'width="([\d.]+)%"', inner))) <= 100.5
    assert "At its most it held 1.05 MB beyond" in " ".join(" ".join(Page(whole).data).split())


def test_lines_have_shares_of_the_whole(whole, quick_ceilings):
    document = shown.document(quick_ceilings("serial"))
    kernels = [k for part in document["parts"] for r in part["results"] for k in r["roof"]["kernels"]]
    for kernel in kernels:
        assert sum(kernel["shares"].values()) == pytest.approx(1.0) and set(kernel["shares"]) <= set(
            kernel["lines"]
        )
    (axpy,) = [k for k in document["parts"][0]["results"][0]["roof"]["kernels"] if k["label"] == "axpy"]
    (place,) = axpy["shares"]
    assert axpy["source"][place].strip() == "y[i] += a * x[i]" and len(axpy["source"]) >= 2, (
        "the kernel's own text is whole"
    )
    assert re.search(r'<td class="number">100%</td><td><code>    y\[i\] \+= a \* x\[i\]</code>', whole)


def test_axes_of_rows_leave_kernels_of_a_call_to_the_small_plots(quick_ceilings):
    """A kernel with a millionth of the work does not leave half of the large plot empty."""
    document = shown.document(quick_ceilings("serial"))
    for result in document["parts"][0]["results"]:
        kernel = result["roof"]["kernels"][0]
        slow = kernel | {"seconds": 1e6 * kernel["seconds"], "share_of_time": 0.2}
        result["roof"]["kernels"] = [kernel, slow]
    (part, *_) = rows.parts_of(document)
    (view, *_) = part.axes
    assert part.inner[view].y0 <= part.axes[view].y0 - 5 and part.inner[view].y1 == part.axes[view].y1


def test_a_roofs_name_is_where_no_other_roof_goes_through(quick_ceilings):
    """The rates are fixed: where roofs lie close to each other, no place is free."""
    own = copy.deepcopy(quick_ceilings("serial"))
    rates = {
        "float64": 4e9,
        "float32": 1e10,
        "L1": 2e11,
        "L2": 8e10,
        "L3": 3e10,
        "DRAM": 1e10,
        "no fma float64": 2e9,
    }
    own.items.update(
        {
            n: dataclasses.replace(c, rate=Samples((rates[k],), 1))
            for n, c in own.items.items()
            for k in rates
            if n.endswith(k)
        }
    )
    part = rows.parts_of(shown.document(own))[0]
    (axes, *_) = (one.sized(roofplot.WIDE) for one in part.axes.values())
    ends = list(axes.ends())
    for (text, *_), (_, x, y, turn) in zip(ends, axes.labels(roofplot.Room(axes.size)), strict=True):
        if not turn:
            others = [p for own, _, *line in ends if own != text for p in roofplot._points(*line, 1000)]
            assert roofplot._crossings([(x, y - 8, x + 5 * len(text), y)], others) == 0
