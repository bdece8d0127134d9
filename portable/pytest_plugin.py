"""pytest --portable-check: a project's own tests, with every launch on the host watched by the checked space."""

import pytest

from . import testing

_TOTALS = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("portable")
    group.addoption("--portable-check", action="store_true",
                    help="run kernels in the checked space; a test fails where one races, diverges or leaves its arrays")
    group.addoption("--portable-check-seed", type=int, default=0, metavar="N", help="the schedule of --portable-check (default 0)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if not item.config.getoption("portable_check"):
        return (yield)
    totals = item.config.stash.setdefault(_TOTALS, {"checked": 0, "elsewhere": 0})
    with testing.watching(item.config.getoption("portable_check_seed")) as launches:
        result = yield
    for where, n in launches.items():
        totals[where] += n
    return result


def pytest_terminal_summary(terminalreporter, config):
    totals = config.stash.get(_TOTALS, None)
    if totals is not None:
        elsewhere = f", {totals['elsewhere']} on a GPU were not" if totals["elsewhere"] else ""
        terminalreporter.write_line(f"portable-check: {totals['checked']} launches were watched{elsewhere} "
                                    f"(seed {config.getoption('portable_check_seed')})")
