"""Attacks by forks and by libraries that send kernels to other processes."""

import concurrent.futures
import copy
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading

import numpy as np

import portable as pk

from .victims import (
    HOST,
    add_one,
    attack,
    fresh,
    histogram,
    interrupts,
    on,
    spin,
    stopped,
    until,
    usable,
    value,
)


def _in_child(work, seconds=60):
    """Run a function in a forked child, which must end successfully within a time limit."""
    child = os.fork()
    if child == 0:
        faulthandler.register(signal.SIGALRM, chain=True)  # prints the stack if the child hangs
        signal.alarm(seconds)
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child ended with {status}"


def _forks(random, times, body, spaces=HOST):
    stop = threading.Event()

    def launching(k):
        while not stop.is_set():
            body(k, spaces[k % len(spaces)])

    threads = [threading.Thread(target=launching, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    try:
        for _ in range(times):
            _in_child(usable)
    finally:
        stop.set()
        for t in threads:
            t.join()
    return times


@attack(4)
def forks_from_four_launching_threads(random, times):
    arrays = [np.zeros(30_000) for _ in range(4)]
    return _forks(random, times, lambda k, space: pk.parallel_for(on(space, 30_000), add_one, arrays[k]))


@attack(2)
def forks_while_others_compile(random, times):
    return _forks(
        random, times, lambda k, space: pk.parallel_for(on(space, 10), fresh(random.random()), np.zeros(10))
    )


@attack(3)
def forks_while_others_call_a_plan(random, times):
    x, counts = np.ones(30_000), np.zeros(16)
    plan = pk.plan(on("threads:2", 30_000), histogram, x, pk.ScatterView(counts))
    return _forks(random, times, lambda k, space: plan())


@attack(1)
def forks_of_forks(random, times):
    for _ in range(times):
        usable()
        _in_child(lambda: (usable(), _in_child(usable), usable()))
        usable()
    return times


@attack(1)
def ctrl_c_in_a_forked_child(random, times):
    def work():
        with interrupts():
            usable()
            stopped(pk.plan(on("threads:2", 64), spin, np.zeros(64)))
        usable()

    for _ in range(times):
        usable()
        _in_child(work)
    return times


def job(n, kernel=None):
    """Run the job of a worker process."""
    x = np.zeros(1000)
    for _ in range(n):
        pk.parallel_for(on("threads:2", 1000), kernel or add_one, x)
    return float(x.sum())


def _pool(make, random, times):
    for _ in range(times):
        assert job(2) == 2000.0
        with make() as pool:
            assert list(pool.map(job, [1, 2, 3, 4])) == [1e3, 2e3, 3e3, 4e3]
            assert (
                list(pool.map(job, [1, 2], [slow_free, add_one])) == [3e3, 2e3]
                if hasattr(pool, "submit")
                else True
            )
    return times


@pk.kernel
def slow_free(i, x):
    x[i] += 3.0


@attack(1)
def processes_by_fork(random, times):
    return _pool(lambda: multiprocessing.get_context("fork").Pool(2), random, times)


@attack(1)
def processes_by_spawn(random, times):
    return _pool(lambda: multiprocessing.get_context("spawn").Pool(2), random, times)


@attack(1)
def processes_by_forkserver(random, times):
    return _pool(lambda: multiprocessing.get_context("forkserver").Pool(2), random, times)


@attack(1)
def processes_of_concurrent_futures(random, times):
    context = multiprocessing.get_context(random.choice(("fork", "spawn")))
    return _pool(lambda: concurrent.futures.ProcessPoolExecutor(2, context), random, times)


@attack(1)
def joblib_after_a_launch(random, times):
    import joblib

    for _ in range(times):
        local = fresh(2.0)
        wanted = [job(n, local) for n in (1, 2)]
        for backend in ("loky", "multiprocessing", "threading"):
            kernels = [local if backend != "multiprocessing" else add_one] * 2
            expected = wanted if backend != "multiprocessing" else [1e3, 2e3]
            got = joblib.Parallel(2, backend=backend)(
                joblib.delayed(job)(n, k) for n, k in zip((1, 2), kernels)
            )
            assert got == expected, backend
    return times


@attack(1)
def dask_after_a_launch(random, times):
    import dask

    for _ in range(times):
        job(1, slow_free)
        tasks = [dask.delayed(job)(n, slow_free) for n in (1, 2)]
        for scheduler in ("threads", "processes", "sync"):
            assert dask.compute(*tasks, scheduler=scheduler) == (3e3, 6e3), scheduler
    return times


@attack(1)
def pickles_of_everything(random, times):
    import cloudpickle

    def add(a, b):
        return a + b

    made = []

    def trips(thing):
        made.append(thing)
        yield pickle.loads(pickle.dumps(thing))
        yield pickle.loads(cloudpickle.dumps(thing))
        yield copy.copy(thing)
        yield copy.deepcopy(thing)

    for k in range(times):
        total = pk.Reducer("Total", add, 0.0)
        for when in ("before a launch", "after one"):
            for kernel in (fresh(k + 2.0), add_one):
                wanted = job(1, kernel) if when == "after one" else None
                for again in trips(kernel):
                    assert job(1, again) == (wanted or job(1, kernel)), when
            for reducer in (pk.Sum, total):
                for again in trips(reducer):
                    assert pk.parallel_reduce(on("serial", 5), value, np.ones(5), reducer=again) == 5.0
        x = np.arange(4.0)
        for thing in (
            until,
            pk.RangePolicy(0, 3),
            pk.TeamPolicy(3),
            pk.MDRangePolicy((0, 0), (2, 2)),
            pk.Threads(2),
            pk.AUTO,
        ):
            assert all(type(again) is type(thing) for again in trips(thing))
        for view in (pk.asview(x, space="serial"), pk.zeros(3, space="serial")):
            assert all((again.to_numpy() == view.to_numpy()).all() for again in trips(view))
    print(f"  {len(made)} of {len(made)} by pickle, cloudpickle, copy and deepcopy")
    return times
