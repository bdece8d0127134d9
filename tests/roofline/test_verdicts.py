"""Test the figures in words, and their display on the page."""

import copy
import dataclasses
import re

import numpy as np
import pytest

import portable as pk
from portable import roofline
from portable.roofline import html
from portable.roofline.attainable import Analysis, Bound
from portable.roofline.cases import layer
from portable.roofline.rows import parts_of, rows_of
from portable.roofline.verdicts import advice, resource, standing, verdict
from tests.roofline import fakes, shown


@pytest.fixture(scope="module")
def counts():
    with pk.use("serial"):
        return roofline.count(1000, layer.axpy, 2.0, np.ones(1000), np.ones(1000))


@pytest.fixture
def result(counts):
    """Return a result that took 10 ms, bound by one launch of given times."""

    def made(wants, method="axpy", inside=0.01, special=0.0, **changes):
        bound = Bound(
            dict(sorted(({"arithmetic": 0.0} | wants).items(), key=lambda item: -item[1])), "L2", special
        )
        launch = "axpy", dataclasses.replace(counts, **changes), bound, inside
        return dataclasses.replace(fakes.result(method), roof=Analysis(0.01, [launch], []))

    return made


@pytest.mark.parametrize(
    ("wants", "words"),
    [
        (
            {"arithmetic": 0.002, "memory L2": 0.001},
            "its arithmetic would take 2.00 ms, so it could be up to 5 times as fast",
        ),
        (
            {"arithmetic": 0.001, "memory L2": 0.009},
            "is at its roof: 10.0 ms, 90% of what moving its data through L2 allows",
        ),
        ({"arithmetic": 0.02}, "faster than its measured roof"),
    ],
)
def test_a_verdict_names_what_bounds_and_how_much_is_left(result, wants, words):
    assert words in verdict(result(wants))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wants": {"memory L2": 0.009, "arithmetic": 0.001}}, "only fewer bytes help"),
        ({"wants": {"arithmetic": 0.004}, "special": 0.003}, "75% of its arithmetic is special functions"),
        ({"wants": {"arithmetic": 0.006}}, "float32, where its digits are enough"),
    ],
)
def test_advice_names_its_evidence(result, changes, words):
    assert any(words in sentence for sentence in advice(result(changes.pop("wants"), **changes)))


def test_every_resource_has_words(counts, quick_ceilings):
    bound = roofline.attainable.bound(counts, quick_ceilings("serial"))
    assert all(re.fullmatch(r"[\w' ]+", resource(name)) for name in bound.wants)


def test_the_median_share_is_told_and_each_row_far_below_with_its_reason(quick_ceilings):
    """Shares are set in the test; the lowest comes first, and a single row has no median."""
    document = shown.document(quick_ceilings("serial"))
    del document["parts"][1:]
    (part,) = document["parts"]
    part["results"] = [copy.deepcopy(part["results"][0]) for _ in range(5)]
    for k, (result, share) in enumerate(zip(part["results"], (0.5, 0.099, 0.004, 0.2, 0.1), strict=True)):
        roof = result["roof"]
        result["method"], roof["share_of_attainable"] = f"method {k}", share
        roof["reason"] = {"text": f"Reason {k}.", "causes": []}
    assert standing(rows_of(parts_of(document))) == [
        "Median share of the roof 10% of 5 rows, 2 below 10%:",
        "No. 3, method 2, 0.4%: Reason 2.",
        "No. 2, method 1, 9.9%: Reason 1.",
    ]
    assert "Their median share of the roof is 10%; 2 are below 10%." in " ".join(html.page(document).split())
    part["results"] = part["results"][:1]
    assert standing(rows_of(parts_of(document))) == []
    assert "median share" not in html.page(document)
