"""Make clusters for tests: of threads of this process, which are cheap, and of two processes, which can be
killed.

They end with this folder's tests: an idle cluster still uses a tenth of a core.
"""

import dask
import distributed
import pytest


@pytest.fixture(scope="package", autouse=True)
def unwatched():
    """Turn off Dask's profiler, which samples the stacks of its threads a hundred times a second, and its
    system monitor.
    """
    with dask.config.set(
        {"distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "5s"}
    ):
        yield


@pytest.fixture(scope="package")
def cluster_of():
    """Return a function of a number of workers that gives a client of a cluster of threads of this
    process."""
    made = {}

    def client(n_workers):
        if n_workers not in made:
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=False,
                dashboard_address="127.0.0.1:0",
                memory_limit=0,  # the limit would include the memory of other tests in this process
            )
            made[n_workers] = distributed.Client(cluster, set_as_default=False), cluster
        return made[n_workers][0]

    yield client
    for one, cluster in made.values():
        one.close()
        cluster.close()


@pytest.fixture(scope="package")
def processes():
    """Make a client of two worker processes, which are restarted when they are killed."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            yield client


@pytest.fixture(scope="package")
def directly(processes):
    """Make another client of the same workers, which communicates directly with them."""
    with distributed.Client(processes.cluster, set_as_default=False, direct_to_workers=True) as client:
        yield client
