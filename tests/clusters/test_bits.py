"""Test that results have the same bits for any number of workers, on several spaces, in one process, and
after a worker is killed."""

import os
import signal
import time

import numpy as np
import psutil
import pytest
from numpy.random import default_rng

import portable as pk
from portable.models.shared import cluster, sharding, store
from portable.models import hawkes, resampling
from portable.models.hawkes.__main__ import main

from . import jobs

KILLED_IN = 4  # number of the call in which a worker is killed: data have arrived, and work continues
SOONER = {
    "mixture_predict": 1,
    "tmap_standard_errors": 2,
    "edm_cross_map": 1,
    "edm_ccm": 1,
    "filter_banks": 1,
}  # jobs with fewer calls


@pytest.fixture(autouse=True)
def small(monkeypatch):
    jobs.small_shards(monkeypatch)


@pytest.fixture(scope="module")
def wanted():
    """Return the results of this process without a cluster, each computed once."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = jobs.JOBS[name]()
        return found[name]

    return of


def equal(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", jobs.JOBS)
@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
def test_number_of_workers(cluster_of, wanted, name, n_workers):
    equal(jobs.JOBS[name](client=cluster_of(n_workers)), wanted(name))


@pytest.mark.parametrize("name", jobs.JOBS)
def test_several_spaces_of_one_process(wanted, name):
    equal(jobs.JOBS[name](space=["serial", "threads:1", "threads:2"]), wanted(name))


@pytest.mark.parametrize("name", jobs.JOBS)
def test_several_spaces_by_one_thread(wanted, name, monkeypatch):
    """Launches of several GPUs are queued: sums are added in the first space."""
    monkeypatch.setattr(pk, "queued", lambda space: True)
    equal(jobs.JOBS[name](space=["serial", "threads:1", "threads:2"]), wanted(name))


@pytest.mark.parametrize("name", jobs.JOBS)
def test_a_worker_that_is_killed(processes, wanted, name):
    """A worker is killed by SIGKILL in the middle of its work; its data are sent to other workers."""
    victim = _doomed(processes, name)
    equal(jobs.JOBS[name](client=processes), wanted(name))
    assert victim not in processes.nthreads()


@pytest.mark.parametrize("name", ["mixture_fit", "edm_cross_map"])
def test_a_worker_that_is_asked_directly_is_killed(processes, directly, wanted, name):
    victim = _doomed(processes, name)
    equal(jobs.JOBS[name](client=directly), wanted(name))
    assert victim not in processes.nthreads()


def _doomed(client, name):
    """Return the older of two workers, and have it end in the middle of a job: dask does not restart a worker
    that ends while it is reporting its start."""
    started = _both(client)
    victim = min(started, key=started.get)
    client.run(_die, SOONER.get(name, KILLED_IN), workers=[victim])
    return victim


def _both(client, patience_s=300.0):
    """Wait until two workers answer, and return the times at which they began.

    A worker that has just ended may still be listed; dask forgets a worker that ends during its start, so
    that another one is requested.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            client.wait_for_workers(2, timeout=10)
            return client.run(_started)
        except TimeoutError:
            client.cluster.scale(len(client.cluster.worker_spec) + 1)
        except OSError:
            time.sleep(0.2)
        assert time.monotonic() < until


def _started():
    """Return the time at which the worker's process began."""
    return psutil.Process().create_time()


def _die(after):
    """End the worker's process in the middle of the call of that number."""
    run, left = sharding.Place.run, [after]

    def killed(self, *args):
        left[0] -= 1
        found = run(self, *args)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    sharding.Place.run = killed


def test_chains_that_go_on_elsewhere(tmp_path, monkeypatch):
    """Continue from a checkpoint with another number of places, after each check of the chains: the draws are
    those of one run.
    """
    monkeypatch.setattr(store, "EVERY_S", 0.0)
    monkeypatch.setattr(store, "_SHARE", 0)
    how = {"n_chains": 3, "n_warmup": 0, "start": jobs.PARAMS, "seed": 4}
    one, three = (jobs.shared_likelihood(120, {"space": ["serial"] * n}) for n in (1, 3))
    whole = hawkes.sample_posterior(one, n_draws=400, **how)
    hawkes.sample_posterior(one, n_draws=150, checkpoint=tmp_path / "hawkes", **how)
    found = hawkes.sample_posterior(three, n_draws=400, checkpoint=tmp_path / "hawkes", **how)
    equal([found.draws, found.log_likelihood], [whole.draws, whole.log_likelihood])
    for sample in (resampling.sample_pmmh, resampling.sample_gibbs):
        path = {"checkpoint": tmp_path / sample.__name__}
        jobs.drawn(sample, 3, {"space": ["serial"] * 2}, **path)
        equal(jobs.drawn(sample, 9, {"space": ["serial"] * 3}, **path), jobs.drawn(sample, 9, {}))


def test_the_command_of_a_fit(cluster_of, tmp_path, capsys):
    """`--cluster` distributes the chains of Algorithm 1, too."""
    random, path = default_rng(3), tmp_path / "events.csv"
    rows = np.column_stack([random.normal(size=(60, 2)), np.sort(random.uniform(0.0, 1000.0, 60))])
    path.write_text("x_km,y_km,t_hours\n" + "\n".join(",".join(map(repr, row)) for row in rows.tolist()))
    common = ["fit", str(path), *"--draws 40 --warmup 10 --figures none --space serial".split()]
    common += ["--background", "paper"]
    found = []
    for n_workers in (1, 3):
        address = cluster_of(n_workers).scheduler_info(n_workers=-1)["address"]
        where = ["--out", str(tmp_path / str(n_workers)), "--cluster", address]
        assert main([*common, *where]) == 0, capsys.readouterr().err
        found.append(hawkes.Posterior.load(tmp_path / str(n_workers) / "posterior.nc").draws)
    equal(found[:1], found[1:])


class Sleeper:
    """Method whose first shard takes longer than the others."""

    def __init__(self, space):
        pass

    def prepare(self, piece):
        return piece

    def slept(self, shards, seconds):
        for piece in shards:
            time.sleep(seconds * piece[0])
            yield (piece,)


@pytest.mark.parametrize("patience_s, reached", [(30.0, True), (0.0, False)])
def test_workers_are_asked_directly_where_they_answer(cluster_of, monkeypatch, wanted, patience_s, reached):
    monkeypatch.setattr(cluster, "_REACH_S", patience_s)
    with cluster.connect(cluster_of(2).scheduler_info(n_workers=-1)["address"]) as client:
        assert client.direct_to_workers is reached
        equal(jobs.JOBS["tmap_fit"](client=client), wanted("tmap_fit"))


def test_the_slowest_worker_is_watched(cluster_of):
    pieces = [np.array([1.0]), np.array([0.1])]
    shards = sharding.Shards(Sleeper, pieces, client=cluster_of(2), label="sleeper")
    shards.reduce("slept", 0.0)
    with cluster.watched() as seconds:
        for _ in range(2):
            shards.reduce("slept", 0.2)
    assert len(seconds) == 2 and min(seconds) >= 0.2
    shards.reduce("slept", 0.0)
    assert len(seconds) == 2


def test_sums_do_not_depend_on_who_adds_them():
    """Add numbers whose sum depends on the order, for every division of 1 to 20 shards into two or three
    parts.
    """
    random = default_rng(0)
    for n in range(1, 21):
        values = [(v, np.array([v, -v])) for v in random.normal(size=n) * 10.0 ** random.integers(-8, 8, n)]
        whole, vector = sharding.total(sharding.nodes(values, 0, n))
        np.testing.assert_allclose(whole, sum(v for v, _ in values), rtol=1e-9)
        for a in range(n):
            for b in range(a, n):
                parts = [
                    node
                    for first, last in ((0, a), (a, b), (b, n))
                    for node in sharding.nodes(values[first:last], first, n)
                ]
                assert sharding.total(parts)[0] == whole and len(sharding.nodes(values[a:b], a, n)) <= 10
