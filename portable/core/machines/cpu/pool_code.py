"""The thread pool's text: LLVM IR over POSIX threads, and the layout of its state. `pool.py` says how it
works."""

import ctypes
import functools
import platform
import time

import llvmlite.binding as llvm

from . import ring_code

# How long a worker without work spins before it sleeps; and, where the last sleep was a short one, how many
# times as long: what shortly follows one launch is likely to follow the next as shortly.
SPIN_MICROSECONDS, PATIENCE = 30, 10
# a thread takes this part of what is left for each, where it may take many chunks at once
ROUNDS = 4

# Offsets in the pool's state. What different threads write lies 128 bytes apart: prefetchers fetch lines in
# pairs.
AT = {
    "GATE": 0,
    "NEXT": 128,  # the next chunk to be taken
    "JOB": 256,  # fn, block, begin, end, chunk, number of the last chunk, divisor of what one thread takes
    "SLEEPERS": 384,  # workers that sleep, or are about to
    "WAITING": 392,  # 1: the launching thread sleeps, or is about to
    "STOP": 400,
    "SPINS": 408,  # pauses before sleep
    "WORKERS": 416,  # threads besides the caller
    "BORN": 424,  # gives each thread its number
    "CORES": 432,
    "BUSY": 440,  # 1: a launch is under way; a signal handler that runs in it may launch again
    "MUTEX": 512,  # this and the conditions: the largest known have 64 bytes
    "WORK": 640,  # what sleeping workers wait for
    "DONE": 768,  # what a sleeping launch waits for
    "INSIDE": 896,  # of worker k, 128 k bytes further on: whether it may be inside
}

_C_FUNCTIONS = (
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "clock_gettime",
    "memcpy",
)

_FUNCTIONS = "pool_run", "pool_worker", "pool_stop", "pool_copy", "ring_up", "ring_down", "pool_pause"

# The gate is open where it is odd. Who enters says so first, and then looks at the gate again; a launch
# closes it first, and then waits until nobody is inside: in sequentially consistent order, so that one of
# them sees the other. 64 bits outlast a process.
_IR = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare i1 @portable_ends(ptr, i64)
declare void @portable_begins(ptr)

define void @pool_pause(i64 %spins) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %after, %loop ]
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %after = add i64 %i, 1
  %more = icmp ult i64 %after, %spins
  br i1 %more, label %loop, label %out
out:
  ret void
}}

; The time of day in nanoseconds.
define internal i64 @now() {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 0, ptr %time)
  %ns.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %ns = load i64, ptr %ns.p
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}}

; May a worker that has been in launch %seen enter? Only an open launch, and each launch once.
define internal i1 @may_enter(i64 %gate, i64 %seen) alwaysinline {{
  %open = trunc i64 %gate to i1
  %new = icmp ne i64 %gate, %seen
  %both = and i1 %open, %new
  ret i1 %both
}}

; Take chunks until none is left. Chunk k is [begin + k * chunk, ...), whoever takes it. Of those that are
; left a thread takes one in %per at once, one at least, and runs them as one: all threads end together.
define internal void @work(ptr %pool, i64 %worker) {{
entry:
  %next = getelementptr i8, ptr %pool, i64 {NEXT}
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %words = load {{ptr, ptr, i64, i64, i64, i64, i64}}, ptr %job
  %fn = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 0
  %block = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 1
  %begin = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 2
  %end = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 3
  %chunk = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 4
  %last = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 5
  %per = extractvalue {{ptr, ptr, i64, i64, i64, i64, i64}} %words, 6
  %before = load atomic i64, ptr %next monotonic, align 8
  %late = icmp ugt i64 %before, %last
  br i1 %late, label %out, label %take
take:
  %known = phi i64 [ %before, %entry ], [ %after, %run ] ; so many at least are taken
  %ends = call i1 @portable_ends(ptr %block, i64 %worker)
  br i1 %ends, label %out, label %next.chunk
next.chunk:
  %left = sub i64 %last, %known
  %share = udiv i64 %left, %per
  %n = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %k = atomicrmw add ptr %next, i64 %n monotonic
  %some = icmp ule i64 %k, %last
  br i1 %some, label %run, label %out
run:
  %skip = mul i64 %k, %chunk
  %from = add i64 %begin, %skip
  %size = mul i64 %n, %chunk
  %full = add i64 %from, %size
  %after = add i64 %k, %n
  %was.last = icmp ugt i64 %after, %last
  %to = select i1 %was.last, i64 %end, i64 %full
  call void %fn(ptr %block, i64 %from, i64 %to, i64 %worker)
  br i1 %was.last, label %out, label %take
out:
  ret void
}}

; Whether a worker is inside.
define internal i1 @is_shared(ptr %pool) {{
entry:
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load i64, ptr %workers.p
  br label %next
next:
  %k = phi i64 [ %workers, %entry ], [ %k.less, %look ]
  %none = icmp eq i64 %k, 0
  br i1 %none, label %no, label %look
look:
  %at = mul i64 %k, 128
  %first = getelementptr i8, ptr %pool, i64 {INSIDE}
  %inside.p = getelementptr i8, ptr %first, i64 %at
  %inside = load atomic i64, ptr %inside.p seq_cst, align 8
  %k.less = sub i64 %k, 1
  %out = icmp eq i64 %inside, 0
  br i1 %out, label %next, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Wake two sleepers, if there are any.
define internal void @wake(ptr %pool) {{
  %sleepers.p = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %any = icmp sgt i64 %sleepers, 0
  br i1 %any, label %signal, label %out
signal:
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %cond = getelementptr i8, ptr %pool, i64 {WORK}
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %cond)
  call i32 @pthread_cond_signal(ptr %cond)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %out
out:
  ret void
}}

; %step: the indices of a chunk; less than 0 where a thread may take many chunks at once.
define void @pool_run(ptr %pool, ptr %fn, ptr %block, i64 %begin, i64 %end, i64 %step) {{
  %time = alloca [2 x i64]
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %enter, label %return
enter:
  %busy.p = getelementptr i8, ptr %pool, i64 {BUSY}
  %busy = load i64, ptr %busy.p
  %nested = icmp ne i64 %busy, 0
  br i1 %nested, label %inside.another, label %post
inside.another:
  call void %fn(ptr %block, i64 %begin, i64 %end, i64 0)
  br label %return
post:
  store i64 1, ptr %busy.p
  call void @portable_begins(ptr %block)
  %next = getelementptr i8, ptr %pool, i64 {NEXT}
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %total = sub i64 %end, %begin
  %less = sub i64 %total, 1
  %many = icmp slt i64 %step, 0
  %minus = sub i64 0, %step
  %chunk = select i1 %many, i64 %minus, i64 %step
  %last = udiv i64 %less, %chunk
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load i64, ptr %workers.p
  %threads = add i64 %workers, 1
  %rounds = mul i64 %threads, {ROUNDS}
  %per = select i1 %many, i64 %rounds, i64 -1
  %block.p = getelementptr i64, ptr %job, i64 1
  %begin.p = getelementptr i64, ptr %job, i64 2
  %end.p = getelementptr i64, ptr %job, i64 3
  %chunk.p = getelementptr i64, ptr %job, i64 4
  %last.p = getelementptr i64, ptr %job, i64 5
  %per.p = getelementptr i64, ptr %job, i64 6
  store ptr %fn, ptr %job
  store ptr %block, ptr %block.p
  store i64 %begin, ptr %begin.p
  store i64 %end, ptr %end.p
  store i64 %chunk, ptr %chunk.p
  store i64 %last, ptr %last.p
  store i64 %per, ptr %per.p
  store atomic i64 0, ptr %next monotonic, align 8
  %have.help = icmp sgt i64 %workers, 0
  %need.help = icmp ugt i64 %last, 0
  %help = and i1 %have.help, %need.help
  br i1 %help, label %open, label %alone
alone:
  call void @work(ptr %pool, i64 0)
  br label %out
open:
  atomicrmw add ptr %pool, i64 1 seq_cst
  call void @wake(ptr %pool)
  call void @work(ptr %pool, i64 0)
  atomicrmw add ptr %pool, i64 1 seq_cst
  %spins.p = getelementptr i8, ptr %pool, i64 {SPINS}
  %spins = load i64, ptr %spins.p
  br label %spin
spin:
  %i = phi i64 [ %spins, %open ], [ %i.less, %pause ]
  %shared = call i1 @is_shared(ptr %pool)
  br i1 %shared, label %spin.more, label %out
spin.more:
  %tired = icmp eq i64 %i, 0
  br i1 %tired, label %announce, label %pause
pause:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %i.less = sub i64 %i, 1
  br label %spin
announce:
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %cond = getelementptr i8, ptr %pool, i64 {DONE}
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %waiting seq_cst, align 8
  br label %look
look:
  %shared.now = call i1 @is_shared(ptr %pool)
  br i1 %shared.now, label %sleep, label %rise
sleep: ; not for long: a worker may be in a loop without end, and only this thread hears of Ctrl-C
  call i32 @clock_gettime(i32 0, ptr %time)
  %ns.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %ns = load i64, ptr %ns.p
  %later = add i64 %ns, 50000000
  %more.seconds = udiv i64 %later, 1000000000
  %then = add i64 %seconds, %more.seconds
  %then.ns = urem i64 %later, 1000000000
  store i64 %then, ptr %time
  store i64 %then.ns, ptr %ns.p
  call i32 @pthread_cond_timedwait(ptr %cond, ptr %mutex, ptr %time)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call i1 @portable_ends(ptr %block, i64 0)
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
rise:
  store atomic i64 0, ptr %waiting seq_cst, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %out
out:
  store i64 0, ptr %busy.p
  br label %return
return:
  ret void
}}

define ptr @pool_worker(ptr %pool) {{
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %waiting.p = getelementptr i8, ptr %pool, i64 {WAITING}
  %stop.p = getelementptr i8, ptr %pool, i64 {STOP}
  %spins.p = getelementptr i8, ptr %pool, i64 {SPINS}
  %born.p = getelementptr i8, ptr %pool, i64 {BORN}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %work = getelementptr i8, ptr %pool, i64 {WORK}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %cores.p = getelementptr i8, ptr %pool, i64 {CORES}
  %cores = load i64, ptr %cores.p
  %worker = atomicrmw add ptr %born.p, i64 1 monotonic
  %at = mul i64 %worker, 128
  %first = getelementptr i8, ptr %pool, i64 {INSIDE}
  %inside = getelementptr i8, ptr %first, i64 %at
  %has.core = icmp slt i64 %worker, %cores
  %all.spins = load i64, ptr %spins.p
  %few = select i1 %has.core, i64 %all.spins, i64 0
  %many = mul i64 %few, {PATIENCE}
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %seen, %awake ], [ %seen.next, %out ], [ %seen.next, %tell ]
  %spins = phi i64 [ %few, %entry ], [ %spins.chosen, %awake ], [ %spins.next, %out ], [ %spins.next, %tell ]
  br label %spin
spin:
  %i = phi i64 [ %spins, %idle ], [ %i.less, %pause ]
  %gate = load atomic i64, ptr %pool acquire, align 8
  %may = call i1 @may_enter(i64 %gate, i64 %seen)
  br i1 %may, label %enter, label %spin.more
spin.more:
  %tired = icmp eq i64 %i, 0
  br i1 %tired, label %announce, label %pause
pause:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %i.less = sub i64 %i, 1
  br label %spin
announce:
  %asleep.from = call i64 @now()
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers, i64 1 seq_cst
  %stop.before = load atomic i64, ptr %stop.p seq_cst, align 8
  %gate.before = load atomic i64, ptr %pool seq_cst, align 8
  %may.before = call i1 @may_enter(i64 %gate.before, i64 %seen)
  %stopped = icmp ne i64 %stop.before, 0
  %up = or i1 %may.before, %stopped
  br i1 %up, label %rise, label %sleep
sleep:
  call i32 @pthread_cond_wait(ptr %work, ptr %mutex)
  br label %rise
rise:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopping = icmp ne i64 %stop, 0
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br i1 %stopping, label %end, label %awake
awake: ; too late for this launch, perhaps, but not for the next
  %asleep.until = call i64 @now()
  %asleep = sub i64 %asleep.until, %asleep.from
  %short = icmp ult i64 %asleep, {SHORT}
  %few.before = icmp eq i64 %spins, %few
  %worth.it = and i1 %short, %few.before
  %spins.chosen = select i1 %worth.it, i64 %many, i64 %few
  %gate.now = load atomic i64, ptr %pool seq_cst, align 8
  %may.now = call i1 @may_enter(i64 %gate.now, i64 %seen)
  br i1 %may.now, label %chain, label %idle
chain:
  call void @wake(ptr %pool)
  br label %enter
enter: ; whoever finds the gate closed meanwhile leaves at once
  %spins.next = phi i64 [ %spins, %spin ], [ %spins.chosen, %chain ]
  store atomic i64 1, ptr %inside seq_cst, align 8
  %gate.then = load atomic i64, ptr %pool seq_cst, align 8
  %in.time = call i1 @may_enter(i64 %gate.then, i64 %seen)
  br i1 %in.time, label %share, label %out
share:
  call void @work(ptr %pool, i64 %worker)
  br label %out
out:
  %seen.next = phi i64 [ %seen, %enter ], [ %gate.then, %share ]
  store atomic i64 0, ptr %inside seq_cst, align 8
  %waiting = load atomic i64, ptr %waiting.p seq_cst, align 8
  %launcher.sleeps = icmp ne i64 %waiting, 0
  br i1 %launcher.sleeps, label %tell, label %idle
tell:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %done)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %idle
end:
  ret ptr null
}}

; Bytes [begin, end) of a copy from the second address of %block to the first.
define void @pool_copy(ptr %block, i64 %begin, i64 %end, i64 %worker) {{
  %target = load ptr, ptr %block
  %source.p = getelementptr ptr, ptr %block, i64 1
  %source = load ptr, ptr %source.p
  %to = getelementptr i8, ptr %target, i64 %begin
  %from = getelementptr i8, ptr %source, i64 %begin
  %size = sub i64 %end, %begin
  %done = call ptr @memcpy(ptr %to, ptr %from, i64 %size)
  ret void
}}

define void @pool_stop(ptr %pool) {{
  %stop = getelementptr i8, ptr %pool, i64 {STOP}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %work = getelementptr i8, ptr %pool, i64 {WORK}
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %stop seq_cst, align 8
  call i32 @pthread_cond_broadcast(ptr %work)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
"""


@functools.cache
def text():
    """The pool's text, which calls functions of stop.py's; "" where there are no POSIX threads."""
    try:
        for name in _C_FUNCTIONS:
            llvm.add_symbol(name, ctypes.cast(posix(name), ctypes.c_void_p).value)
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no CDLL(None)
        return ""
    pause = {"x86_64": "pause", "AMD64": "pause", "aarch64": "isb", "arm64": "isb"}.get(
        platform.machine(), ""
    )
    known = (
        {"ROUNDS": ROUNDS, "PATIENCE": PATIENCE, "SHORT": 1000 * PATIENCE * SPIN_MICROSECONDS}
        | AT
        | ring_code.WORDS
    )
    return (_IR + ring_code.TEXT).format(pause=pause, **known)


class Code:
    """Addresses of the pool's functions: `run`, `worker`, `stop`, `copy`, `up`, `down`; `spins`: pauses
    before sleep.

    Parameters
    ----------
    code : function, name -> address, which keeps them in memory
    """

    def __init__(self, code):
        self.code = code
        self.run, self.worker, self.stop, self.copy, self.up, self.down, pause_many = (
            code(name) for name in _FUNCTIONS
        )
        self.spins = _spins(ctypes.CFUNCTYPE(None, ctypes.c_int64)(pause_many))


@functools.cache
def _library():
    return ctypes.CDLL(None)


def posix(name):
    """The C library's function `name`; AttributeError or OSError where there is none."""
    return getattr(_library(), name)


def _spins(pause_many):
    """How many pauses last SPIN_MICROSECONDS: one takes 10 to 140 cycles, depending on the processor."""
    n, shortest = 1000, 1.0
    for _ in range(3):
        begin = time.perf_counter()
        pause_many(n)
        shortest = min(shortest, time.perf_counter() - begin)
    return max(1, int(n * SPIN_MICROSECONDS * 1e-6 / shortest))
