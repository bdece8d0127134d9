"""Made-up results, for tests of their display."""

from portable.roofline.documents import document
from portable.roofline.reporting import Failure, Report, Result
from portable.roofline.timing import Samples

MARKUP = '<script>alert("x")</script> & <b>'


def machine(**changes):
    facts = {
        "date": "2026-01-01T00:00:00+00:00",
        "system": "Linux",
        "cpu": "A processor",
        "cpu_id": None,
        "cores": 2,
        "busy_cores": 0.0,
        "space": "threads",
        "device": None,
        "python": "3.12.0",
        "versions": {"numpy": "2.4.0"},
    }
    return facts | changes


def result(method="all pairs", seconds=(0.010, 0.011, 0.012), source="simulated", value=-12.5, size=10_000):
    return Result("fake", method, source, size, "events", "threads", Samples(tuple(seconds)), value)


def report(*results, failures=(), **changes):
    return Report(
        "threads", machine(**changes), list(results), [Failure("fake", *failure) for failure in failures]
    )


def saved(*results, **options):
    """Return the document of a report."""
    return document([report(*results, **options).as_dict()])
