"""The `space` fixture: every conformance and model test is a function of the space and runs on each one
present.

PORTABLE_TEST_SPACES names the spaces, for example "serial,cuda"; tests on a named space that cannot run here
FAIL. Without it every space that can run here is tested; the head of pytest's report lists these, and the
reason why cuda is missing if there is no device.

Long tests with many parameters run completely if the command line names their file or folder, as in `python
-m pytest tests/clusters`; a run of all tests takes every N-th of them. They are marked slow, and `-m "not
slow"` leaves all of them out.
"""

import contextlib
import gc
import os
import signal
from pathlib import Path

import hypothesis
import pytest

import portable as pk
from portable.core import locks
from portable.core.places.space import unavailable_because

hypothesis.settings.register_profile(
    "busy", suppress_health_check=[hypothesis.HealthCheck.too_slow], deadline=None
)
hypothesis.settings.load_profile("busy")  # machines under load draw slowly

# Programs that tests start would compile the project again, each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
locks.SLOW = float("inf")  # no note on standard error where a busy machine compiles slowly
# NumPy's BLAS waits in loops for threads that have no core: two processes share the cores already.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ASKED = [name.strip() for name in os.environ.get("PORTABLE_TEST_SPACES", "").split(",") if name.strip()]
NO_CUDA = None if ASKED else unavailable_because("cuda")
# Make no tests for a missing device: thousands would be collected, distributed and skipped.
SPACES = ASKED or ["checked", "serial", "threads", *([] if NO_CUDA else ["cuda"])]


def pytest_report_header():
    return f"spaces: {', '.join(SPACES)}" + (f" (no CUDA device: {NO_CUDA})" if NO_CUDA else "")


def space_fixture(names, default=False):
    """Return a fixture that runs a test on each space of these names, which must be available if it was asked
    for; with `default` it is the space of launches that name none."""

    @pytest.fixture(params=names)
    def space(request):
        """Yield the name of an execution space that can run here."""
        reason = unavailable_because(request.param)
        if reason is not None:
            pytest.fail(f"PORTABLE_TEST_SPACES asks for {request.param}: {reason}")
        with pk.use(request.param) if default else contextlib.nullcontext():
            yield request.param

    return space


space = space_fixture(SPACES)


@pytest.fixture(scope="module")
def serial():
    """Make the serial space that of launches that name none."""
    with pk.use("serial"):
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process a part of the tests that lie together, of which another one takes over half as soon
    as it has none left: neighbours share kernels, which are compiled twice if two processes need them at a
    time."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


class Told:
    """All that was printed since the last look, on one line: `out` and `err`."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __getattr__(self, name):
        return " ".join(getattr(self._capsys.readouterr(), name).split())


@pytest.fixture
def told(capsys):
    return Told(capsys)


@pytest.fixture
def impatient():
    """Interrupt system calls that block for ever, such as opening a pipe without a writer, after ten
    seconds."""

    def fail(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# Folders of tests/: every N-th test of a file, or of a function; with 0 none, unless the file itself is
# named. All are marked slow.
SAMPLED = """
checked/test_models.py 8
clusters/ 10
hostile/test_attacks.py::test_attack 9
hostile/test_long_jobs_store.py::test_killed 2
conformance/test_step35_products.py::test_products_of_all 60
derivatives/test_adjoints.py::test_all_traps 3
derivatives/test_traps.py::test_traps 6
docs/test_coming_from.py::test_both_sides_agree 5
docs/test_pages.py::test_a_page_runs 7
docs/test_notebooks.py::test_a_notebook_runs 4
docs/test_site.py::test_every_picture 4
docs/test_site.py::test_the_site_builds 1
examples/test_fields.py::test_an_example_lowers 3
platforms/test_own_data.py::test_a_step 6
platforms/ 3
models/test_papers.py 7
models/hawkes/test_compose.py::test_likelihood_and_gradient 3
models/hawkes/test_round_trip.py::test_commands 0
models/mixture/test_cytometry_odd.py::test_mutants 2
models/mixture/test_degenerate.py 30
models/mixture/test_fit.py::test_estimator_checks 4
models/mixture/test_posterior.py::test_simulation_based 3
models/mixture/test_shapes.py::test_the_right 3
models/mixture/test_sums.py::test_members_with_one_place 4
models/resampling/test_bad_input.py::test_weights 5
models/resampling/test_examples.py::test_it_checks 4
models/resampling/test_filter.py::test_resampling_from_log 9
models/resampling/test_nan.py::test_a_row 9
models/resampling/test_nan.py::test_every_scheme 5
models/resampling/test_ready.py::test_densities 3
models/resampling/test_ready.py::test_what_is_simulated 5
models/resampling/test_schemes.py 8
models/resampling/test_statistics.py::test_sums 5
models/test_posteriors.py::test_ctrl_c_leaves 2
numba/test_launches.py::test_every_route 5
roofline/test_defects.py::test_a_defect_is_found 0
roofline/test_cli.py::test_compare_has_a_row_a_peer 6
roofline/test_layer.py::test_peers_agree_with_numpy 3
roofline/test_peers.py::test_hawkes_peers_agree 4
""".split()
SAMPLED = dict(zip(SAMPLED[::2], map(int, SAMPLED[1::2])))
HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without garbage collection, which took a third of the time, and freeze all objects: they
    live until the end. Afterwards collect garbage at every 10,000 objects, not 700."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def past():
    """Freeze objects that a module's tests leave, mostly kernels and their trees: by the end of a run one
    collection took ten seconds."""
    yield
    gc.freeze()


def paths(config):
    """List the files and folders that the command line names."""
    folder = config.invocation_params.dir
    return [Path(folder, argument.partition("::")[0]).resolve() for argument in config.args]


@pytest.fixture
def named(request):
    """Return True if the command line names the test's file."""
    return request.path in paths(request.config)


def pytest_collection_modifyitems(config, items):
    """Keep a sample of the tests of SAMPLED, unless they are named on the command line."""
    asked = paths(config)
    seen, left_out = {}, set()
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        rule = next((rule for rule in SAMPLED if name.startswith(rule)), None)
        if rule is not None:
            item.add_marker(pytest.mark.slow)
        if rule is None or item.path in asked:
            continue
        if not SAMPLED[rule]:
            left_out.add(item)
            continue
        if any(at.is_relative_to(HERE) and at != HERE for at in asked if item.path.is_relative_to(at)):
            continue
        key = item.path, rule
        seen[key] = seen.get(key, -1) + 1
        if seen[key] % SAMPLED[rule]:
            left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    # mypy is one long test: last, it would leave the other processes without work
    items.sort(key=lambda item: item.path.parent.name != "typing")
