"""The first second of a process: python cold.py PATH SEED [watched] [closed] [umask=002] [once] [each]

portable is imported from PATH, a folder or an archive. From 2 to 8 threads begin at the same time, each with
other public words than the others, in random order: the first launches of the process. Each checks its
result.

    watched    the order of locks is checked, too (order.py)
    closed     a daemon has closed all descriptors after a first launch, and opened another user's folder
    once       only one launch
    each       each word is the first of a child process, and each module is imported

Prints "held" at the end.
"""

import faulthandler
import importlib
import importlib.util
import os
import pkgutil
import random
import sys
import threading

LIMIT = 240  # seconds until a process that hangs prints its stack
path, seed, *how = sys.argv[1:]
if sys.stderr:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
sys.path[:0] = [path, os.path.dirname(os.path.abspath(__file__))]
for word in how:
    if word.startswith("umask="):
        os.umask(int(word[6:], 8))
violations = []
if "watched" in how:
    import order

    violations = order.watch()

import numpy as np  # noqa: E402

import portable as pk  # noqa: E402

HOST, N = ("serial", "threads:2", "threads:3", "threads:5"), 20_000


@pk.kernel
def add(i, a, x):
    x[i] += a


@pk.kernel
def add_until(i, n, x):
    k = 0
    while k < n:
        x[i] += 1.0
        k += 1


@pk.kernel
def value(i, x):
    return x[i]


@pk.kernel
def row(i, j, x):
    x[i, j] = pk.exp(0.0) + i * 10 + j


@pk.kernel
def team_sum(team, x, out):
    total = team.reduce(x[team.league_rank, team.rank])
    if team.rank == 0:
        out[team.league_rank] = total


@pk.kernel
def histogram(i, x, counts):
    pk.atomic_add(counts, i % 8, x[i])


@pk.kernel
def drawn(i, x):
    x[i] = pk.random.uniform(7, i, 0)


@pk.kernel
def shifted(i, x, by):
    x[i] += by


WORDS = {}


def word(f):
    WORDS[f.__name__] = f
    return f


def on(space, n=N):
    return pk.RangePolicy(0, n, space=space)


def require(holds):
    if not holds:  # works under -O, too
        raise AssertionError


@word
def launch(space):
    x = np.zeros(N)
    pk.parallel_for(on(space), add, 2.0, x)
    require((x == 2.0).all())


@word
def loop(space):
    x = np.zeros(N)
    pk.parallel_for(on(space), add_until, 3, x)
    require((x == 3.0).all())


@word
def plan(space):
    x = np.zeros(N)
    again = pk.plan(on(space), add, 1.0, x)
    again(), again()
    require((x == 2.0).all())


@word
def graph(space):
    x = np.zeros(N)
    with pk.capture(space, times=2) as recorded:
        pk.parallel_for(on(space), add, 1.0, x)
        pk.parallel_for(on(space), add_until, 1, x)
    recorded.replay()
    require((x == 4.0).all())


@word
def reduction(space):
    require(pk.parallel_reduce(on(space), value, np.ones(N)) == N)


@word
def scan(space):
    out = np.zeros(N)
    require(pk.parallel_scan(on(space), value, np.ones(N), out=out) == N and out[9] == 10.0)


@word
def box(space):
    x = np.zeros((9, 9))
    pk.parallel_for(pk.MDRangePolicy((0, 0), (9, 9), space=space), row, x)
    require(x[3, 4] == 35.0)


@word
def team(space):
    out = np.zeros(6)
    pk.parallel_for(pk.TeamPolicy(6, 8, space=space), team_sum, np.ones((6, 8)), out)
    require((out == 8.0).all())


@word
def scatter(space):
    counts = np.zeros(8)
    pk.parallel_for(on(space), histogram, np.ones(N), pk.ScatterView(counts))
    require((counts == N / 8).all())


@word
def copies(space):
    x, y = np.ones(1 << 20), np.zeros(1 << 20)
    pk.deep_copy(y, x)
    require((y == 1.0).all())


@word
def algorithm(space):
    with pk.use(space):
        require((np.asarray(pk.argsort(np.array([3.0, 1.0, 2.0]))) == [1, 2, 0]).all())


@word
def numbers(space):
    x = np.zeros(100)
    pk.parallel_for(on(space, 100), drawn, x)
    require(((x > 0.0) & (x < 1.0)).all())


@word
def constant(space):
    x = np.zeros(100)
    pk.parallel_for(on(space, 100), shifted, x, pk.static(random.random()))
    require(len(set(x.tolist())) == 1)


@word
def debug_build(space):
    x = np.zeros(100)
    with pk.use(space, debug=True):
        pk.parallel_for(100, add, 1.0, x)
    require((x == 1.0).all())


@word
def checked(space):
    x = np.zeros(20)
    pk.parallel_for(on("checked", 20), add, 1.0, x)
    require((x == 1.0).all())


@word
def check(space):
    require(pk.check(on("checked", 20), add, 1.0, np.zeros(20)).ok)


@word
def count(space):
    require(pk.count(on("serial", 100), add, 1.0, np.zeros(100)))


@word
def explained(space):
    require("add" in str(pk.explain(on(space), add, 1.0, np.zeros(N))))


@word
def spaces(space):
    require(pk.unavailable_because("serial") is None and pk.concurrency("threads:3") == 3)
    pk.fence(space)


def numbas(space):
    """Launch in numba's threads, and call a numba function in a kernel; the import takes seconds."""
    import numba

    twice = numba.njit(lambda a: 2.0 * a)

    @pk.kernel
    def doubled(i, x):
        x[i] = twice(x[i])

    for where in ("numba", space):
        x = np.ones(N)
        pk.parallel_for(on(where), doubled, x)
        require((x == 2.0).all())


def run_side_by_side(draw):
    """Run some words in each thread, all at the same time; return the failures."""
    n, wrong = draw.randint(2, 8), []
    if draw.random() < 0.15 and importlib.util.find_spec("numba"):
        word(numbas)
    together = threading.Barrier(n)
    work = [
        [(draw.choice(sorted(WORDS)), draw.choice(HOST)) for _ in range(draw.randint(1, 3))] for _ in range(n)
    ]

    def begin(words):
        together.wait()
        for name, space in words:
            try:
                WORDS[name](space)
            except BaseException as error:
                wrong.append(f"{name} on {space}: {error!r}")

    threads = [threading.Thread(target=begin, args=(words,), daemon=True) for words in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def run_each():
    """Run each word as the first one of a process, forked before any launch; return the failures."""
    wrong, given = [], os.pipe()
    if importlib.util.find_spec("numba"):
        word(numbas)
    for name, space in [(name, space) for name in WORDS for space in ("serial", "threads:2")]:
        if not (child := os.fork()):
            WORDS[name](space)
            os.write(given[1], "".join(f"{name} on {space} first: {text}" for text in violations).encode())
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            wrong.append(f"{name} on {space}")
    os.close(given[1])
    with open(given[0]) as told:
        wrong += told.read().splitlines()
    for name in (pk.__name__, f"{pk.__name__}.models"):
        # in a checkout the path of portable is the whole checkout, with tests and docs
        folder = importlib.util.find_spec(name).submodule_search_locations[:1]
        for module in pkgutil.walk_packages(folder, f"{name}."):
            if not module.name.startswith("portable.numba.") and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    return wrong


def main():
    draw = random.Random(int(seed))
    if "once" in how:
        launch("serial")
        return []
    if "each" in how:
        return run_each()
    if "closed" in how:
        launch("serial")  # the cache's folder is open by now
        os.closerange(3, 256)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        foreign = os.path.abspath("foreign")
        os.mkdir(foreign, 0o700)
        for _ in range(24):
            os.open(foreign, os.O_RDONLY)
    wrong = run_side_by_side(draw)
    if "closed" in how and os.listdir(foreign):
        wrong.append(f"a folder of somebody else has {os.listdir(foreign)}")
    return wrong


failed = main() + violations
print("\n".join(failed) or "held", flush=True)
sys.exit(bool(failed))
