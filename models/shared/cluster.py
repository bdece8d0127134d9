"""Shards on a cluster of dask.distributed, with one place per worker, tolerant of workers that end.

Dask starts and restarts workers and shows their state in the browser. This module requests the results of
neighbouring shards from each worker, sends it the data that it lacks, and moves work from workers that ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import platform
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import portable as pk
from portable.errors import ClusterError, DTypeError, InputError, PortableError, SpaceError

from .annotations import ClientLike, Function, Spaces
from .extras import need
from .places import Lost, Place, Sent, Values, shared_out

QUIET = 50  # log level "critical", since workers that are closed log many errors
ANSWER_S = 30.0  # timeout for the answer of a scheduler
WAIT_S = 60.0  # timeout for the first worker
_REACH_S = 3.0  # timeout for a worker to identify itself
PAUSED_S = 60.0  # timeout for a worker that dask has paused
_LOOK_S = 1.0  # interval of checks that a worker without an answer has not ended
_ATTEMPTS = 5  # largest number of attempts at the same work, each after the end of a worker
_SHARE = 0.4  # of a worker's memory for data: dask pauses a worker at 0.8, and ends it at 0.95
# by client: workers and spaces that passed `check_workers`
_CHECKED: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_WATCHING: list[list[float]] = []  # lists that `watched` has yielded, to be extended


@contextlib.contextmanager
def watched() -> Iterator[list[float]]:
    """Measure the computing time of workers; the rest of the time of a step is the cost of messages.

    Yields
    ------
    list of float
        For each request in the block, the seconds of the worker that computed longest.
    """
    _WATCHING.append(found := [])
    try:
        yield found
    finally:
        _WATCHING.remove(found)


@contextlib.contextmanager
def connected(client: ClientLike) -> Iterator[Any]:
    """Yield the client of an argument `client`.

    Parameters
    ----------
    client : distributed.Client, "local" or None
        "local" is a new client of this machine's cores by `private`, which is closed after the block.

    Yields
    ------
    distributed.Client or None

    Raises
    ------
    DTypeError, InputError
        `client` is not a client, or is closed; distributed is not installed.
    """
    if client is None:
        yield None
        return
    if isinstance(client, str):
        with connect(client) as made:
            yield made
        return
    distributed = _distributed()
    if not isinstance(client, distributed.Client):
        raise DTypeError(
            f"client must be a distributed.Client or 'local', got {client!r} of type {type(client).__name__}"
        )
    if client.asynchronous:
        raise InputError("client is asynchronous; expected a synchronous one: distributed.Client(...)")
    if client.status != "running":
        raise InputError(f"client is {client.status}: make a new distributed.Client(...)")
    yield client


@contextlib.contextmanager
def connect(cluster: str) -> Iterator[Any]:
    """Yield a client for the value of `--cluster`.

    Parameters
    ----------
    cluster : str
        "local", the address of a scheduler, or its scheduler file.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InputError
        No scheduler answers at that address; distributed is not installed.
    """
    distributed = _distributed()
    if cluster == "local":
        with private(os.cpu_count()) as client:
            yield client
        return
    is_file = os.path.exists(cluster)
    if not is_file and "://" not in cluster:
        raise InputError(
            f"cluster is {cluster!r}; expected 'local', an address such as tcp://host:8786, or a "
            "scheduler file"
        )
    try:
        client = distributed.Client(**{"scheduler_file" if is_file else "address": cluster}, timeout=ANSWER_S)
    except (OSError, ValueError, TypeError) as error:  # the last of TLS without a certificate
        raise InputError(f"cluster: no scheduler answers at {cluster!r}: {error}") from error
    with client:
        client.direct_to_workers = _reaches_workers(client)
        yield client


@contextlib.contextmanager
def private(n_workers: int, processes: bool = True, **options: Any) -> Iterator[Any]:
    """Start workers with one thread each on this machine, which accept work only from this process.

    Workers of a dask scheduler execute code from any client that can connect to its port. So these use TLS
    with a new key that exists only in the memory of these processes, and the dashboard is on the loopback
    device.

    Parameters
    ----------
    n_workers : int
    processes : bool, default True
        If False, workers are threads of this process, without a port.
    **options
        Options of `distributed.LocalCluster`.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InputError
        distributed or cryptography is not installed.
    """
    distributed = _distributed()
    if processes:
        need("cryptography", "cluster", "a cluster on this machine, whose messages are encrypted")
        options["security"] = distributed.Security.temporary()
    with distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=processes,
        host="127.0.0.1" if processes else None,
        dashboard_address="127.0.0.1:0",
        silence_logs=QUIET,
        **options,
    ) as cluster:
        with distributed.Client(cluster, set_as_default=False, direct_to_workers=True) as client:
            yield client


def _reaches_workers(client: ClientLike) -> bool:
    """Return True if messages to workers do not pass through the scheduler, which takes 1.5 times as long."""
    workers = living(client)

    async def answers() -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            return bool(await asyncio.wait_for(client.rpc(workers[0]).identity(), _REACH_S))
        return False

    return bool(workers) and client.sync(answers)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the option `--cluster` of commands that can distribute their work.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    """
    parser.add_argument(
        "--cluster",
        metavar="WHERE",
        help="distribute the work: 'local' (processes here), or a dask scheduler's address "
        "(tcp://...) or file (--scheduler-file)",
    )


@contextlib.contextmanager
def asked_for(options: argparse.Namespace) -> Iterator[None]:
    """Set `options.client` to the client of `--cluster`, or to None without it.

    Parameters
    ----------
    options : argparse.Namespace

    Yields
    ------
    None

    Raises
    ------
    InputError
        As `connect`.
    """
    with connected(getattr(options, "cluster", None)) as options.client:
        if options.client is not None:
            workers, page = len(options.client.nthreads()), options.client.dashboard_link
            print(f"cluster: {workers} workers, {page}", file=sys.stderr)
        yield


class Workers:
    """A place on each worker of a client, with the interface of `sharding.Threads`.

    Places are dask actors, which are called directly: a call takes about 2 ms, a task of the scheduler 10 ms
    or more. The shards of a worker that ended are requested from another one.

    Raises
    ------
    InputError, ClusterError
        Several spaces are given, an object does not pickle, or a worker has another version or lacks the
        space.
    """

    def __init__(
        self,
        client: ClientLike,
        make: Function,
        pieces: Sequence[Any],
        space: Spaces,
        room: float | None,
        label: str,
    ) -> None:
        if isinstance(space, (list, tuple)):
            raise InputError(
                f"space is {space!r}; expected the name of one space with a client, which each worker has"
            )
        self._client, self._make, self._pieces, self._label = client, make, pieces, label
        self._space = None if space is None else str(space)
        self._room, self._places = room, {}
        _sent(make, "the method"), _sent(pieces[0], "shard 0")  # raises if they do not pickle
        check_workers(client, self._space)

    def ask(self, name: str, args: Values, reduce: bool, numbers: range) -> list[Any]:
        """Return the results of each place, like `sharding.Threads.ask`.

        Parameters
        ----------
        name, args, reduce, numbers
            As in `sharding.Threads.ask`.

        Returns
        -------
        list of lists

        Raises
        ------
        ClusterError
            Several workers have ended, or the scheduler is gone.
        """
        with self._client.as_current():
            return self._send_request(name, _sent(args, f"the request to {self._label}"), reduce, numbers)

    def launched(self, name: str, args: Values, numbers: range) -> None:
        """Return None, since sums of workers are requested by `ask`.

        Parameters
        ----------
        name, args, numbers
            As in `ask`.
        """

    def _send_request(self, name: str, sent: Sent, reduce: bool, numbers: range) -> list:
        found, left = {}, None
        for _ in range(_ATTEMPTS):
            places = self._settled()
            if left is None:
                left = [part for part in shared_out(numbers, len(places)) if len(part)]
            asked = list(zip(left, itertools.cycle(places)))
            calls = [(worker, self._question(part, worker, name, sent, reduce)) for part, worker in asked]
            for (part, worker), answer in zip(asked, self._collect_results(calls)):
                if answer is None or isinstance(answer, Lost):  # the worker ended
                    self._places.pop(worker, None)
                else:
                    if worker in self._places:
                        self._places[worker][1].update(part)
                    found[part[0]] = answer
                    left.remove(part)
            if not left:
                return [found[first] for first in sorted(found)]
        raise ClusterError(
            f"{self._label}: several workers ended at the same shards: give workers more memory, or"
            " take more workers"
        )

    def _settled(self) -> list[str]:
        """Return the running workers, after each has been given a place."""
        for _ in range(_ATTEMPTS):
            workers = living(self._client)
            if not workers:
                self._wait()
                continue
            self._places = {worker: place for worker, place in self._places.items() if worker in workers}
            new = [worker for worker in workers if worker not in self._places]
            if new:
                check_workers(self._client, self._space)
                self._begin(new)
            if self._places:
                return sorted(self._places)
        raise ClusterError(f"{self._label}: every worker ended before it began")

    def _wait(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=WAIT_S)
        except TimeoutError as error:
            raise ClusterError(f"client has had no worker for {WAIT_S:g} s") from error

    def _begin(self, workers: list[str]) -> None:
        """Create places on workers without one."""
        own, futures = (_RemotePlace, self._space, self._room, len(self._pieces)), {}
        for worker in workers:
            key = f"{self._label}-place-{uuid.uuid4().hex}"
            futures[worker] = self._client.submit(*own, actor=True, workers=[worker], pure=False, key=key)
        made = self._collect_replies(
            [(worker, lambda future=future: future) for worker, future in futures.items()]
        )
        for worker, actor in zip(workers, made):
            if actor:
                self._places[worker] = futures[worker], set()

    def _question(self, numbers: range, worker: str, name: str, args: Sent, reduce: bool) -> Callable:
        """Return the request to a worker, with the pieces that it lacks, and the factory of the method if it
        has none."""
        future, given = self._places[worker]
        wanted = {k: _sent(self._pieces[k], f"shard {k}") for k in numbers if k not in given}
        make = () if given else (Sent(self._make),)
        return self._call(worker, future.key, Sent((numbers, name, args, reduce)), wanted, *make)

    def _call(self, worker: str, key: str, *args: object) -> Callable:
        """Return a coroutine's function that calls one of a worker's actor, as dask's Actor does it, but
        always in the client's thread: an Actor of a worker in this process would answer in the worker's."""
        from distributed.protocol import to_serialize

        message = {"actor": key, "function": "answer", "args": [to_serialize(arg) for arg in args]}

        async def answer() -> object:
            if self._client.direct_to_workers:
                found = await self._client.rpc(worker).actor_execute(**message)
            else:
                message["op"] = "actor_execute"
                found = await self._client.scheduler.proxy(worker=worker, msg=message)
            if found["status"] != "OK":
                raise found["exception"]
            return found["result"]

        return answer

    def _collect_results(self, calls: list[tuple[str, Callable]]) -> list:
        """Return the results of workers, None for one that has ended. An error of the method is raised."""
        sent = self._collect_replies(calls)
        for found in _WATCHING:
            found.append(max((one.seconds for one in sent if one), default=0.0))
        values = [one and one.value for one in sent]
        for value in values:
            if isinstance(value, Exception):
                raise value
        return values

    def _collect_replies(self, calls: list[tuple[str, Callable]]) -> list:
        """Return each worker's answer to a call, or None if it has ended, when dask might wait for ever.

        One task in dask's thread sends all requests and waits for the answers: a switch of threads for each
        worker would take longer than to send and receive a message.
        """
        tasks, paused_s = [], dict.fromkeys((worker for worker, _ in calls), 0.0)

        async def all_there():
            if not tasks:
                tasks.extend(asyncio.ensure_future(_reply(call)) for _, call in calls)
            return not tasks or not (await asyncio.wait(tasks, timeout=_LOOK_S))[1]

        while not self._client.sync(all_there):
            workers = living(self._client)
            for (worker, _), task in zip(calls, tasks):
                if task.done():
                    continue
                if worker not in workers:
                    self._client.loop.add_callback(task.cancel)
                paused_s[worker] = paused_s[worker] + _LOOK_S if self._is_paused(worker) else 0.0
                if paused_s[worker] >= PAUSED_S:
                    raise ClusterError(
                        f"{self._label}: dask has paused worker {worker} for {paused_s[worker]:g} s, as its"
                        " memory is nearly full: give workers more"
                        " (memory_limit=)"
                    )
        return [task.result() for task in tasks]

    def _is_paused(self, worker: str) -> bool:
        """Return True if dask has paused a worker because of its memory."""
        known = self._client.scheduler_info(n_workers=-1)["workers"]
        return known.get(worker, {}).get("status") == "paused"


async def _reply(call: Callable) -> object:
    """What a call brings; None where the worker has ended."""
    try:
        return await call()
    except (asyncio.CancelledError, *_ended()):
        return None


def _ended() -> tuple:
    """Return the errors by which dask reports the end of a worker; for actors, ValueError or KeyError."""
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    return OSError, ValueError, KeyError, RuntimeError, FutureCancelledError, KilledWorker


def _returning_errors(function: Function) -> Callable[..., Sent]:
    """Wrap a method to send its result, or the error that it raises, so that an error by dask means that the
    worker has ended."""

    def answer(*args: object) -> Sent:
        begin = time.perf_counter()
        try:
            found = function(*args)
            return Sent(found, time.perf_counter() - begin)
        except ImportError as error:
            return Sent(ClusterError(f"a worker lacks what the work needs: {error}; install it there, too"))
        except Exception as error:
            with contextlib.suppress(Exception):
                sent = Sent(error)
                if str(sent.value) == str(error):
                    return sent
            return Sent(ClusterError(f"{type(error).__name__}: {error}"))

    return answer


class _RemotePlace:
    """A place on a worker, with a space of the worker: by default as many threads as dask assigns to it."""

    def __init__(self, space: str | None, room: float | None, n_shards: int) -> None:
        from distributed import get_worker

        worker = get_worker()
        limit = worker.memory_manager.memory_limit
        self._space, self._n_shards = own_space(space, worker), n_shards
        self._room = room if room is not None or not limit else _SHARE * limit
        self._place = None

    @_returning_errors
    def answer(self, asked: Sent, pieces: dict, make: Sent | None = None) -> list:
        """Answer a request, as `Place.run`; the first one has the factory of the method."""
        if self._place is None:
            self._place = Place(make.value, self._space, self._room, self._n_shards)
        numbers, name, args, reduce = asked.value
        return self._place.run(numbers, pieces, name, args.value, reduce)


def living(client: ClientLike) -> list[str]:
    """Return the running workers, according to the scheduler.

    Parameters
    ----------
    client : distributed.Client

    Returns
    -------
    list of str
        Their addresses.

    Raises
    ------
    ClusterError
        The scheduler is gone.
    """
    try:
        if client.status != "running":
            raise OSError(f"the client is {client.status}")
        return sorted(client.nthreads())
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"the scheduler is lost, and with it the run; with checkpoint= the same call resumes it ({error})"
        ) from error


def each(
    client: ClientLike, function: Callable[[int], Any], n: int, space: str | None = None
) -> Iterator[Any]:
    """Yield function(0), ..., function(n - 1), in that order, each computed by the next free worker.

    Parameters
    ----------
    client : distributed.Client
    function : callable (int) -> object
        It must pickle.
    n : int
    space : str, optional
        The space that each worker must have.

    Yields
    ------
    object
        The results, as of `processes.map_numbers`.

    Raises
    ------
    DTypeError
        The function does not pickle.
    ClusterError
        A worker has other versions, or lacks the space; several workers have ended, or the scheduler is
        gone.
    """
    sent = _sent(function, "the function")
    check_workers(client, space)
    key = f"{getattr(function, '__name__', 'job')}-{uuid.uuid4().hex}"
    futures = client.map(_call_function, [sent] * n, range(n), pure=False, key=key)
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    for number, future in enumerate(futures):
        try:
            found = future.result()
        except KilledWorker as error:
            raise ClusterError(f"job {number}: several workers ended: give workers more memory") from error
        except FutureCancelledError as error:
            living(client)  # raises if the scheduler is gone
            raise ClusterError(f"job {number} was cancelled: {error}") from error
        yield found.value


def _call_function(function: Sent, number: int) -> Sent:
    """Call the function on a worker."""
    return Sent(function.value(number))


def _describe(space: str | None, dask_worker: object = None) -> dict:
    """Return the versions on a worker, `dask_worker` by dask, and the reason if it lacks the space."""
    try:
        with pk.use(own_space(space, dask_worker)):
            reason = None
    except SpaceError as error:
        reason = str(error)
    return {
        "portable": pk.__version__,
        "python": platform.python_version().rpartition(".")[0],
        "numpy": np.__version__,
        "reason": reason,
    }


def own_space(space: str | None, worker: Any) -> str:
    """Return the space of a name on a worker.

    Parameters
    ----------
    space : str or None
    worker : distributed.Worker

    Returns
    -------
    str
        By default as many threads as dask assigns to the worker.
    """
    return space or f"threads:{worker.state.nthreads}"


def check_workers(client: ClientLike, space: str | None) -> None:
    """Raise if a worker has other versions, or lacks the space.

    Parameters
    ----------
    client : distributed.Client
    space : str or None

    Raises
    ------
    ClusterError
        The message names the worker, its versions and those required.
    """
    known = _CHECKED.setdefault(client, set())
    new = [worker for worker in living(client) if (worker, space) not in known]
    own, answers = _describe("serial"), {}
    with contextlib.suppress(KeyError, OSError):  # a worker has ended: others are checked at the next call
        answers = client.run(_describe, space, workers=new, on_error="return") if new else {}
    now = living(client)
    for worker, found in answers.items():
        if isinstance(found, Exception):
            if worker in now:
                raise ClusterError(
                    f"worker {worker} cannot run portable and models: {type(found).__name__}: {found}"
                )
            continue
        for name in ("portable", "python", "numpy"):
            if found[name] != own[name]:
                raise ClusterError(
                    f"worker {worker} has {name} {found[name]}, this process {own[name]}; expected the "
                    "same, for results would differ"
                )
        if found["reason"]:
            raise ClusterError(f"worker {worker} has no space {space!r}: {found['reason']}")
        known.add((worker, space))


def _sent(value: object, name: str) -> Sent:
    """Return the object as Sent; raise, naming it, if it does not pickle."""
    try:
        return Sent(value)
    except PortableError:  # of arrays that are read while they are pickled
        raise
    except Exception as error:
        raise DTypeError(f"{name} cannot be pickled for a worker: {error}") from error


def _distributed() -> object:
    return need("distributed", "cluster", "client and --cluster")
