"""Test the collection of results: a failure or an interruption affects only its own method."""

import dataclasses
import functools
import io
import json

import numpy as np
from rich.console import Console

import portable as pk
from portable.roofline.cases import layer
from portable.roofline.contract import Run
from portable.roofline.documents import SCHEMA_VERSION
from portable.roofline.reporting import collect
from portable.roofline.tables import tables
from portable.roofline.timing import Samples
from tests.roofline import fakes


def run(method, call=lambda: 1.5):
    return "fake", Run(method, "simulated", 100, "events", call)


def raising(error):
    def call():
        raise error

    return call


def test_every_run_is_timed_and_its_value_kept():
    report, started = fakes.report(), []
    collect(report, [run("a"), run("b", lambda: -2.0)], on_start=lambda *told: started.append(told))
    assert [(r.method, r.value, r.size) for r in report.results] == [("a", 1.5, 100), ("b", -2.0, 100)]
    assert all(r.seconds.median > 0 for r in report.results)
    assert started == [("a", 0), ("b", 1)]


def test_a_failing_run_is_listed_and_the_others_go_on():
    report = fakes.report()
    collect(report, [run("bad", raising(ValueError("broken\nbadly"))), run("good")])
    assert [r.method for r in report.results] == ["good"]
    assert [(f.method, f.message) for f in report.failures] == [("bad", "ValueError: broken")]


def test_an_interruption_keeps_what_was_measured():
    report = fakes.report()
    collect(report, [run("a"), run("b", raising(KeyboardInterrupt())), run("c")])
    assert [r.method for r in report.results] == ["a"]
    assert report.interrupted and not report.failures


def test_table_has_a_row_a_run():
    text = io.StringIO()
    (table,) = tables(fakes.saved(fakes.result("one"), fakes.result("two")))
    Console(file=text, width=200).print(table)
    rows = [line for line in text.getvalue().splitlines() if "simulated" in line]
    assert len(rows) == 2
    assert all(
        word in rows[0] for word in ("one", "10,000", "threads", "11.0 ms", "10.5 ms to 11.5 ms", "-12.5")
    )


def test_json_states_its_schema_and_holds_every_sample():
    document = json.loads(json.dumps(fakes.saved(fakes.result(), failures=[("bad", "why")])))
    assert (document["schema"], document["schema_version"]) == ("roofline-report", SCHEMA_VERSION)
    (part,) = document["parts"]
    assert part["machine"]["cores"] == 2
    (result,) = part["results"]
    assert result["seconds"]["values"] == [0.010, 0.011, 0.012]
    assert part["failures"] == [{"case": "fake", "method": "bad", "message": "why"}]


def test_what_was_faster_than_its_roof_has_the_roof_measured_again(quick_ceilings):
    """All rows are compared with the new roof, since the machine is the same."""
    x, y, asked = np.ones(1000), np.ones(1000), []
    slow = slowed(quick_ceilings("serial"), 1e4)
    call = functools.partial(pk.parallel_for, pk.RangePolicy(0, 1000, space="serial"), layer.axpy, 2.0, x, y)
    report = fakes.report()

    def roofs(space, special, again=False):
        asked.append(again)
        return slowed(slow, 1e-5) if again else slow

    collect(report, [("fake", Run("axpy", "simulated", 1000, "elements", call))] * 2, ceilings=roofs)
    assert asked == [False, False, True]
    assert all(r.roof.share <= 1.1 and r.reason for r in report.results)


def slowed(ceilings, factor):
    """Return a machine whose rates are lower by a factor."""
    items = {
        name: dataclasses.replace(
            c, rate=Samples(tuple(v * factor if c.unit == "s" else v / factor for v in c.rate.values))
        )
        for name, c in ceilings.items.items()
    }
    return dataclasses.replace(ceilings, items=items)
