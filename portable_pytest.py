"""pytest --portable-check: a project's own tests, with every launch on the host watched by the checked space.
pytest --portable-debug: the same with every launch in its debug build, on every space.

A module of its own, since pytest loads it in every run: nothing of the layer is imported before an option
asks for it.
"""

import pytest

_TOTALS = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("portable")
    group.addoption(
        "--portable-check",
        action="store_true",
        help=(
            "run kernels in the checked space; a test fails on a race, on divergence at a barrier, or on an"
            " index out of bounds"
        ),
    )
    group.addoption(
        "--portable-check-seed",
        type=int,
        default=0,
        metavar="N",
        help="the schedule of --portable-check (default 0)",
    )

    group.addoption(
        "--portable-debug",
        action="store_true",
        help=(
            "run kernels in their debug build; a test fails on an index out of bounds, on a "
            "division of integers by zero or on a shift by a negative count"
        ),
    )
    group.addoption(
        "--portable-debug-nan",
        action="store_true",
        help="the same, and on an operation that makes NaN from numbers",
    )


def pytest_configure(config):
    if config.getoption("portable_check") and (
        config.getoption("portable_debug") or config.getoption("portable_debug_nan")
    ):
        raise pytest.UsageError("--portable-check and --portable-debug exclude each other")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    nan = item.config.getoption("portable_debug_nan")
    if nan or item.config.getoption("portable_debug"):
        from portable.core.places import space

        with space.use(debug="nan" if nan else True):
            return (yield)
    if not item.config.getoption("portable_check"):
        return (yield)
    from portable import testing

    totals = item.config.stash.setdefault(_TOTALS, {"checked": 0, "elsewhere": 0})
    with testing.watching(item.config.getoption("portable_check_seed")) as launches:
        result = yield
    for where, n in launches.items():
        totals[where] += n
    return result


def pytest_terminal_summary(terminalreporter, config):
    totals = config.stash.get(_TOTALS, None)
    if totals is not None:
        elsewhere = f", {totals['elsewhere']} on a GPU or in captures were not" if totals["elsewhere"] else ""
        terminalreporter.write_line(
            f"portable-check: {totals['checked']} launches were watched{elsewhere} "
            f"(seed {config.getoption('portable_check_seed')})"
        )
