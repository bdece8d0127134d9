"""What real programs do to a launch: threads, forks, signals, Ctrl-C, exits, pickles, limits. A table of attacks.

Each is a function of a random generator and of how often it is to try; it returns how often it did, and raises where
something did not hold. It has a process to itself: `python -m tests.hostile NAME`.
"""

import atexit
import concurrent.futures
import contextlib
import copy
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np

import portable as pk

ATTACKS = {}  # name: (function, how often in CI)
HOST = ("serial", "threads", "threads:2", "threads:4")


def attack(times):
    """Put a function into the table; `times`: how often CI tries."""
    def put(f):
        ATTACKS[f.__name__] = f, times
        return f
    return put


# ---- kernels
@pk.kernel
def add_one(i, x):
    x[i] += 1.0


@pk.kernel
def value(i, x):
    return x[i]


@pk.kernel
def histogram(i, x, counts):
    pk.atomic_add(counts, i % len(counts), x[i])


@pk.kernel
def slow(i, x, n):
    s = 0.0
    for j in range(n):
        s = s * 0.5 + j
    x[i] += 1.0 + 0.0 * s


@pk.kernel
def spin(i, x):
    n = 0
    while x[i] < 1.0:
        n += 1
    x[i] = n


@pk.kernel(packed=False)
def spin_alone(i, x):
    n = 0
    while x[i] < 1.0:
        n += 1
    x[i] = n


@pk.kernel
def spin_first(i, x):  # one index only: the others' threads wait
    n = 0
    while i == 0 and x[i] < 1.0:
        n += 1


@pk.kernel
def spin_last(i, x):
    n = 0
    while i == len(x) - 1 and x[i] < 1.0:
        n += 1


@pk.kernel
def long_range(i, x):
    for j in range(1 << 60):
        x[i] += 1e-300


@pk.kernel
def long_nest(i, x):
    for k in range(3):
        for j in range(1 << 60):
            x[i] += 1e-300 * k


@pk.kernel
def spin_sum(i, x):
    while x[i] < 1.0:
        pass
    return x[i]


@pk.kernel
def spin_team(team, x):
    n = 0
    while x[team.league_rank] < 1.0:
        n += 1
    x[team.league_rank] = n


@pk.kernel
def members(team, x):
    for j in team.thread_range(1 << 60):
        x[0] = j * 1.0


@pk.kernel
def spin_box(i, j, x):
    while x[i, j] < 1.0:
        pass


@pk.kernel
def last_wins(i, x):
    x[0] = i * 1.0


@pk.kernel
def last_of_box(i, j, x):
    x[0] = i * 1.0 + j


@pk.kernel
def count_up(i, x):
    return 1


@pk.function
def until(x, i):
    while x[i] < 1.0:
        pass
    return x[i]


@pk.kernel
def spin_within(i, x):
    x[i] = until(x, i)


@pk.kernel
def many_draws(i, x):
    s = 0.0
    for j in range(1 << 60):
        s += pk.random.uniform(1, i, j)
    x[i] = s


def fresh(n):
    """A kernel that nobody has compiled."""
    namespace = {"pk": pk, "SHIFT": float(n)}

    def shifted(i, x):
        x[i] += SHIFT  # noqa: F821
    return pk.kernel(type(shifted)(shifted.__code__, namespace, "shifted"))


def on(space, n):
    return pk.RangePolicy(0, n, space=space)


def usable():
    """The process launches as before, on all host spaces."""
    for space in ("serial", "threads:2", "checked"):
        x = np.ones(1000 if space != "checked" else 10)
        pk.parallel_for(on(space, len(x)), add_one, x)
        assert (x == 2.0).all(), space
        assert pk.parallel_reduce(on(space, len(x)), value, x) == 2.0 * len(x)


def together(*calls):
    """Run functions in threads; raise the first error of one."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result(120)


# ---- threads
def _turns(call, n, of, wanted):
    together(*[lambda: [call() for _ in range(n // 4)]] * 4)
    assert (of == wanted).all(), f"{of.min()}..{of.max()}, {wanted} wanted"


@attack(1)
def one_plan_in_four_threads(random, times):
    for _ in range(times):
        space = random.choice(HOST)
        x = np.zeros(random.choice((1, 50, 20_000)))
        _turns(pk.plan(on(space, len(x)), add_one, x), 4000, x, 4000)
    return times


@attack(1)
def one_plan_with_copies_in_four_threads(random, times):
    for _ in range(times):
        x, counts = np.ones(30_000), np.zeros(16)
        plan = pk.plan(on(random.choice(("threads:2", "threads:3")), len(x)), histogram, x, pk.ScatterView(counts))
        _turns(plan, 200, counts, 200 * 30_000 / 16)
    return times


@attack(1)
def one_graph_in_four_threads(random, times):
    for _ in range(times):
        x, space = np.zeros(5000), random.choice(HOST)
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, len(x)), add_one, x)
            pk.parallel_for(on(space, len(x)), add_one, x)
        _turns(graph.replay, 1000, x, 2000)
    return times


@attack(1)
def one_kernel_in_many_threads(random, times):
    for _ in range(times):
        kernel, arrays = fresh(random.random()), [np.zeros(2000) for _ in range(16)]
        together(*[lambda x=x: [pk.parallel_for(on(random.choice(HOST), len(x)), kernel, x) for _ in range(20)] for x in arrays])
        assert len({x.tobytes() for x in arrays}) == 1
    return times


@attack(1)
def many_kernels_in_many_threads(random, times):
    for _ in range(times):
        def work(k):
            x = np.zeros(100)
            pk.parallel_for(on("threads:2", len(x)), fresh(k), x)
            assert (x == k).all()
        together(*[lambda k=k: work(k) for k in range(12)])
    return times


@attack(1)
def capture_beside_another_thread(random, times):
    for _ in range(times):
        x, inside, done = np.zeros(10), threading.Event(), threading.Event()

        def other():
            inside.wait()
            pk.parallel_for(on("serial", 10), add_one, x)
            assert pk.parallel_reduce(on("threads:2", 10), value, x) == 10.0
            done.set()
        thread = threading.Thread(target=other)
        thread.start()
        with pk.capture("serial") as graph:
            inside.set()
            assert done.wait(60)
        thread.join()
        assert graph.launches == []
    return times


@attack(1)
def watching_and_listening_beside_another_thread(random, times):
    from portable import testing
    for _ in range(times):
        heard, x, inside, done = [], np.zeros(10), threading.Event(), threading.Event()

        def other():
            inside.wait()
            pk.parallel_for(on("serial", 10), add_one, x)
            done.set()
        thread = threading.Thread(target=other)
        thread.start()
        with testing.watching() as launches, pk.listening(lambda *event: heard.append(event)):
            inside.set()
            assert done.wait(60)
        thread.join()
        assert launches["checked"] == 0 and heard == [] and (x == 1.0).all()
    return times


# ---- signals
@contextlib.contextmanager
def alarms(handler, seconds=0.0007):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _handler_launches(random, times, make):
    for _ in range(times):
        space, handled, within = random.choice(HOST), [], []
        x, y = np.zeros(40_000), np.zeros(40_000)
        call, again = make(space, x), make(space, y)

        def handler(*_):
            if len(within) < 3:  # handlers interrupt each other
                within.append(1)
                again()
                handled.append(1)
                within.pop()
        call()
        again()
        x[:], y[:], n = 0.0, 0.0, 0
        with alarms(handler):
            end = time.monotonic() + 30
            while len(handled) < 60 and time.monotonic() < end:
                call()
                n += 1
        assert len(handled) >= 60 and (x == n).all() and (y == len(handled)).all()
    return times


@attack(1)
def handler_that_launches(random, times):
    return _handler_launches(random, times, lambda space, x: lambda: pk.parallel_for(on(space, len(x)), add_one, x))


@attack(1)
def handler_that_calls_a_plan(random, times):
    return _handler_launches(random, times, lambda space, x: pk.plan(on(space, len(x)), add_one, x))


@attack(1)
def handler_that_replays_a_graph(random, times):
    def make(space, x):
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, len(x)), add_one, x)
        return graph.replay
    return _handler_launches(random, times, make)


@attack(3)
def handler_of_ctrl_c_that_launches_within_a_kernel(random, times):
    """It does not raise: the kernel goes on to its right end."""
    for _ in range(times):
        space, y, handled = random.choice(HOST), np.zeros(30_000), []
        x = np.zeros(64)

        def handler(*_):
            pk.parallel_for(on(space, len(y)), add_one, y)
            handled.append((x == 0.0).all())
        with interrupts(handler):
            pk.parallel_for(on(space, 1), add_one, y)  # compiled: the flag's handler stands
            pk.plan(on(space, 1), add_one, y)
            y[:] = 0.0
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Timer(0.4, x.fill, (2.0,)).start()
            pk.parallel_for(on(space, len(x)), spin, x)
        assert handled == [True] and (y == 1.0).all() and (x != 2.0).all(), (space, handled, y, x)
    return times


# ---- Ctrl-C
@contextlib.contextmanager
def interrupts(handler=signal.default_int_handler):
    """Whoever runs in the background ignores the signal: give it a handler."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def endless():
    """(name, function of a space that gives a launch without end)."""
    def range_of(kernel, n):
        return lambda space: lambda: pk.parallel_for(on(space, n), kernel, np.zeros(min(n, 1 << 16)))

    def graph_of(space):
        x = np.zeros(64)
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, 64), spin, x)
            pk.parallel_for(on(space, 64), spin, x)
        return graph.replay

    def scanned(space):
        x = np.zeros(64)
        return lambda: pk.parallel_scan(on(space, 64), spin_sum, x, out=np.zeros(64))

    yield "while", range_of(spin, 64)
    yield "while, one index", range_of(spin, 1)
    yield "while, packed=False", range_of(spin_alone, 64)
    yield "the first of many", range_of(spin_first, 1 << 16)
    yield "the last of many", range_of(spin_last, 1 << 16)
    yield "for", range_of(long_range, 64)
    yield "for in for", range_of(long_nest, 64)
    yield "in a function", range_of(spin_within, 64)
    yield "draws", range_of(many_draws, 64)
    yield "no loop", range_of(last_wins, 1 << 45)
    yield "box", lambda space: lambda: pk.parallel_for(pk.MDRangePolicy((0, 0), (9, 9), space=space), spin_box, np.zeros((9, 9)))
    yield "box, no loop", lambda space: lambda: pk.parallel_for(
        pk.MDRangePolicy((0, 0), (1 << 22, 1 << 22), space=space), last_of_box, np.zeros(1))
    yield "reduction", lambda space: lambda: pk.parallel_reduce(on(space, 64), spin_sum, np.zeros(64))
    yield "reduction, no loop", lambda space: lambda: pk.parallel_reduce(on(space, 1 << 45), count_up, np.zeros(1), reducer=pk.Max)
    yield "scan", scanned
    yield "team", lambda space: lambda: pk.parallel_for(pk.TeamPolicy(64, 8, space=space), spin_team, np.zeros(64))
    yield "members", lambda space: lambda: pk.parallel_for(pk.TeamPolicy(8, 8, space=space), members, np.zeros(8))
    yield "plan", lambda space: pk.plan(on(space, 64), spin, np.zeros(64))
    yield "graph", graph_of


def stopped(call, kind=KeyboardInterrupt):
    """Seconds from Ctrl-C to the exception of a launch."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.05, send)
    timer.start()
    try:
        call()
    except kind as error:
        seconds = time.monotonic() - sent[0]
        assert kind is not KeyboardInterrupt or any("half written" in note for note in getattr(error, "__notes__", ()))
        return seconds
    finally:
        timer.cancel()
    raise AssertionError("not interrupted")


@attack(1)
def ctrl_c_in_each_kind_of_kernel(random, times):
    """Median and longest time; half a second is allowed to a machine that is busy with others."""
    took = []
    with interrupts():
        for _ in range(times):
            for name, make in endless():
                for space in ("serial", "threads:2", "threads:4"):
                    call = make(space)
                    with contextlib.suppress(AssertionError):
                        stopped(call)  # compiled now: Ctrl-C may have waited for that
                    seconds = stopped(call)
                    took.append(seconds)
                    assert seconds < 2.0, f"{name} on {space}: {seconds:.3f} s"
                    usable()
    print(f"  {len(took)} kernels stopped, median {1e3 * np.median(took):.1f} ms, longest {1e3 * max(took):.1f} ms")
    return len(took)


class Mine(Exception):
    pass


@attack(2)
def ctrl_c_with_a_handler_that_raises_its_own(random, times):
    def handler(*_):
        raise Mine

    for _ in range(times):
        space = random.choice(HOST)
        with interrupts(handler):
            call = pk.plan(on(space, 64), spin, np.zeros(64))
            stopped(call, Mine)
        usable()
    return times


@attack(300)
def ctrl_c_in_a_rain(random, times):
    """On short launches: a launch either raises or is complete."""
    x, raised, complete = np.zeros(100_000), 0, 0
    pid, stop = os.getpid(), threading.Event()

    def rain():
        while not stop.wait(0.002):
            os.kill(pid, signal.SIGINT)
    with interrupts():
        thread = threading.Thread(target=rain)
        thread.start()
        while raised < times:
            try:
                try:
                    x[:] = 0.0
                    pk.parallel_for(on(HOST[raised % 4], len(x)), slow, x, 10)
                    short = not (x == 1.0).all()
                except KeyboardInterrupt:
                    raised += 1
                else:
                    assert not short, "cut short without a word"
                    complete += 1
            except KeyboardInterrupt:
                continue
        _calm(stop, thread)
    usable()
    print(f"  {raised} interrupted, {complete} complete")
    return raised


def _calm(stop, thread):
    """End the rain, whatever still falls."""
    while thread.is_alive():
        with contextlib.suppress(KeyboardInterrupt):
            stop.set()
            thread.join()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(0.01)


@attack(40)
def ctrl_c_while_kernels_compile(random, times):
    n, raised, pid, stop = 0, 0, os.getpid(), threading.Event()

    def rain():
        while not stop.wait(0.001 + 0.03 * random.random()):
            os.kill(pid, signal.SIGINT)
    with interrupts():
        thread = threading.Thread(target=rain)
        thread.start()
        while raised < times:
            try:
                n += 1
                x = np.zeros(100)
                pk.parallel_for(on("threads:2", 100), fresh(random.random() if n % 2 else n), x)
            except KeyboardInterrupt:
                raised += 1
        _calm(stop, thread)
    usable()
    return raised


@attack(1)
def ctrl_c_leaves_nothing_in_copies(random, times):
    """A plan or graph with a ScatterView that was stopped in the middle adds what it should at the next call."""
    @pk.kernel
    def scattered(i, x, counts):
        pk.atomic_add(counts, i % 16, 1.0)
        while x[0] < 1.0:
            pass

    for _ in range(times):
        x, counts = np.zeros(1), np.zeros(16)
        policy = pk.RangePolicy(0, 1600, space="threads:2", chunk=16)
        with interrupts():
            plan = pk.plan(policy, scattered, x, pk.ScatterView(counts))
            with pk.capture("threads:2") as graph:
                pk.parallel_for(policy, scattered, x, pk.ScatterView(counts))
            for call in (plan, graph.replay):
                x[:] = 0.0
                stopped(call)
                x[:], counts[:] = 1.0, 0.0
                call()
                assert (counts == 100.0).all(), counts
    return times


@attack(1)
def ctrl_c_beside_another_threads_kernel(random, times):
    """Python's signals are the main thread's: another thread's kernel goes on to its right end."""
    for _ in range(times):
        x, z, space = np.zeros(64), np.zeros(64), random.choice(HOST)
        other = "serial" if random.random() < 0.5 else "threads:3"
        pk.parallel_for(on(other, 64), spin, np.ones(64))
        with interrupts():
            pk.plan(on(space, 64), spin, np.ones(64))
            thread = threading.Thread(target=lambda: pk.parallel_for(on(other, 64), spin, z))
            thread.start()
            assert stopped(lambda: pk.parallel_for(on(space, 64), spin, x)) < 2.0
            time.sleep(0.2)
            assert thread.is_alive() and (z == 0.0).all()
            z[:] = 2.0
            thread.join(60)
            assert not thread.is_alive() and (z != 2.0).all()
    return times


# ---- forks
def _in_child(work, seconds=60):
    """Run a function in a forked child, which must end well in time."""
    child = os.fork()
    if child == 0:
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


@attack(15)
def forks_from_four_launching_threads(random, times):
    arrays = [np.zeros(30_000) for _ in range(4)]
    return _forks(random, times, lambda k, space: pk.parallel_for(on(space, 30_000), add_one, arrays[k]))


@attack(5)
def forks_while_others_compile(random, times):
    return _forks(random, times, lambda k, space: pk.parallel_for(on(space, 10), fresh(random.random()), np.zeros(10)))


@attack(10)
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
    """What a worker process does."""
    x = np.zeros(1000)
    for _ in range(n):
        pk.parallel_for(on("threads:2", 1000), kernel or add_one, x)
    return float(x.sum())


def _pool(make, random, times):
    for _ in range(times):
        assert job(2) == 2000.0
        with make() as pool:
            assert list(pool.map(job, [1, 2, 3, 4])) == [1e3, 2e3, 3e3, 4e3]
            assert list(pool.map(job, [1, 2], [slow_free, add_one])) == [3e3, 2e3] if hasattr(pool, "submit") else True
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
            got = joblib.Parallel(2, backend=backend)(joblib.delayed(job)(n, k) for n, k in zip((1, 2), kernels))
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

    def trips(thing):
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
        for thing in (until, pk.RangePolicy(0, 3), pk.TeamPolicy(3), pk.MDRangePolicy((0, 0), (2, 2)), pk.Threads(2), pk.AUTO):
            assert all(type(again) is type(thing) for again in trips(thing))
        for view in (pk.asview(x, space="serial"), pk.zeros(3, space="serial")):
            assert all((again.to_numpy() == view.to_numpy()).all() for again in trips(view))
    return times


# ---- exits, finalizers, interpreters
def _script(text, *options, code=0, wanted="", environment=None, seconds=120):
    """Run a program; it must end with this code and print what is wanted."""
    text = "import numpy as np\nimport portable as pk\nfrom tests.hostile.attacks import *\n" + text
    done = subprocess.run([sys.executable, *options, "-c", text], capture_output=True, text=True, timeout=seconds, check=False,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == code and wanted in done.stdout, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "Fatal" not in done.stderr and "free()" not in done.stderr, done.stderr
    return done.stdout + done.stderr


EXITS = {
    "atexit": "import atexit\nusable()\natexit.register(lambda: (usable(), print('done', flush=True)))",
    "atexit, first launch": "import atexit\natexit.register(lambda: (usable(), print('done', flush=True)))",
    "__del__": "class D:\n    def __del__(self): usable(); print('done', flush=True)\nd = D()\nusable()\ndel d",
    "daemon": "def f():\n    while True: usable()\nusable()\nthreading.Thread(target=f, daemon=True).start()\ntime.sleep(.3)\nprint('done')",
    "a thread that lasts": "def f():\n    time.sleep(.3); usable(); print('done')\nthreading.Thread(target=f).start()",
    "sys.exit in a listener": "usable()\nprint('done', flush=True)\n"
                              "try:\n    with pk.listening(lambda *e: sys.exit(3)): usable()\nexcept SystemExit: usable()",
    "the end within an endless kernel": "usable()\nthreading.Thread(target=lambda: pk.parallel_for(on('threads:2', 64), spin, "
                                        "np.zeros(64)), daemon=True).start()\ntime.sleep(.3)\nprint('done')",
    "weakref": "usable()\nclass A: pass\na = A()\nweakref.finalize(a, lambda: (usable(), print('done', flush=True)))",
}


@attack(1)
def exits(random, times):
    for _ in range(times):
        for text in EXITS.values():
            _script(text, wanted="done")
    return times * len(EXITS)


@attack(1)
def ctrl_c_ends_a_program(random, times):
    """The traceback says what happened, and the exit status is that of Ctrl-C."""
    for _ in range(times):
        out = _script("signal.signal(signal.SIGINT, signal.default_int_handler)\nplan = pk.plan(on('threads:2', 64), spin, np.zeros(64))\n"
                      "threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT)).start()\nplan()", code=-signal.SIGINT)
        assert "half written" in out and "KeyboardInterrupt" in out, out
    return times


@attack(1)
def garbage_collection_that_launches(random, times):
    """Finalizers that launch, and compile, wherever the collector runs them: within compilations too."""
    for k in range(times):
        left = [6]

        class Cycle:
            def __init__(self):
                self.me = self

            def __del__(self):
                if left[0]:
                    left[0] -= 1
                    x = np.zeros(10)
                    pk.parallel_for(on("threads:2", 10), fresh(random.random()), x)
        threshold = gc.get_threshold()
        gc.set_threshold(20)
        try:
            for n in range(6):
                Cycle()
                x = np.zeros(10)
                pk.parallel_for(on("serial", 10), fresh(n + 0.25), x)
                assert (x == n + 0.25).all()
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
    usable()
    return times


@attack(1)
def a_subinterpreter(random, times):
    """Refused by name, and the main interpreter goes on."""
    text = """
usable()
try:
    import _interpreters as subs
    make = lambda: subs.create("legacy")
except ImportError:
    import _xxsubinterpreters as subs
    make = lambda: subs.create(isolated=False)
sub = make()
inner = '''
import warnings; warnings.simplefilter("ignore")
said = "nothing"
try:
    import portable
except ImportError as error:
    said = repr(error)
with open(PLACE, "w") as file: file.write(said)
'''
import tempfile
place = tempfile.mktemp()
try: subs.run_string(sub, inner.replace("PLACE", repr(place)))
except Exception as error: print(error)
said = open(place).read()
assert "subinterpreter" in said, said
usable()
print("done", flush=True)
os._exit(0)
"""
    for _ in range(times):
        _script(text, wanted="done")
    return times


# ---- the state of floating-point arithmetic
def _libc_state():
    """(get, set) of the control word of x86's vector units."""
    import mmap
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("0fae1fc3"))  # stmxcsr (rdi); ret
    code.seek(16)
    code.write(bytes.fromhex("0fae17c3"))  # ldmxcsr (rdi); ret
    base = ctypes.addressof(ctypes.c_char.from_buffer(code))
    calls = [ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(base + at) for at in (0, 16)]
    word = ctypes.c_uint32()

    def get():
        calls[0](ctypes.addressof(word))
        return word.value & 0xFFC0

    def put(state):
        word.value = state
        calls[1](ctypes.addressof(word))
    get.code = code
    return get, put


@pk.kernel
def third(i, x, y):
    y[i] = x[i] / 3.0 + 1e-310


@attack(1)
def flush_to_zero_and_rounding(random, times):
    """The same bits whatever a library has set, on every host space, also of pools made in that state; the state stays."""
    import platform
    if platform.machine() not in ("x86_64", "AMD64"):
        return 0
    get, put = _libc_state()
    usual = get()
    x = np.array([1e-308, 3e-310, 1.0, 0.1] * 30_000)
    wanted, states = {}, (0x8000, 0x40, 0x2000, 0x4000, 0x6000, 0x8040)
    tasks = {"for": lambda space: (pk.parallel_for(on(space, len(x)), third, x, y), y.tobytes())[1],
             "reduce": lambda space: np.float64(pk.parallel_reduce(on(space, len(x)), value, x)).tobytes(),
             "scan": lambda space: (pk.parallel_scan(on(space, len(x)), value, x, out=y), y.tobytes())[1]}
    for _ in range(times):
        y = np.zeros(len(x))
        for name, task in tasks.items():
            wanted[name] = task("serial")
        for odd in states:
            put(usual | odd)
            try:
                for space in ("serial", "threads:2", f"threads:{random.randrange(3, 9)}"):
                    for name, task in tasks.items():
                        y.view(np.int64)[:] = 0
                        assert task(space) == wanted[name], (hex(odd), space, name)
                        assert get() == usual | odd
            finally:
                put(usual)
    return times * len(states)


# ---- limits
def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _maps():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def _flat(step, times, allowed):
    """Memory after the first half, and at the end, in bytes and maps."""
    marks = []
    for k in range(times):
        step(k)
        if k in (times // 2, times - 1):
            gc.collect()
            marks.append((_resident(), _maps()))
    (before, maps), (after, more) = marks
    grown = (after - before) / (times - times // 2)
    assert grown < allowed, f"{grown:.0f} bytes a step"
    assert more - maps < 100, f"{maps} maps, then {more}"
    print(f"  {grown:.0f} bytes a step, {maps} maps, then {more}")
    return times


@attack(300)
def kernels_that_come_and_go(random, times):
    x = np.zeros(10)
    return _flat(lambda k: pk.parallel_for(on("serial", 10), fresh(k % 7), x), times, 3000)


@pk.kernel
def by_constant(i, x, n):
    x[i] += n


@attack(300)
def values_of_static(random, times):
    """More values than a kernel keeps. (Where LLVM compiles, and nothing is on disk yet, LLVM itself keeps some 0.1 MB each time.)"""
    x, by_constant.compiled.most = np.zeros(10), 32
    done = _flat(lambda k: pk.parallel_for(on("serial", 10), by_constant, x, pk.static(k % 40 + 0.5)), times, 5000)
    assert len(by_constant.compiled) == 32
    return done


@attack(20_000)
def launches_plans_and_graphs(random, times):
    x = np.zeros(10)

    def step(k):
        pk.parallel_for(on(HOST[k % 4], 10), add_one, x)
        pk.plan(on("threads:2", 10), add_one, x)()
        if k % 10 == 0:
            with pk.capture("serial") as graph:
                pk.parallel_for(on("serial", 10), add_one, x)
            graph.replay()
    return _flat(step, times, 200)


@attack(1)
def a_limit_of_memory(random, times):
    """OutOfMemoryError or MemoryError; never an abort."""
    text = """
import resource
usable()
with open("/proc/self/statm") as file: now = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (MORE << 20), resource.RLIM_INFINITY))
kept, n = [], 0
try:
    for n in range(3000):
        kept.append(fresh(n / 7))
        pk.parallel_for(on("serial", 10), kept[-1], np.zeros(10))
except MemoryError as error:
    print("refused", n, type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept.clear()
usable()
"""
    for _ in range(times):
        _script(text.replace("MORE", str(random.choice((10, 40, 90)))), wanted="refused", seconds=600)
    return times


# ---- the environment
ENVIRONMENTS = (
    ("-O",), ("-OO",), ("-I", "-c"), ("-X", "dev"), ("-X", "utf8=0"),
    {"HOME": ""}, {"HOME": "/nonexistent"}, {"HOME": "relative"}, {"TMPDIR": "/nonexistent"}, {"LC_ALL": "C"},
    {"PORTABLE_CACHE": "0"}, {"PORTABLE_CACHE": "/dev/null"}, {"PORTABLE_CACHE": "/proc"}, {"PORTABLE_CACHE": "/dev/null/x"},
    {"PORTABLE_NUM_THREADS": "3"},
)


@attack(1)
def environments(random, times):
    for _ in range(times):
        for kind in ENVIRONMENTS:
            options = kind if isinstance(kind, tuple) and kind[0] != "-I" else ()
            _script("usable()\nprint('done')", *options, environment=kind if isinstance(kind, dict) else None, wanted="done")
    return times * len(ENVIRONMENTS)


_unused = atexit, weakref  # names that the scripts above find here
