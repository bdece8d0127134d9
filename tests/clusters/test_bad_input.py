"""Test inputs that are refused by name before work begins, and the end of a run whose scheduler dies."""

import asyncio
import os
import signal
import time

import dask
import distributed
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from portable.models.shared import cluster, mapped, processes, sharding
from portable.models import edm, mixture, resampling, tmap
from portable.errors import ClusterError, DTypeError, FiniteError, InputError

from . import jobs


def test_what_is_no_client():
    for wrong in (7, "nearby", object()):
        with pytest.raises((DTypeError, InputError), match="client|cluster"):
            tmap.fit(jobs.runs(), orders=[1, 2], client=wrong)


def test_a_client_that_is_closed(cluster_of):
    client = distributed.Client(cluster_of(1).cluster, set_as_default=False)
    client.close()
    with pytest.raises(InputError, match="client is closed"):
        edm.cross_map(jobs.series(), 2, client=client)


def test_an_address_without_a_scheduler(monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)
    with pytest.raises(InputError, match="no scheduler answers at 'tcp://127.0.0.1:9'"):
        with cluster.connect("tcp://127.0.0.1:9"):
            pass


def test_workers_of_another_version(processes, monkeypatch):
    monkeypatch.setattr(cluster.pk, "__version__", "99.1")
    cluster._CHECKED.clear()
    with pytest.raises(ClusterError, match=r"worker tcp://.* has portable .*, this process 99.1"):
        tmap.fit(jobs.runs(), orders=[1, 2], client=processes)


def test_workers_without_the_space(processes):
    with pytest.raises(ClusterError, match=r"worker tcp://.* has no space 'cuda:7'"):
        tmap.fit(jobs.runs(), orders=[1, 2], client=processes, space="cuda:7")


def test_several_spaces_on_a_cluster(cluster_of):
    with pytest.raises(InputError, match="expected the name of one space"):
        mixture.DirichletMixture(2, space=["serial", "serial"]).fit(jobs.points(), client=cluster_of(1))


def test_filters_that_stay_together(cluster_of):
    """Rows too long for a team draw by their index within a launch of all filters, which therefore cannot be
    divided.
    """
    model = resampling.ready.linear_gaussian
    params = np.tile([0.9, 0.5, 0.7], (3, 1))
    for how, n, got in (
        ({}, 5000, "method 'systematic' with 5000 particles run"),
        ({"method": "stratified"}, 50, "method 'stratified' with 50 particles run"),
        ({"in_place": True}, 50, "50 particles in place run"),
    ):
        with pytest.raises(InputError, match=f"client: filters of .*{got} in one launch"):
            model.filter(**how).log_likelihood(jobs.observed(), n, params=params, client=cluster_of(1))
        with pytest.raises(InputError, match=f"space: filters of .*{got} in one launch"):
            model.filter(space=["serial", "serial"], **how).run(jobs.observed(), n, params=params)
    with pytest.raises(InputError, match="expected the name of one space"):
        resampling.sample_pmmh(
            model,
            jobs.observed(),
            20,
            **jobs.SAMPLED | {"space": ["serial", "serial"], "client": cluster_of(1)},
        )


def test_a_filter_is_named_by_its_number_among_all(cluster_of):
    model = resampling.ready.linear_gaussian
    params = np.tile([0.9, 0.5, 0.7], (6, 1))
    params[4, 2] = -0.7  # the logarithm of a standard deviation is NaN
    messages = []
    for client in (None, cluster_of(3)):
        with pytest.raises(FiniteError, match="step .* of filter 4") as caught:
            filters = model.filter(space="serial")
            filters.log_likelihood(jobs.observed(), 50, params=params, client=client, on_nan="raise")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_no_spaces():
    with pytest.raises(InputError, match="space is an empty list"):
        edm.cross_map(jobs.series(), 2, space=[])
    with pytest.raises(DTypeError, match="space must hold names of spaces, got int"):
        edm.cross_map(jobs.series(), 2, space=["serial", 3])


def test_what_does_not_pickle(cluster_of):
    with pytest.raises(DTypeError, match="the method cannot be pickled"):
        sharding.Shards((n for n in range(3)), [np.zeros(2)], client=cluster_of(1))
    client, odd = cluster_of(1), np.array([None], object)
    odd[0] = (n for n in range(3))
    with pytest.raises(DTypeError, match="shard 0 cannot be pickled"):
        sharding.Shards(Doubled, [odd], client=client)
    with pytest.raises(DTypeError, match="shard 1 cannot be pickled"):
        sharding.Shards(Doubled, [np.ones(1, object), odd], client=client).map("doubled")
    with pytest.raises(DTypeError, match="the request to shards cannot be pickled"):
        sharding.Shards(Doubled, [np.ones(2)], client=client).map("doubled", odd)
    with pytest.raises(DTypeError, match="the function cannot be pickled"):
        processes.map_numbers(odd[0], 3, client=client)


def test_a_model_that_does_not_pickle(cluster_of):
    """The error names the object before work begins, whatever it belongs to."""
    model = resampling.ready.linear_gaussian
    filters = model.filter(space="serial")
    filters.remark = (n for n in range(3))
    with pytest.raises(DTypeError, match="the method cannot be pickled"):
        filters.log_likelihood(jobs.observed(), 20, params=[[0.9, 0.5, 0.7]], client=cluster_of(1))


def test_a_client_that_does_not_wait():
    async def fit():
        async with (
            distributed.LocalCluster(
                n_workers=1,
                processes=False,
                dashboard_address="127.0.0.1:0",
                asynchronous=True,
                memory_limit=0,
            ) as own,
            distributed.Client(own, set_as_default=False, asynchronous=True) as client,
        ):
            with pytest.raises(InputError, match="client is asynchronous; expected a synchronous one"):
                tmap.fit(jobs.runs(), orders=[1, 2], client=client)

    asyncio.run(fit())


def test_a_client_without_workers(monkeypatch):
    monkeypatch.setattr(cluster, "WAIT_S", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as own,
        distributed.Client(own, set_as_default=False) as client,
        pytest.raises(ClusterError, match="client has had no worker for 0.2 s"),
    ):
        tmap.fit(jobs.runs(), orders=[1, 2], client=client)


def ends_its_worker(number):
    if number:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_job_that_ends_its_workers():
    """The run ends with a message, and without a traceback of dask's. The result of job 0 may be lost with
    the worker.
    """
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as own,
        distributed.Client(own, set_as_default=False) as client,
        pytest.raises(ClusterError, match="job [01]: several workers ended"),
    ):
        processes.map_numbers(ends_its_worker, 2, client=client)


def test_shards_of_different_dtypes():
    with pytest.raises(DTypeError, match="shard 1 holds float32, those before it float64"):
        sharding.Shards(Doubled, [np.zeros(2), np.zeros(2, np.float32)], space="serial")


def test_memory_mapped_points_travel_as_the_name_of_their_file(tmp_path, cluster_of, monkeypatch):
    """The workers, which are threads of this process, read them."""
    np.save(tmp_path / "points.npy", jobs.points())
    mapped_points, read, inner = np.load(tmp_path / "points.npy", mmap_mode="r"), [], mapped.Mapped.read
    monkeypatch.setattr(mapped.Mapped, "read", lambda piece: read.append(piece.nbytes) or inner(piece))
    known = {"prior": None, "max_iter": 3, "tol": -1.0, "random_state": 0, "space": "serial"}
    models = [
        mixture.DirichletMixture(3, **known).fit(points, client=client)
        for points, client in ((mapped_points, cluster_of(2)), (jobs.points(), None), (mapped_points, None))
    ]
    assert sum(read) == mapped_points.nbytes
    for model in models[:2]:
        assert_array_equal(model.means_, models[2].means_)
    labels = models[0].predict(mapped_points, client=cluster_of(2))
    assert sum(read) == 2 * mapped_points.nbytes
    assert_array_equal(labels, models[1].predict(jobs.points()))


def test_data_that_a_worker_cannot_see(tmp_path, processes):
    """The file is missing, or replaced, by the time it is read."""
    path = tmp_path / "points.npy"
    np.save(path, jobs.points())
    X = np.load(path, mmap_mode="r")
    piece = mapped.rows_of(X, 100, 300)
    assert_array_equal(mapped.read(piece), X[100:300])
    assert_array_equal(mapped.read(mapped.rows_of(X[50:], 100, 300)), X[150:350])
    path.rename(tmp_path / "elsewhere.npy")
    shards = sharding.Shards(Doubled, [piece], client=processes)
    with pytest.raises(InputError, match="points.npy', which cannot be read here"):
        shards.map("doubled")
    np.save(path, jobs.points(10))
    with pytest.raises(InputError, match="every worker must see the same file"):
        shards.map("doubled")


def test_an_error_of_the_method_is_the_users(cluster_of):
    """The error of the method is raised, and the places remain usable."""
    shards = sharding.Shards(Doubled, [np.ones(2), np.full(2, -1.0)], client=cluster_of(2))
    with pytest.raises(InputError, match="negative"):
        shards.map("doubled")
    with pytest.raises(ValueError, match="singular"):  # not mistaken for the end of a worker
        shards.map("doubled", "singular")
    with pytest.raises(ClusterError, match="a worker lacks what the work needs: .*no_such_library"):
        shards.map("doubled", "missing")
    assert_array_equal(shards.map("doubled", numbers=range(1)), [[2.0, 2.0]])


def test_a_function_for_each_number(cluster_of):
    assert processes.map_numbers(np.sqrt, 5, client=cluster_of(2)) == [float(np.sqrt(k)) for k in range(5)]


def test_a_scheduler_that_is_gone():
    """The run ends with a message, and the same call continues from its checkpoint elsewhere: the stores are
    tested in `tests/hostile`."""
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
    ) as own:
        client = distributed.Client(own, set_as_default=False)
        shards = sharding.Shards(Doubled, [np.ones(2)], client=client)
        shards.map("doubled")
        own.close()
        with pytest.raises(ClusterError, match="the scheduler is lost"):
            shards.map("doubled")
        client.close()


def test_a_worker_that_is_paused_for_want_of_memory(monkeypatch):
    """Dask starts no work on a paused worker, so that a caller would wait for ever."""
    monkeypatch.setattr(cluster, "PAUSED_S", 2.0)
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit="1 MiB"
        ) as own,
        distributed.Client(own, set_as_default=False) as client,
    ):
        (worker,) = client.scheduler_info(n_workers=-1)["workers"]
        while client.scheduler_info(n_workers=-1)["workers"][worker]["status"] != "paused":
            time.sleep(0.05)
        with pytest.raises(ClusterError, match="paused worker .*memory is nearly full.*memory_limit="):
            sharding.Shards(Doubled, [np.ones(2)], client=client).map("doubled")


class Doubled:
    """Method of arrays."""

    def __init__(self, space):
        self.space = space

    def prepare(self, piece):
        return np.asarray(mapped.read(piece))

    def doubled(self, shards, wrong=None):
        if wrong == "missing":
            import no_such_library  # noqa: F401  (as a reader of Zarr arrays does on a worker without zarr)
        if wrong:
            raise np.linalg.LinAlgError(wrong)
        for shard in shards:
            if (shard < 0).any():
                raise InputError("negative")
            yield 2.0 * shard
