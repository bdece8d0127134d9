"""Loops in reverse: their trips put again, the last one first.

What a trip's adjoint needs of the numbers that the loop carries is kept at `N_KEPT` places of the loop, and
within the part that is worked on again at as many; between those, trips are run again.
"""

from __future__ import annotations

import functools

from ..core.compiler.reading.tree import Block, Call, Leave, Loop, Operation, Set, Variable, View, inside
from ..core.language import types as t
from .reverse import LEFT, Scope, dtype_of, lost, zero

N_KEPT = 64


def loop(r, s, env):
    """Put a loop of the text, and its adjoint on the tape; `r`: a Reverse."""
    if s.form == "range" and not isinstance(s.step, int):
        r.refuse(s, "a range whose step is known at run time alone has no reverse mode")
    if s.form == "trips":
        unrolled(r, s.trips, env)
        env[LEFT] = env[LEFT] if _returns(s) else r.build.const(0)
        return
    keys = [key for key in changed(r, s) if key in env or key.__class__ is Variable]
    env |= {key: zero(key.dtype) for key in keys if key not in env}
    entry, n = dict(env), all_trips(r, s, env, keys)
    after = {key: env[key] for key in keys if env[key] in r.live}
    r.tape.append(functools.partial(backwards, r, s, n, entry, keys, after))


def all_trips(r, s, env, keys):
    """Put the trips of a loop; how many there are."""
    n = count(r, s, env) if s.form == "range" else None
    if n is None or s.exits or s.returns:
        return Search(r, s, n, env, keys).trips()
    Carried(r, s, env, keys).put(functools.partial(counted, r, n))
    env[LEFT] = r.build.const(0)
    return n


def unrolled(r, trips, env):
    """The trips of an unrolled loop, which may be left."""
    build = r.build
    for k, block in enumerate(trips):
        r.forward(block.body, env)
        left = env[LEFT]
        if left.const is None:
            env[LEFT] = build.select(build.compare("==", left, build.const(1)), build.const(0), left)
            r.rest(functools.partial(unrolled, r, trips[k + 1 :]), env)
            break
        if left.const > 1:
            break
        env[LEFT] = build.const(0)
    returned(r, env)


def returned(r, env):
    """Forget how a loop was left, but for a return."""
    build, left = r.build, env[LEFT]
    if left.const is not None:
        env[LEFT] = build.const(left.const * (left.const == 3))
    else:
        env[LEFT] = build.select(build.compare("==", left, build.const(3)), left, build.const(0))


def _returns(node):
    """Return True if a return may leave a loop."""
    return any(
        s.__class__ is Leave and s.how == "return" or s.__class__ is not Call and _returns(s)
        for block in inside(node)
        for s in block.body
    )


def changed(r, node):
    """Return the targets of a node's assignments: variables, and elements of local arrays."""
    found = {}
    for s in (s for block in inside(node) for s in block.body):
        sets = s.setup if s.__class__ is Call else s.results if s.__class__ is Leave else [s]
        found |= dict.fromkeys(q.variable for q in sets if q.__class__ is Set)
        if s.__class__ is Operation and s.op in ("store", "atomic"):
            found |= dict.fromkeys(r.target.elements(s.view))
        found |= changed(r, s)
    return found


def count(r, s, env):
    """Return the number of a range's trips, which may be negative."""
    build, (start, stop) = r.build, (r.known(v, env) for v in (s.start, s.stop))
    r.need(start, stop)
    low, high = (start, stop) if s.step > 0 else (stop, start)
    n = high if low.const == 0 else build.binary("-", high, low)
    return n if abs(s.step) == 1 else _parts(build, n, build.const(abs(s.step)))


def _parts(build, n, size):
    """n / size, rounded up."""
    return build.binary("//", build.binary("+", n, build.binary("-", size, build.const(1))), size)


def trip(r, s, number, env):
    """One trip, of this number."""
    build = r.build
    if s.form == "range":
        k = number if s.step == 1 else build.binary("*", number, build.const(s.step))
        env[s.counter] = r.moved(r.known(s.start, env), k)
    r.counters.append(env.get(s.counter))
    env[LEFT] = build.const(0)
    r.forward(s.body.body, env)
    r.counters.pop()


def looped(r, loop, put, *args):
    """Put a loop whose body `put` makes."""
    build = r.build
    loop.deciding, loop.body = frozenset, Block(build.block)
    build.put(loop)
    build.frame.loops.append(loop)
    r.inside(loop.body, put, *args)
    build.frame.loops.pop()


def counted(r, n, put, down=False):
    """Put `for c in range(n)`, or downwards."""
    build, minus = r.build, r.build.const(-1)
    start, stop = (build.binary("+", n, minus), minus) if down else (build.const(0), n)
    loop = Loop("range", build.frame.call, start=start, stop=stop, step=-1 if down else 1)
    loop.counter = Operation("counter", [start], attr=loop, dtype="int")
    build.order.append(loop.counter)
    looped(r, loop, put, loop.counter)


class Carried:
    """A loop whose trips carry `keys` in variables. first : the number of its first trip; note : called with
    the number of each trip and what enters it."""

    def __init__(self, r, s, env, keys, first=None, note=None):
        self.r, self.s, self.env, self.keys, self.first, self.note = r, s, env, keys, first, note

    def put(self, frame):
        """Put the loop, by `frame(one_trip)`. What comes out of what is lost is lost too, which is only known
        behind a trip: then all is put again."""
        r, env, marks = self.r, self.env, self.r.marks()
        self.gone, self.also = {key: env[key].attr for key in self.keys if env[key].op == "lost"}, True
        while self.also:
            r.undo(marks)
            self.also = {}
            self.held = {k: Variable(getattr(k, "name", "carried")) for k in self.keys if k not in self.gone}
            for key, variable in self.held.items():
                r.assign(variable, env[key])
            frame(self.trip)
            self.gone |= self.also
        self.read(env)

    def read(self, env):
        """Return the carried values here, by their keys."""
        for key in self.keys:
            dtype = dtype_of(key)
            if key in self.held:
                self.r.hold(env, key, self.r.got(self.held[key], dtype))
            else:
                self.r.hold(env, key, lost(dtype, (self.s, key), *self.gone[key]))

    def trip(self, c):
        own = dict(self.env)
        self.read(own)
        if self.note:
            self.note(c, own)
        self.r.apart(trip, self.r, self.s, _number(self.r, self.first, c), own)
        for key, variable in self.held.items():
            if own[key].op == "lost":
                self.also[key] = own[key].attr
            else:
                self.r.assign(variable, own[key])
        return own


def _number(r, first, c):
    return c if first is None else r.build.binary("+", first, c)


class Search:
    """A loop that ends by itself: a while, or a range of n trips at most that is left."""

    def __init__(self, r, s, n, env, keys):
        self.r, self.s, self.n, self.env, self.keys = r, s, n, env, keys
        self.made, self.go, self.left = Variable("trips"), Variable("goes_on"), Variable("left")

    def trips(self):
        """Put it; how many trips it made."""
        r, env = self.r, self.env
        Carried(r, self.s, env, self.keys).put(self.frame)
        env[LEFT] = r.got(self.left, "int") if self.s.returns else r.build.const(0)
        returned(r, env)
        return r.got(self.made, "int")

    def frame(self, one_trip):
        r, build = self.r, self.r.build
        for variable in (self.made, self.left):
            r.assign(variable, build.const(0))
        self.goes_on(self.env, build.const(0))
        loop = Loop("while", build.frame.call, test=Block(build.block))
        r.inside(loop.test, lambda: setattr(loop, "condition", r.got(self.go, "bool")))
        looped(r, loop, self.body, one_trip)

    def body(self, one_trip):
        r, build = self.r, self.r.build
        made = r.got(self.made, "int")
        own = one_trip(made)
        left, more = own[LEFT], build.binary("+", made, build.const(1))
        r.assign(self.go, build.const(False))
        if left.const is None:
            r.where(build.compare("<=", left, build.const(1)), self.goes_on, own, more)
        elif left.const <= 1:
            self.goes_on(own, more)
        r.assign(self.left, left)
        r.assign(self.made, more)

    def goes_on(self, env, made):
        """Set whether there is a trip of this number."""
        r, test = self.r, env | {LEFT: self.r.build.const(0)}
        if self.s.form == "range":
            r.assign(self.go, r.build.compare("<", made, self.n))
            return
        r.apart(r.forward, self.s.test.body, test)
        condition = r.known(self.s.condition, test)
        r.need(condition)
        r.assign(self.go, r.build.cast(condition, "bool"))


def backwards(r, s, n, entry, keys, after):
    """Put the adjoint of a loop of n trips, from what entered it and the adjoints of what came out."""
    kept = [key for key in keys if (s, key) in r.kept]
    adjoints = {key: r.adjoints.pop(number, None) for key, number in after.items()}
    r.need(*(entry[key] for key in kept), n)
    env = entry | {key: lost(dtype_of(key), (s, key)) for key in keys if key not in kept}
    back = Back(r, s, kept, {key: Variable("adjoint") for key in adjoints})

    def put(outside):
        for key, adjoint in adjoints.items():
            r.assign(back.carries[key], adjoint or r.build.const(0.0))
        back.outside = outside
        back.part(None, n, env, 2)

    if r.within(put, any(adjoints.values())):
        for key, variable in back.carries.items():
            r.add(entry[key], r.got(variable))


class Back:
    """The trips of a loop backwards. kept : what adjoints need of what is carried; carries : the variables of
    adjoints of what is carried."""

    def __init__(self, r, s, kept, carries):
        self.r, self.s, self.kept, self.carries = r, s, kept, carries

    def part(self, first, n, env, depth):
        """n trips from number `first` on, entered with the kept numbers of `env`."""
        r = self.r
        if depth == 0 or not self.kept:
            counted(r, n, functools.partial(self.again, first, env), down=True)
            return
        build, size = r.build, r.build.const(1)
        arrays = {key: self.array(dtype_of(key)) for key in self.kept}
        if n.const is None or n.const > N_KEPT:
            size = build.extreme(">", _parts(build, n, build.const(N_KEPT)), size, False)
        self.forward(first, n, dict(env), functools.partial(self.note, arrays, size))
        one_part = functools.partial(self.inner, first, n, env, depth, arrays, size)
        counted(r, _parts(build, n, size), one_part, down=True)

    def inner(self, first, n, env, depth, arrays, size, q):
        """The part of number q, of `size` trips or the rest of n."""
        r, build = self.r, self.r.build
        begin, own = build.binary("*", q, size), dict(env)
        for key, array in arrays.items():
            loaded = build.operation("load", q, view=array, dtype=array.dtype)
            r.hold(own, key, build.cast(loaded, dtype_of(key)))
        if size.const == 1:
            self.trip(_number(r, first, begin), own)
        else:
            rest = build.extreme("<", size, build.binary("-", n, begin), False)
            self.part(_number(r, first, begin), rest, own, depth - 1)

    def array(self, dtype):
        dtype = t.strong(dtype, self.r.build.float_dtype)
        return self.r.build.put(View("kept", dtype, [N_KEPT], lanes_last=True, store="(local)"))

    def note(self, arrays, size, c, own):
        """Keep what enters a trip, if it is one of those."""
        build = self.r.build

        def store():
            build.writes()
            for key, array in arrays.items():
                build.operation("store", build.binary("//", c, size), own[key], view=array)

        if size.const == 1:
            store()
        else:
            self.r.where(build.compare("==", build.binary("%", c, size), build.const(0)), store)

    def forward(self, first, n, env, note=None):
        """Run n trips again, from which the kept numbers must come out."""
        r, keys = self.r, [key for key in changed(self.r, self.s) if key in env]
        Carried(r, self.s, env, keys, first, note).put(functools.partial(counted, r, n))
        r.need(*(env[key] for key in self.kept))

    def again(self, first, env, c):
        """The trip of number first + c, to which those before it lead."""
        own = dict(env)
        if self.kept:
            self.forward(first, c, own)
        self.trip(_number(self.r, first, c), own)

    def trip(self, number, env):
        """One trip again, and its adjoints."""
        r, entered = self.r, dict(env)
        with Scope(r, self.outside):
            r.live |= {env[key] for key in self.carries}
            tape = r.apart(trip, r, self.s, number, env)
            for key, variable in self.carries.items():
                r.add(env[key], r.got(variable))
            r.backwards(tape)
            for key, variable in self.carries.items():
                r.assign(variable, r.adjoints.pop(entered[key], None) or r.build.const(0.0))
