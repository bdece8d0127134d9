"""Make a report with everything that a page can contain: kernels with and without floating-point work, of two
spaces, with hostile names."""

import functools

import numpy as np

import portable as pk
from portable import roofline
from portable.roofline import documents, reporting
from portable.roofline.attainable import Analysis, bound
from portable.roofline.cases import layer
from portable.roofline.reasons import reasons_of
from portable.roofline.timing import Samples
from tests.roofline import fakes

N = 4096


@pk.kernel
def copy(i, x, y):
    y[i] = x[i]


@functools.cache
def counted():
    """Return counts of a few kernels, by name."""
    x, y = np.linspace(0.0, 1.0, N), np.ones(N)
    with pk.use("serial"):
        return {
            "axpy": roofline.count(N, layer.axpy, 2.0, x, y),
            "dot": roofline.count(N, layer.product, x, y, reducer=pk.Sum),
            "histogram": roofline.count(
                N, layer.count, np.arange(N, dtype=np.int32) % layer.BINS, np.zeros(layer.BINS, np.int32)
            ),
            "copy": roofline.count(N, copy, x, y),
        }


def result(ceilings, method, kernels, slow=2.0, case="fake", size=N, space="serial", source="simulated"):
    """Return a result whose kernels take `slow` times their least time, and its reason."""
    launches = [
        (
            name,
            counted()[name],
            bound(counted()[name], ceilings),
            slow * bound(counted()[name], ceilings).seconds,
        )
        for name in kernels
    ]
    seconds = Samples(tuple(f * sum(s for *_, s in launches) for f in (0.98, 1.0, 1.05)))
    roof = Analysis(
        seconds.median, launches, [], ceilings=ceilings, copies=0.1 * seconds.median, memory=1 << 20
    )
    made = fakes.result(method, seconds=seconds.values, size=size, source=source)
    why, each = reasons_of(roof, ceilings, seconds)
    about = {"case": case, "space": space, "roof": roof, "reason": why, "reasons": each}
    return type(made)(**{**vars(made), **about})


def document(ceilings, name="axpy", parts=2):
    """Return a document of a call of two kernels, others without floating-point work, and a sweep."""
    found = []
    for k in range(parts):
        space = ("serial", "threads")[k]
        results = [
            result(ceilings, name, ["axpy", "dot"], slow=1.1, source=name, space=space),
            result(ceilings, "histogram", ["histogram"], slow=4.0, space=space),
            result(ceilings, "copy", ["copy"], slow=2.5, space=space),
            *(result(ceilings, "swept", ["dot"], slow=9.0 / e, size=10**e, space=space) for e in (3, 4, 5)),
        ]
        part = reporting.Report(
            space, fakes.machine(space=space, cpu=name), results, [reporting.Failure("fake", name, name)]
        )
        part.ceilings = ceilings
        found.append(part.as_dict())
    return documents.document(found)
