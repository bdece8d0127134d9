"""Test the comparison of two reports, before and after."""

import dataclasses
import json
from html import unescape
from xml.etree import ElementTree

import pytest

from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import diff, documents, reporting
from tests.roofline import fakes, shown
from tests.roofline.test_html import Page


def saved(tmp_path, name, *results, **machine):
    path = tmp_path / name
    path.write_text(json.dumps(fakes.saved(*results, **machine)))
    return str(path)


STEADY = (0.0100, 0.0101, 0.0102)


@pytest.mark.parametrize(
    ("after", "verdict", "code"),
    [
        (STEADY, "same", 0),
        ((0.0103, 0.0104, 0.0105), "same", 0),  # apart, but only by 3 %
        ((0.0090, 0.0110, 0.0150), "same", 0),  # medians far apart, but the quartiles overlap
        ((0.0120, 0.0121, 0.0122), "slower", 1),
        ((0.0080, 0.0081, 0.0082), "faster", 0),
    ],
)
def test_a_change_counts_beyond_the_spread(tmp_path, told, after, verdict, code):
    paths = [
        saved(tmp_path, "a", fakes.result(seconds=STEADY)),
        saved(tmp_path, "b", fakes.result(seconds=after)),
    ]
    (change,) = diff.changes(*map(diff.read, paths))
    assert change.verdict == verdict and change.speedup == pytest.approx(0.0101 / sorted(after)[1])
    assert cli.main(["diff", *paths]) == code
    assert verdict in told.out


def test_a_busy_machine_decides_nothing(tmp_path, told):
    paths = [saved(tmp_path, "a", fakes.result(seconds=STEADY)), str(tmp_path / "b")]
    slow = fakes.result(seconds=[3 * s for s in STEADY])
    saved(tmp_path, "b", slow, busy_cores=2.0)
    assert cli.main(["diff", *paths]) == 0 and "not decided" in told.out


def test_methods_of_one_report_are_told_and_no_regression(tmp_path, told):
    paths = [
        saved(tmp_path, "a", fakes.result("old"), fakes.result("both")),
        saved(tmp_path, "b", fakes.result("both"), fakes.result("fresh")),
    ]
    assert {c.method: c.verdict for c in diff.changes(*map(diff.read, paths))} == {
        "old": "gone",
        "both": "same",
        "fresh": "new",
    }
    assert cli.main(["diff", *paths]) == 0
    assert "gone" in told.out


def test_reports_with_nothing_in_common_are_refused(tmp_path, told):
    paths = [saved(tmp_path, name, fakes.result(method=name, seconds=STEADY)) for name in "ab"]
    assert cli.main(["diff", *paths]) == 2 and "nothing to compare" in told.err


def test_the_worst_stands_first(tmp_path):
    before = saved(tmp_path, "a", *(fakes.result(name, seconds=STEADY) for name in "abc"))
    after = saved(
        tmp_path,
        "b",
        *(
            fakes.result(name, seconds=[f * s for s in STEADY])
            for name, f in zip("abc", (1, 3, 2), strict=True)
        ),
    )
    assert [c.method for c in diff.changes(diff.read(before), diff.read(after))] == ["b", "c", "a"]


def test_what_the_clock_did_not_tell_is_no_change(tmp_path):
    paths = [
        saved(tmp_path, name, fakes.result(seconds=seconds))
        for name, seconds in (("a", STEADY), ("b", (0.0,) * 3))
    ]
    for before, after in (paths, paths[::-1]):
        (change,) = diff.changes(diff.read(before), diff.read(after))
        assert (change.verdict, change.speedup) == ("too short to time", None)
    assert cli.main(["diff", *paths]) == 0


def test_launches_of_one_name_and_size_are_told_apart_by_their_work(tmp_path):
    """A program's report lists its most expensive launches first, and these may change."""
    paths = []
    for name, order in (("a", (1, 2)), ("b", (2, 1))):
        document = fakes.saved(*(fakes.result(seconds=[work * s for s in STEADY]) for work in order))
        for result, work in zip(document["parts"][0]["results"], order, strict=True):
            result["roof"] = {"compulsory_bytes": 8 * work, "flops": work}
        (tmp_path / name).write_text(json.dumps(document))
        paths.append(str(tmp_path / name))
    assert [(c.method, c.verdict) for c in diff.changes(*map(diff.read, paths))] == [
        ("all pairs", "same"),
        ("all pairs (2)", "same"),
    ]


def test_other_machines_are_refused_unless_asked_for(tmp_path, told):
    paths = [saved(tmp_path, "a", fakes.result()), saved(tmp_path, "b", fakes.result(), cpu="Another")]
    with pytest.raises(InputError, match="different machines .cpu: A processor and Another."):
        diff.changes(*map(diff.read, paths))
    assert cli.main(["diff", *paths]) == 2 and "--across" in told.err
    assert cli.main(["diff", "--across", *paths]) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("{", "no JSON"),
        ("[1]", "no report"),
        ('{"schema": "roofline-compare"}', "no report"),
        ('{"schema": "roofline-report", "schema_version": 1}', "version 1"),
        ('{"schema": "roofline-report", "schema_version": 3}', "damaged"),
        (
            '{"schema": "roofline-report", "schema_version": 3, "parts": [{"results": [{}], "machine": {}}]}',
            "damaged",
        ),
        (
            (
                '{"schema": "roofline-report", "schema_version": 3, "parts": [{"results": [], "space":'
                ' "serial", "machine": {}}]}'
            ),
            "damaged",
        ),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, told, text, words):
    path = tmp_path / "file.json"
    if text is not None:
        path.write_text(text)
    good = saved(tmp_path, "good", fakes.result())
    assert cli.main(["diff", str(path), good]) == 2
    assert words in told.err


def of_two_spaces(quick_ceilings):
    """Make two reports of one part each: of serial, and of threads."""
    document = shown.document(quick_ceilings("serial"))
    return [document | {"parts": [part]} for part in document["parts"]]


def test_what_moved_is_told_in_words(tmp_path, quick_ceilings, told):
    """The scalar product replaces axpy: other counts, another kernel, twice as fast."""
    ceilings, paths = quick_ceilings("serial"), []
    for name, kernel, slow in (("a", "axpy", 8.0), ("b", "dot", 2.0)):
        part = reporting.Report(
            "serial",
            fakes.machine(space="serial"),
            [shown.result(ceilings, "sum", [kernel], slow)],
            ceilings=ceilings,
        )
        (tmp_path / name).write_text(json.dumps(documents.document([part.as_dict()])))
        paths.append(str(tmp_path / name))
    assert cli.main(["diff", *paths, *f"--out {tmp_path}/page.html --svg {tmp_path}/plot.svg".split()]) == 0
    out, page = told.out, (tmp_path / "page.html").read_text()
    for wanted in (
        "sum: At 12% of its roof before, at 50% now.",
        "Bytes that must be moved: 98.3 kB before, 65.5 kB now.",
        "Its kernels, no longer: axpy; new: dot.",
        "Of 1 method: 1 faster.",
    ):
        assert wanted in out and unescape(wanted.removeprefix("sum: ")) in " ".join(Page(page).data)
    assert "y[i] += a * x[i]" in page and "return x[i] * y[i]" in page, "lines of both"
    marks = ElementTree.parse(tmp_path / "plot.svg").findall(".//*[@class='moved']")
    assert len(marks) == 1 and page.count('class="moved"') == 2, "wide and narrow"


def test_two_spaces_stand_in_one_plot(tmp_path, quick_ceilings, told):
    paths = []
    for k, document in enumerate(of_two_spaces(quick_ceilings)):
        (tmp_path / str(k)).write_text(json.dumps(document))
        paths.append(str(tmp_path / str(k)))
    assert cli.main(["diff", *paths]) == 2 and "--across" in told.err
    assert cli.main([*"diff --across".split(), *paths, *f"--out {tmp_path}/page.html".split()]) in (0, 1)
    found = diff.changes(*map(diff.read, paths), across=True)
    assert {c.space for c in found} == {"serial and threads"} and all(c.before and c.after for c in found)
    page = (tmp_path / "page.html").read_text()
    assert page.count('class="moved"') == 2 * len(found) and 'class="roof was"' in page
    assert "serial (axpy, 2 cores): L1" in page and "threads (axpy, 2 cores): L1" in page


def test_one_kernel_on_another_input_is_compared_and_never_slower(tmp_path):
    """All launches of a program are compared."""
    paths = []
    for name, size, seconds in (("a", 10, (1e-3,) * 100), ("b", 1000, (5e-2,) * 3)):
        result = dataclasses.replace(fakes.result("k", seconds=seconds, size=size), case="script")
        paths.append(saved(tmp_path, name, result))
    (change,) = diff.changes(*map(diff.read, paths))
    assert (change.verdict, change.speedup) == (
        "other input",
        pytest.approx(0.1 / 0.15),
    ) and change.launches == (100, 3)
    assert cli.main(["diff", *paths]) == 0


def test_the_same_report_twice_is_the_same(tmp_path, quick_ceilings, told):
    document = of_two_spaces(quick_ceilings)[0]
    (tmp_path / "a").write_text(json.dumps(document))
    assert cli.main(["diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    out = told.out
    assert "6 same." in out and "changed most" not in out
