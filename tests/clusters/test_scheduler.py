"""Stop a scheduler in the middle of a long job: there is a message, and a store from which the same call
continues."""

import time

import dask
import distributed
import pytest

from portable.models.shared import sharding, store
from portable.models import tmap
from portable.errors import ClusterError

from . import jobs


def test_a_job_goes_on_after_the_end_of_its_scheduler(tmp_path, monkeypatch):
    jobs.small_shards(monkeypatch)
    monkeypatch.setattr(store, "EVERY_S", 0.0)
    monkeypatch.setattr(store, "_SHARE", 0)
    how = {"orders": [1, 2], "max_iter": 20, "tol": 0.0, "n_starts": 1, "space": "serial"}
    wanted, whole = tmap.fit(jobs.runs(), **how)
    steps, run = [], sharding.Place.run
    soon = {"distributed.comm.timeouts.connect": "1s", "distributed.comm.retry.count": 0}
    with (
        dask.config.set(soon),
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
    ):
        with distributed.Client(cluster, set_as_default=False) as client:

            def ended(self, *args):
                steps.append(None)
                if len(steps) == 20:
                    client.loop.add_callback(cluster.scheduler.close)
                    gone_by = time.monotonic() + 60
                    while cluster.scheduler.status.name != "closed" and time.monotonic() < gone_by:
                        time.sleep(0.01)  # otherwise the other steps may all be done before
                return run(self, *args)

            monkeypatch.setattr(sharding.Place, "run", ended)
            with pytest.raises(ClusterError, match="the scheduler is lost.*checkpoint"):
                tmap.fit(jobs.runs(), client=client, checkpoint=tmp_path / "kept", **how)
    assert len(steps) >= 20 and list((tmp_path / "kept").glob("start-*.npz"))
    model, info = tmap.fit(jobs.runs(), checkpoint=tmp_path / "kept", **how)
    assert info.log_likelihood == whole.log_likelihood and (model.rates == wanted.rates).all()
