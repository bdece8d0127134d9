"""Copies through a ring of pinned memory: LLVM IR that belongs to the thread pool's, whose threads copy, and
calls a device's driver. `Pool.ring` makes a ring's state; backends/cuda/staging.py is who has one."""

# Offsets in a ring's state, behind the ten words that `Pool.ring` sets, and bytes: of copies that threads
# share, of a thread's part at least, and of one of more than LARGE: a share for each thread, or a huge page.
# The system clears new memory by such pages, for the first thread that writes there, while others wait.
WORDS = {
    "RING_POOL": 80,
    "RING_THREADS": 88,
    "RING_SEGMENT": 96,  # the one that is filled, and how far
    "RING_USED": 104,
    "RING_SPARE": 112,
    "RING_EVENTS": 128,
    "RING_SEGMENTS": 8,
    "RING_MANY": 256 << 10,
    "RING_COPIED": 32 << 10,
    "RING_LARGE": 4 << 20,
    "RING_HUGE": 2 << 20,
}

TEXT = """
; Copy %n bytes, many of them by the threads of a ring's pool: `function` as pool_copy.
define internal void @ring_copy(ptr %ring, i64 %to, i64 %from, i64 %n, ptr %function) {{
  %block = alloca [2 x i64]
  %few = icmp ult i64 %n, {RING_MANY}
  br i1 %few, label %alone, label %together
alone:
  %to.p = inttoptr i64 %to to ptr
  %from.p = inttoptr i64 %from to ptr
  %done = call ptr @memcpy(ptr %to.p, ptr %from.p, i64 %n)
  ret void
together:
  %second = getelementptr i64, ptr %block, i64 1
  store i64 %to, ptr %block
  store i64 %from, ptr %second
  %pool.p = getelementptr i8, ptr %ring, i64 {RING_POOL}
  %pool = load ptr, ptr %pool.p
  %threads.p = getelementptr i8, ptr %ring, i64 {RING_THREADS}
  %threads = load i64, ptr %threads.p
  %each = udiv i64 %n, %threads
  %quarter = lshr i64 %each, 2
  %page = call i64 @llvm.umin.i64(i64 %each, i64 {RING_HUGE})
  %large = icmp ugt i64 %n, {RING_LARGE}
  %least = select i1 %large, i64 %page, i64 {RING_COPIED}
  %most = call i64 @llvm.umax.i64(i64 %quarter, i64 %least)
  %chunk = and i64 %most, -64
  call void @pool_run(ptr %pool, ptr %function, ptr %block, i64 0, i64 %n, i64 %chunk)
  ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; Queue copies of %n bytes from the host to a device; the code of what failed, or 0. Pieces lie one behind the
; other in the ring's segments. A segment that is left is marked, and is free when its mark is reached. Few
; bytes fill the beginnings of segments alone, which stay in a cache.
define i32 @ring_up(ptr %ring, i64 %target, i64 %source, i64 %n, i64 %piece) {{
  %words = load {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}}, ptr %ring
  %activate = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 0
  %context = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 1
  %wait = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 2
  %mark = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 3
  %queue = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 5
  %function = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 7
  %memory = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 8
  %bytes = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 9
  %segment.p = getelementptr i8, ptr %ring, i64 {RING_SEGMENT}
  %used.p = getelementptr i8, ptr %ring, i64 {RING_USED}
  %events = getelementptr i8, ptr %ring, i64 {RING_EVENTS}
  %few = icmp ult i64 %n, {RING_MANY}
  %near = select i1 %few, i64 {RING_MANY}, i64 %bytes
  %limit = call i64 @llvm.umin.i64(i64 %near, i64 %bytes)
  %active = call i32 %activate(ptr %context)
  br label %next
next:
  %at = phi i64 [ 0, %0 ], [ %at.next, %copied ]
  %code = phi i32 [ %active, %0 ], [ %queued, %copied ]
  %fine = icmp eq i32 %code, 0
  %more = icmp ult i64 %at, %n
  %on = and i1 %fine, %more
  br i1 %on, label %take, label %out
take:
  %left = sub i64 %n, %at
  %size = call i64 @llvm.umin.i64(i64 %left, i64 %piece)
  %segment = load i64, ptr %segment.p
  %used = load i64, ptr %used.p
  %end = add i64 %used, %size
  %full = icmp ugt i64 %end, %limit
  br i1 %full, label %leave, label %copy
leave:
  %own.p = getelementptr ptr, ptr %events, i64 %segment
  %own = load ptr, ptr %own.p
  %marked = call i32 %mark(ptr %own, ptr null)
  %after = add i64 %segment, 1
  %other = urem i64 %after, {RING_SEGMENTS}
  %free.p = getelementptr ptr, ptr %events, i64 %other
  %free = load ptr, ptr %free.p
  %waited = call i32 %wait(ptr %free)
  store i64 %other, ptr %segment.p
  br label %copy
copy:
  %here = phi i64 [ %segment, %take ], [ %other, %leave ]
  %begin = phi i64 [ %used, %take ], [ 0, %leave ]
  %skipped = mul i64 %here, %bytes
  %first = add i64 %memory, %skipped
  %place = add i64 %first, %begin
  %from = add i64 %source, %at
  call void @ring_copy(ptr %ring, i64 %place, i64 %from, i64 %size, ptr %function)
  br label %copied
copied:
  %to = add i64 %target, %at
  %queued = call i32 %queue(i64 %to, i64 %place, i64 %size, ptr null)
  %taken = add i64 %begin, %size
  %padded = add i64 %taken, 63
  %aligned = and i64 %padded, -64
  store i64 %aligned, ptr %used.p
  %at.next = add i64 %at, %size
  br label %next
out:
  ret i32 %code
}}

; Copy %n bytes from a device to the host; the code of what failed, or 0. While pieces are under way to %slots
; places of the ring, %step bytes apart, those that have come are taken out; threads are woken meanwhile.
define i32 @ring_down(ptr %ring, i64 %target, i64 %source, i64 %n, i64 %piece) {{
  %words = load {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}}, ptr %ring
  %activate = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 0
  %context = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 1
  %wait = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 2
  %mark = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 3
  %finish = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 4
  %queue = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 6
  %memory = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 8
  %bytes = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 9
  %events = getelementptr i8, ptr %ring, i64 {RING_EVENTS}
  %step = call i64 @llvm.umax.i64(i64 %bytes, i64 %piece)
  %whole = mul i64 %bytes, {RING_SEGMENTS}
  %slots = udiv i64 %whole, %step
  %one = icmp ule i64 %n, %piece
  %active = call i32 %activate(ptr %context)
  br label %look
look:
  %queued = phi i64 [ 0, %0 ], [ %queued.next, %under.way ], [ %queued, %taken ]
  %emptied = phi i64 [ 0, %0 ], [ %emptied, %under.way ], [ %emptied.next, %taken ]
  %code = phi i32 [ %active, %0 ], [ %asked, %under.way ], [ %came, %taken ]
  %fine = icmp eq i32 %code, 0
  br i1 %fine, label %ask, label %out
ask:
  %at = mul i64 %queued, %piece
  %more = icmp ult i64 %at, %n
  %waiting = sub i64 %queued, %emptied
  %room = icmp ult i64 %waiting, %slots
  %both = and i1 %more, %room
  br i1 %both, label %send, label %empty
send:
  %left = sub i64 %n, %at
  %size = call i64 @llvm.umin.i64(i64 %left, i64 %piece)
  %slot = urem i64 %queued, %slots
  %skipped = mul i64 %slot, %step
  %place = add i64 %memory, %skipped
  %from = add i64 %source, %at
  %asked = call i32 %queue(i64 %place, i64 %from, i64 %size, ptr null)
  br i1 %one, label %under.way, label %note
note:
  %event.p = getelementptr ptr, ptr %events, i64 %slot
  %event = load ptr, ptr %event.p
  %noted = call i32 %mark(ptr %event, ptr null)
  br label %under.way
under.way:
  %queued.next = add i64 %queued, 1
  br label %look
empty:
  %done.at = mul i64 %emptied, %piece
  %any = icmp ult i64 %done.at, %n
  br i1 %any, label %take, label %out
take:
  %is.first = icmp eq i64 %emptied, 0
  %many = icmp uge i64 %n, {RING_MANY}
  %asleep = and i1 %is.first, %many
  br i1 %asleep, label %rouse, label %await
rouse:
  %spare.p = getelementptr i8, ptr %ring, i64 {RING_SPARE}
  %pool.p = getelementptr i8, ptr %ring, i64 {RING_POOL}
  %pool = load ptr, ptr %pool.p
  call void @pool_run(ptr %pool, ptr @ring_nothing, ptr %spare.p, i64 0, i64 2, i64 1)
  br label %await
await:
  br i1 %one, label %all, label %mine
all:
  %finished = call i32 %finish(ptr null)
  br label %there
mine:
  %its.slot = urem i64 %emptied, %slots
  %its.p = getelementptr ptr, ptr %events, i64 %its.slot
  %its = load ptr, ptr %its.p
  %reached = call i32 %wait(ptr %its)
  br label %there
there:
  %came = phi i32 [ %finished, %all ], [ %reached, %mine ]
  %good = icmp eq i32 %came, 0
  br i1 %good, label %fetch, label %taken
fetch:
  %rest = sub i64 %n, %done.at
  %part = call i64 @llvm.umin.i64(i64 %rest, i64 %piece)
  %that.slot = urem i64 %emptied, %slots
  %before = mul i64 %that.slot, %step
  %found = add i64 %memory, %before
  %to = add i64 %target, %done.at
  call void @ring_copy(ptr %ring, i64 %to, i64 %found, i64 %part, ptr @pool_copy)
  br label %taken
taken:
  %emptied.next = add i64 %emptied, 1
  br label %look
out:
  ret i32 %code
}}

define internal void @ring_nothing(ptr %block, i64 %begin, i64 %end, i64 %worker) {{
  ret void
}}
"""
