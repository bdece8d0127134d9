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
    "RING_EVENTS": 128,
    "RING_LAUNCH": 192,  # the driver's cuLaunchKernel, a kernel of a device that copies, and its stamps
    "RING_MOVES": 200,
    "RING_STAMPS": 208,
    "RING_NEAR": 216,  # bytes that it copies at most
    "RING_SERIAL": 224,  # of its last copy
    "RING_SPINS": 232,  # pauses before the driver is asked
    "RING_PIECE": 16 << 10,  # that has a stamp
    "RING_TEAM": 1024,  # a piece's threads
    "RING_BLOCKS": 16,  # that take turns with pieces, at least, and pieces of a block where they are more
    "RING_EACH": 8,
    "RING_SHARES": 64,
    "RING_SHARE": 8,  # pieces that a thread takes together, and as many threads side by side
    "RING_SEGMENTS": 8,
    "RING_LEAST": 512 << 10,  # of a piece that an engine copies, at least, and at most up and down
    "RING_UP": 4 << 20,
    "RING_DOWN": 16 << 20,
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

; Bytes of a piece that an engine copies, whole pages: a share of all, within bounds.
define internal i64 @ring_piece(i64 %n, i64 %most, i64 %room) {{
  %share = udiv i64 %n, {RING_SEGMENTS}
  %least = call i64 @llvm.umax.i64(i64 %share, i64 {RING_LEAST})
  %bound = call i64 @llvm.umin.i64(i64 %least, i64 %most)
  %padded = add i64 %bound, 4095
  %pages = and i64 %padded, -4096
  %piece = call i64 @llvm.umin.i64(i64 %pages, i64 %room)
  ret i64 %piece
}}

; Launch a kernel that copies %n bytes and leaves %serial in the stamp of each piece that is there.
define internal i32 @ring_move(ptr %ring, i64 %to, i64 %from, i64 %n, i64 %stamps, i64 %serial) {{
  %values = alloca [5 x i64]
  %parameters = alloca [5 x ptr]
  %value.1 = getelementptr i64, ptr %values, i64 1
  %value.2 = getelementptr i64, ptr %values, i64 2
  %value.3 = getelementptr i64, ptr %values, i64 3
  %value.4 = getelementptr i64, ptr %values, i64 4
  store i64 %to, ptr %values
  store i64 %from, ptr %value.1
  store i64 %n, ptr %value.2
  store i64 %stamps, ptr %value.3
  store i64 %serial, ptr %value.4
  %parameter.1 = getelementptr ptr, ptr %parameters, i64 1
  %parameter.2 = getelementptr ptr, ptr %parameters, i64 2
  %parameter.3 = getelementptr ptr, ptr %parameters, i64 3
  %parameter.4 = getelementptr ptr, ptr %parameters, i64 4
  store ptr %values, ptr %parameters
  store ptr %value.1, ptr %parameter.1
  store ptr %value.2, ptr %parameter.2
  store ptr %value.3, ptr %parameter.3
  store ptr %value.4, ptr %parameter.4
  %launch.p = getelementptr i8, ptr %ring, i64 {RING_LAUNCH}
  %launch = load ptr, ptr %launch.p
  %function.p = getelementptr i8, ptr %ring, i64 {RING_MOVES}
  %function = load ptr, ptr %function.p
  %less = sub i64 %n, 1
  %whole = udiv i64 %less, {RING_PIECE}
  %pieces = add i64 %whole, 1
  %share = udiv i64 %pieces, {RING_EACH}
  %wide = call i64 @llvm.umax.i64(i64 %share, i64 {RING_BLOCKS})
  %blocks = call i64 @llvm.umin.i64(i64 %pieces, i64 %wide)
  %grid = trunc i64 %blocks to i32
  %code = call i32 %launch(
    ptr %function, i32 %grid, i32 1, i32 1, i32 {RING_TEAM}, i32 1, i32 1, i32 0, ptr null, ptr %parameters,
    ptr null
  )
  ret i32 %code
}}

; Whether a stamp has come, which is waited for as the driver waits, but not for ever. %block: target, pinned
; memory, stamps, serial, pauses, bytes, bytes that were taken.
define internal i1 @ring_came(ptr %block, i64 %piece) {{
  %words = load {{i64, i64, ptr, i64, i64}}, ptr %block
  %stamps = extractvalue {{i64, i64, ptr, i64, i64}} %words, 2
  %serial = extractvalue {{i64, i64, ptr, i64, i64}} %words, 3
  %spins = extractvalue {{i64, i64, ptr, i64, i64}} %words, 4
  %stamp.p = getelementptr i64, ptr %stamps, i64 %piece
  br label %look
look:
  %i = phi i64 [ %spins, %0 ], [ %i.less, %pause ]
  %stamp = load atomic i64, ptr %stamp.p acquire, align 8
  %here = icmp eq i64 %stamp, %serial
  %tired = icmp eq i64 %i, 0
  %done = or i1 %here, %tired
  br i1 %done, label %out, label %pause
pause:
  call void asm sideeffect "{pause}", "~{{memory}}"()
  %i.less = sub i64 %i, 1
  br label %look
out:
  ret i1 %here
}}

; The thread that copies waits for the first piece while others wake: they find a launch that is under way.
define internal void @ring_first(ptr %block, i64 %begin, i64 %end, i64 %worker) {{
  %own = icmp eq i64 %worker, 0
  br i1 %own, label %wait, label %out
wait:
  %came = call i1 @ring_came(ptr %block, i64 0)
  br label %out
out:
  ret void
}}

; Take shares [begin, end) out of pinned memory as they come: pieces come in about their order, so that a
; share is every eighth of 64, and eight threads follow them together.
define internal void @ring_take(ptr %block, i64 %begin, i64 %end, i64 %worker) {{
  %words = load {{i64, i64, ptr, i64, i64, i64, i64}}, ptr %block
  %target = extractvalue {{i64, i64, ptr, i64, i64, i64, i64}} %words, 0
  %memory = extractvalue {{i64, i64, ptr, i64, i64, i64, i64}} %words, 1
  %n = extractvalue {{i64, i64, ptr, i64, i64, i64, i64}} %words, 5
  %taken.p = getelementptr i64, ptr %block, i64 6
  br label %share
share:
  %k = phi i64 [ %begin, %0 ], [ %k.next, %counted ]
  %some = icmp ult i64 %k, %end
  br i1 %some, label %first, label %out
first:
  %row = udiv i64 %k, {RING_SHARE}
  %column = urem i64 %k, {RING_SHARE}
  %rows = mul i64 %row, {RING_SHARES}
  %own = add i64 %rows, %column
  br label %next
next:
  %i = phi i64 [ 0, %first ], [ %i.next, %take ]
  %bytes = phi i64 [ 0, %first ], [ %bytes.next, %take ]
  %skip = mul i64 %i, {RING_SHARE}
  %piece = add i64 %own, %skip
  %at = mul i64 %piece, {RING_PIECE}
  %within = icmp ult i64 %at, %n
  %left.some = icmp ult i64 %i, {RING_SHARE}
  %more = and i1 %within, %left.some
  br i1 %more, label %await, label %counted
await:
  %came = call i1 @ring_came(ptr %block, i64 %piece)
  br i1 %came, label %take, label %out
take:
  %to = add i64 %target, %at
  %from = add i64 %memory, %at
  %to.p = inttoptr i64 %to to ptr
  %from.p = inttoptr i64 %from to ptr
  %left = sub i64 %n, %at
  %size = call i64 @llvm.umin.i64(i64 %left, i64 {RING_PIECE})
  %done = call ptr @memcpy(ptr %to.p, ptr %from.p, i64 %size)
  %bytes.next = add i64 %bytes, %size
  %i.next = add i64 %i, 1
  br label %next
counted:
  atomicrmw add ptr %taken.p, i64 %bytes seq_cst
  %k.next = add i64 %k, 1
  br label %share
out:
  ret void
}}

; Copy %n bytes from a device to the host by the kernel: pieces are taken out when their stamps have come.
; Where not all were (much is queued before it, the device has failed, Ctrl-C), all are when the queue has
; ended.
define internal i32 @ring_near(ptr %ring, i64 %target, i64 %source, i64 %n) {{
  %block = alloca [7 x i64]
  %words = load {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}}, ptr %ring
  %finish = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 4
  %memory = extractvalue {{ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, i64}} %words, 8
  %serial.p = getelementptr i8, ptr %ring, i64 {RING_SERIAL}
  %before = load i64, ptr %serial.p
  %serial = add i64 %before, 1
  store i64 %serial, ptr %serial.p
  %stamps.p = getelementptr i8, ptr %ring, i64 {RING_STAMPS}
  %stamps = load i64, ptr %stamps.p
  %code = call i32 @ring_move(ptr %ring, i64 %memory, i64 %source, i64 %n, i64 %stamps, i64 %serial)
  %queued = icmp eq i32 %code, 0
  br i1 %queued, label %begin, label %failed
failed:
  ret i32 %code
begin:
  %spins.p = getelementptr i8, ptr %ring, i64 {RING_SPINS}
  %spins = load i64, ptr %spins.p
  %word.1 = getelementptr i64, ptr %block, i64 1
  %word.2 = getelementptr i64, ptr %block, i64 2
  %word.3 = getelementptr i64, ptr %block, i64 3
  %word.4 = getelementptr i64, ptr %block, i64 4
  %word.5 = getelementptr i64, ptr %block, i64 5
  %taken.p = getelementptr i64, ptr %block, i64 6
  store i64 %target, ptr %block
  store i64 %memory, ptr %word.1
  store i64 %stamps, ptr %word.2
  store i64 %serial, ptr %word.3
  store i64 %spins, ptr %word.4
  store i64 %n, ptr %word.5
  store i64 0, ptr %taken.p
  %pool.p = getelementptr i8, ptr %ring, i64 {RING_POOL}
  %pool = load ptr, ptr %pool.p
  call void @pool_run(ptr %pool, ptr @ring_first, ptr %block, i64 0, i64 2, i64 1)
  %first.p = inttoptr i64 %stamps to ptr
  %first = load atomic i64, ptr %first.p monotonic, align 8
  %begun = icmp eq i64 %first, %serial
  br i1 %begun, label %share, label %late
share:
  %less = sub i64 %n, 1
  %pieces = udiv i64 %less, {RING_PIECE}
  %rows = udiv i64 %pieces, {RING_SHARES}
  %all.rows = add i64 %rows, 1
  %shares = mul i64 %all.rows, {RING_SHARE}
  call void @pool_run(ptr %pool, ptr @ring_take, ptr %block, i64 0, i64 %shares, i64 1)
  br label %look
look:
  %taken = load atomic i64, ptr %taken.p seq_cst, align 8
  %complete = icmp eq i64 %taken, %n
  br i1 %complete, label %out, label %late
late:
  %ended = call i32 %finish(ptr null)
  %good = icmp eq i32 %ended, 0
  br i1 %good, label %copy, label %out
copy:
  call void @ring_copy(ptr %ring, i64 %target, i64 %memory, i64 %n, ptr @pool_copy)
  br label %out
out:
  %final = phi i32 [ 0, %look ], [ %ended, %late ], [ 0, %copy ]
  ret i32 %final
}}

; Queue copies of %n bytes from the host to a device; the code of what failed, or 0. Pieces lie one behind the
; other in the ring's segments. A segment that is left is marked, and is free when its mark is reached. Few
; bytes fill the beginnings of segments alone, which stay in a cache.
define i32 @ring_up(ptr %ring, i64 %target, i64 %source, i64 %n) {{
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
  %piece = call i64 @ring_piece(i64 %n, i64 {RING_UP}, i64 %bytes)
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
define i32 @ring_down(ptr %ring, i64 %target, i64 %source, i64 %n) {{
  %call = alloca [2 x ptr]
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
  %two = shl i64 %bytes, 1
  %piece = call i64 @ring_piece(i64 %n, i64 {RING_DOWN}, i64 %two)
  %step = call i64 @llvm.umax.i64(i64 %bytes, i64 %piece)
  %whole = mul i64 %bytes, {RING_SEGMENTS}
  %slots = udiv i64 %whole, %step
  %one = icmp ule i64 %n, %piece
  %active = call i32 %activate(ptr %context)
  %near.p = getelementptr i8, ptr %ring, i64 {RING_NEAR}
  %most = load i64, ptr %near.p
  %few = icmp ule i64 %n, %most
  %shared = icmp uge i64 %n, {RING_MANY}
  %middle = and i1 %few, %shared
  %odd = and i64 %source, 15 ; a kernel reads and writes 16 bytes at once
  %even = icmp eq i64 %odd, 0
  %close = and i1 %middle, %even
  br i1 %close, label %near, label %look
near:
  %finally = call i32 @ring_near(ptr %ring, i64 %target, i64 %source, i64 %n)
  ret i32 %finally
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
  %several = xor i1 %one, true
  %worth = and i1 %many, %several
  %asleep = and i1 %is.first, %worth
  br i1 %asleep, label %rouse, label %await
rouse:
  %pool.p = getelementptr i8, ptr %ring, i64 {RING_POOL}
  %pool = load ptr, ptr %pool.p
  %first = load ptr, ptr %events
  %second.p = getelementptr ptr, ptr %call, i64 1
  store ptr %wait, ptr %call
  store ptr %first, ptr %second.p
  call void @pool_run(ptr %pool, ptr @ring_reach, ptr %call, i64 0, i64 2, i64 1)
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

; The same for a mark.
define internal void @ring_reach(ptr %call, i64 %begin, i64 %end, i64 %worker) {{
  %words = load {{ptr, ptr}}, ptr %call
  %wait = extractvalue {{ptr, ptr}} %words, 0
  %event = extractvalue {{ptr, ptr}} %words, 1
  %own = icmp eq i64 %worker, 0
  br i1 %own, label %reach, label %out
reach:
  %reached = call i32 %wait(ptr %event)
  br label %out
out:
  ret void
}}
"""
