"""Attacks by exits, finalizers, interpreters, environments and the state of arithmetic."""

import ctypes
import gc
import os
import signal

import numpy as np

import portable as pk

from ..processes import python
from .victims import attack, fresh, on, usable, value


_FIRST = """
import os, signal, sys, threading, time, weakref
import numpy as np
import portable as pk
from tests.hostile.victims import *
"""


def _script(text, *options, code=0, wanted="", environment=None, seconds=120):
    """Run a program; check that it ends with status `code` and that its output contains `wanted`."""
    text = _FIRST + text
    done = python(
        *options, "-c", text, timeout=seconds, env={**os.environ, **(environment or {})}, check=False
    )
    assert done.returncode == code and wanted in done.stdout, (
        done.returncode,
        done.stdout,
        done.stderr[-2000:],
    )
    assert "Fatal" not in done.stderr and "free()" not in done.stderr, done.stderr
    return done.stdout + done.stderr


_SAY = """
def say():
    usable()
    print("done", flush=True)
"""
EXITS = {
    "atexit": "import atexit\nusable()\natexit.register(say)",
    "atexit, first launch": "import atexit\natexit.register(say)",
    "__del__": "class D:\n    def __del__(self): say()\nd = D()\nusable()\ndel d",
    "weakref": "usable()\nclass A: pass\na = A()\nweakref.finalize(a, say)",
    "a thread that lasts": "threading.Thread(target=lambda: (time.sleep(.3), say())).start()",
    "daemon": """
def launch():
    while True:
        usable()
usable()
threading.Thread(target=launch, daemon=True).start()
time.sleep(.3)
print("done")
""",
    "sys.exit in a listener": """
say()
try:
    with pk.listening(lambda *event: sys.exit(3)):
        usable()
except SystemExit:
    usable()
""",
    "the end within an endless kernel": """
usable()
x = np.zeros(64)
threading.Thread(target=lambda: pk.parallel_for(on("threads:2", 64), spin, x), daemon=True).start()
time.sleep(.3)
print("done")
""",
}


@attack(1)
def exits(random, times):
    for _ in range(times):
        for text in EXITS.values():
            _script(_SAY + text, wanted="done")
    return times * len(EXITS)


@attack(1)
def ctrl_c_ends_a_program(random, times):
    """The traceback states the cause, and the exit status is that of Ctrl-C."""
    for _ in range(times):
        out = _script(
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "plan = pk.plan(on('threads:2', 64), spin, np.zeros(64))\n"
            "threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT)).start()\nplan()",
            code=-signal.SIGINT,
        )
        assert "half written" in out and "KeyboardInterrupt" in out, out
    return times


@attack(1)
def garbage_collection_that_launches(random, times):
    """Launch and compile in finalizers, wherever the collector runs them: also within compilations."""
    for k in range(times):
        usable()
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
    """A subinterpreter is refused by name, and the main interpreter continues."""
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


# ---- the environment
ENVIRONMENTS = (
    ("-O",),
    ("-OO",),
    ("-I", "-c"),
    ("-X", "dev"),
    ("-X", "utf8=0"),
    {"HOME": ""},
    {"HOME": "/nonexistent"},
    {"HOME": "relative"},
    {"TMPDIR": "/nonexistent"},
    {"LC_ALL": "C"},
    {"PORTABLE_CACHE": "0"},
    {"PORTABLE_CACHE": "/dev/null"},
    {"PORTABLE_CACHE": "/proc"},
    {"PORTABLE_CACHE": "/dev/null/x"},
    {"PORTABLE_NUM_THREADS": "3"},
)


@attack(1)
def environments(random, times):
    for _ in range(times):
        for kind in ENVIRONMENTS:
            options = kind if isinstance(kind, tuple) and kind[0] != "-I" else ()
            _script(
                "usable()\nprint('done')",
                *options,
                environment=kind if isinstance(kind, dict) else None,
                wanted="done",
            )
    return times * len(ENVIRONMENTS)


# ---- the state of floating-point arithmetic
def _libc_state():
    """Return functions (get, set) of the control word of x86's vector units."""
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
    """Results have the same bits whatever mode a library has set, on every host space and in pools created in
    that mode; the mode itself is kept."""
    import platform

    if platform.machine() not in ("x86_64", "AMD64"):
        return 0
    get, put = _libc_state()
    usual = get()
    x = np.array([1e-308, 3e-310, 1.0, 0.1] * 30_000)
    wanted, states = {}, (0x8000, 0x40, 0x2000, 0x4000, 0x6000, 0x8040)
    tasks = {
        "for": lambda space: (pk.parallel_for(on(space, len(x)), third, x, y), y.tobytes())[1],
        "reduce": lambda space: np.float64(pk.parallel_reduce(on(space, len(x)), value, x)).tobytes(),
        "scan": lambda space: (pk.parallel_scan(on(space, len(x)), value, x, out=y), y.tobytes())[1],
    }
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
