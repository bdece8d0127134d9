"""Branches and loops in reverse: regions that run no times, once, or many times, emitted again with their
adjoints.

A region's iterations are repeated with their adjoints, the last one first. The carried numbers that these
need are kept at `N_KEPT` iterations of the loop, and at as many within the part that is repeated; the
iterations between are run again.
"""

from contextlib import contextmanager
from functools import partial, reduce

from ..core.compiler.reading.tree import Block, Call, If, Leave, Loop, Operation, Set, Variable, View, inside
from ..core.language import types as t
from .forward import summed
from .operations import WRITES

N_KEPT = 64
LEFT, CODES = "left", {"continue": 1, "break": 2, "return": 3}  # 0 if no statement has left the region


def unknown_number(dtype, *keys):
    """Represent a number that is not recomputed; `keys` are the loop numbers that would have to be kept for
    it.
    """
    return Operation("lost", attr=frozenset(keys), dtype=dtype)


def zero(dtype):
    return Operation("const", dtype=dtype, kind=t.UNIFORM, const=0.0 if t.is_float(dtype) else 0)


def dtype_of(key):
    """Return the dtype of a key of an environment: a variable, an operation, an element, or the state of
    leaving.
    """
    return "int" if key == LEFT else t.loaded_dtype(key[0].dtype) if key.__class__ is tuple else key.dtype


def marks(build):
    """Return the position of this place, for `undo`."""
    lists = build.block.body, build.order, build.checks, build.chains, build.scalar, build.frame.loops
    return [(values, len(values)) for values in lists]


def undo(marks):
    """Remove and return the nodes that were added since `marks`."""
    taken = [values[mark:] for values, mark in marks]
    for values, mark in marks:
        del values[mark:]
    return taken


@contextmanager
def only_if(build, *conditions):
    """Build nodes that are executed if all conditions hold."""
    node = build.put(
        If(reduce(partial(build.binary, "&"), conditions), Block(build.block), None, (True, True))
    )
    with build.inside(node.then):
        yield


# ---- effects of statements
def within(s):
    """Return the statements inside a statement, or an iteration of an unrolled loop."""
    return s.body if s.__class__ is Block else [q for block in inside(s) for q in block.body]


def every(nodes):
    """Yield statements, and all inside them."""
    for s in nodes:
        yield s
        yield from every(within(s))


def leaves(nodes):
    """Return the ways in which statements leave the region around them."""
    found = set()
    for s in nodes:
        if s.__class__ is Leave:
            found.add(s.how)
        elif s.__class__ is not Call:
            ways = leaves(within(s))
            found |= ways & {"return"} if s.__class__ is Loop else ways
    return found


def assigned(target, nodes):
    """Return the targets of assignments, in order: variables, and elements of arrays."""
    found = {}
    for s in every(nodes):
        if s.__class__ is Set:
            found[s.variable] = None
        if getattr(s, "op", "") in WRITES:
            found |= dict.fromkeys(target.elements(s.view))
    return found


class Region:
    """Statements that a branch or a loop runs.

    body : emits it once, called with the value of its frame and an environment
    keys : variables and elements that it assigns; loop : the Loop of an iteration, None for a branch
    changes : True if it may change arrays from outside
    held : of the last run, the variables that hold the keys; gone : the keys that are lost
    kept : keys that a loop keeps, since adjoints need them
    carries : for the adjoint, the variables of the adjoints of keys; outside : those of the adjoints of
    numbers from outside, which begin in the block `home`; masking : True if these may be of numbers that are
    not selected
    """

    def __init__(self, r, nodes, body, env, loop=None, more=()):
        self.r, self.body, self.loop = r, body, loop
        found = assigned(r.target, nodes)
        self.changes = any(getattr(q, "op", "") in WRITES for q in every(nodes))
        env |= {key: zero(key.dtype) for key in found if key.__class__ is Variable and key not in env}
        self.keys = [*(key for key in found if key in env), *more]
        self.kept = [key for key in self.keys if (loop, key) in r.kept]

    def put(self, what, env):
        env[LEFT] = zero("int")
        self.body(what, env)

    # ---- the region
    def run(self, frame, env, note=None):
        """Emit the region, by `frame(run_once)`; `note` is called with the number of each iteration and its
        input.

        Numbers that depend on a lost number are lost, too, as is known only afterwards: iterations that need
        such numbers are then emitted again.
        """
        begin = marks(self.r.build)
        self.gone, also = {key: env[key].attr for key in self.keys if env[key].op == "lost"}, True

        def run_once(what):
            own = dict(env)
            if self.loop:
                self.read(own)
            if note:
                note(what, own)
            self.r.separate_tape(self.put, what, own)
            for key, variable in self.held.items():
                if own[key].op == "lost":
                    also[key] = own[key].attr
                else:
                    self.r.assign(variable, own[key])

        while also:
            undo(begin)
            also, self.held = {}, {key: Variable("carried") for key in self.keys if key not in self.gone}
            for key, variable in self.held.items():
                self.r.assign(variable, env[key])
            frame(run_once)
            self.gone |= also
            if not self.loop:
                break
        self.read(env)

    def read(self, env):
        """Bind the keys to the present values of their variables."""
        for key in self.keys:
            if key in self.gone:
                own = [(self.loop, key)] * bool(self.loop)
                number = unknown_number(dtype_of(key), *own, *self.gone[key])
            else:
                number = self.r.got(self.held[key], dtype_of(key))
            self.r.hold(env, key, number)

    # ---- its adjoint
    def record_region(self, entry, env, backwards):
        """Add to the tape the adjoint of the region between `entry` and `env`."""
        after = {key: env[key] for key in self.keys if env[key] in self.r.live}
        self.r.tape.append(partial(self.take_back, entry, after, backwards))

    def take_back(self, entry, after, backwards):
        """Emit the adjoint, from the numbers that entered the region and the adjoints of its results."""
        r = self.r
        self.masking = not r.masked.isdisjoint(after.values())
        seeds = {key: r.adjoints.pop(number, None) for key, number in after.items()}
        if self.changes or any(seeds.values()):
            self.carries = {key: Variable("adjoint") for key, seed in seeds.items() if seed or self.loop}
            self.after_outside(seeds, backwards)
            r.masking = self.masking
            for key, variable in self.carries.items():
                r.add(entry[key], r.got(variable))

    def after_outside(self, seeds, backwards):
        """Emit the adjoint, after assignments to the variables of adjoints from outside, known only then."""
        r, block, begin = self.r, self.r.build.block, marks(self.r.build)[:2]
        self.outside, self.home = {}, block
        for key, variable in self.carries.items():
            r.assign(variable, seeds[key] or 0.0)
        backwards()
        body, order = undo(begin)
        for number, variable in self.outside.items():
            r.assign(variable, r.adjoints.get(number) or 0.0)
        block.body += body
        r.build.order += order
        for number, variable in self.outside.items():
            r.adjoints[number] = r.got(variable)

    def once_back(self, env, what):
        """Put the region once more, and its adjoints."""
        r, own = self.r, dict(env)
        outer, r.adjoints = r.adjoints, {}
        if self.loop:
            r.live |= {env[key] for key in self.carries}
        tape, r.masking = r.separate_tape(self.put, what, own), self.masking
        for key, variable in self.carries.items():
            r.add(own[key], r.got(variable))
        r.backwards(tape)
        for key, variable in self.carries.items():
            r.assign(variable, r.adjoints.pop(env[key], None) or 0.0)
        left, r.adjoints = r.adjoints, outer
        for number, value in left.items():
            variable = self.outside.setdefault(number, Variable("adjoint"))
            r.homes[variable] = self.home
            r.assign(variable, summed(r.build, r.got(variable), value))

    # ---- the adjoint of a loop
    def loop_back(self, n, entry):
        """Emit n iterations backwards, from the input of the loop."""
        self.r.need(n, *(entry[key] for key in self.kept))
        gone = [key for key in self.keys if key not in self.kept and key != LEFT]
        env = entry | {key: unknown_number(dtype_of(key), (self.loop, key)) for key in gone}
        self.part_back(0, n, env, 2)

    def part_back(self, first, n, env, depth):
        """Emit n iterations from number `first` on, whose input is the kept numbers of `env`."""
        build, size = self.r.build, 1
        if depth == 0 or not self.kept:
            counted(build, first, n, partial(self.iteration_back, first, env), down=True)
            return
        if n.const is None or n.const > N_KEPT:
            size = build.extreme(">", build.parts_of(n, N_KEPT), 1)
        arrays = {key: self.array(dtype_of(key)) for key in self.kept}

        def note(c, own):
            """Keep the input of an iteration, if it is one of those to be kept."""
            place = build.binary("-", c, first)
            with only_if(build, build.compare("==", build.binary("%", place, size), 0)):
                build.writes()
                for key, array in arrays.items():
                    build.operation("store", build.binary("//", place, size), own[key], view=array)

        self.forward(first, n, dict(env), note)
        inner = partial(self.inner_back, first, n, env, depth, arrays, size)
        counted(build, 0, build.parts_of(n, size), inner, down=True)

    def inner_back(self, first, n, env, depth, arrays, size, q):
        """Emit the part of number q, of `size` iterations or the rest of n."""
        r, build = self.r, self.r.build
        behind, own = build.binary("*", q, size), dict(env)
        begin = build.binary("+", first, behind)
        for key, array in arrays.items():
            r.hold(own, key, build.cast(r.loaded(array, q), dtype_of(key)))
        if size == 1:
            self.once_back(own, begin)
        else:
            self.part_back(begin, build.extreme("<", size, build.binary("-", n, behind)), own, depth - 1)

    def array(self, dtype):
        dtype = t.strong(dtype, self.r.build.float_dtype)
        return self.r.build.put(View("kept", dtype, [N_KEPT], lanes_last=True, store="(local)"))

    def forward(self, first, n, env, note=None):
        """Run n iterations again, whose results must include the kept numbers."""
        self.run(partial(counted, self.r.build, first, n), env, note)
        self.r.need(*(env[key] for key in self.kept))

    def iteration_back(self, first, env, c):
        """Repeat iteration c, after running those from number `first` on."""
        own = dict(env)
        if self.kept:
            self.forward(first, self.r.build.binary("-", c, first), own)
        self.once_back(own, c)


# ---- branches
def fork(r, condition, bodies, nodes, env):
    """Emit a branch: one of at most two `bodies`, called with an environment. `nodes`: all that they
    emit.
    """
    r.need(condition)

    def sides(put):
        here = r.build.block
        node = r.build.put(If(condition, Block(here), Block(here), (True, True)))
        for block, body in zip(inside(node), bodies):
            with r.build.inside(block):
                put(body)

    more = [LEFT] * bool(leaves(nodes))
    region, entry = Region(r, nodes, lambda body, own: body(own), env, more=more), dict(env)
    region.run(sides, env)
    region.record_region(entry, env, lambda: sides(partial(region.once_back, entry)))


def emit_rest(r, put, nodes, env):
    """Emit the rest of a block, executed if no statement has left it."""
    fork(r, r.build.compare("==", env[LEFT], 0), (put,), nodes, env)


# ---- loops
def loop(r, s, env):
    """Emit a loop of the tree, and add its adjoint to the tape; `r`: a Reverse."""
    if s.form == "range" and not isinstance(s.step, int):
        r.walk.refuse("a range in reverse mode needs a step known at compile time")
    if s.form == "while" and any(getattr(q, "op", "") in WRITES for q in every(s.test.body)):
        r.walk.refuse("the test of a while changes an array; change it in the body")
    ways = leaves(within(s))
    if s.form == "trips":
        r.forward(s.trips, env)
    else:
        trips(r, s, env, ways - {"continue"})
    left = env[LEFT]
    returned = r.build.compare("==", left, CODES["return"])
    env[LEFT] = r.build.select(returned, left, 0) if "return" in ways else zero("int")


def unrolled(r, block, env):
    """Emit an iteration of an unrolled loop."""
    r.forward(block.body, env)
    env[LEFT] = r.build.select(r.build.compare("==", env[LEFT], CODES["continue"]), 0, env[LEFT])


def trips(r, s, env, left):
    """Emit the iterations of a loop; `left`: the ways in which a statement may leave it."""
    region = Region(r, [s], partial(trip, r, s), env, s, [LEFT] * bool(left))
    entry, n = dict(env), count(r, s, env) if s.form == "range" else None
    if n is None or left:
        n = searched(r, s, n, region, env)
    else:
        region.run(partial(counted, r.build, 0, n), env)
    region.record_region(entry, env, partial(region.loop_back, n, entry))


def trip(r, s, number, env):
    """Emit one iteration, of this number."""
    if s.form == "range":
        start, steps = r.present_value(s.start, env), r.build.binary("*", number, s.step)
        env[s.counter] = r.build.binary("+", start, steps)
    r.counters.append(env.get(s.counter))
    r.forward(s.body.body, env)
    r.counters.pop()


def counted(build, first, n, put, down=False):
    """Put a loop over n numbers from `first` on, or over the same downwards."""
    start, stop = build.operands(first, build.binary("+", first, n))
    if down:
        start, stop = (build.binary("-", end, 1) for end in (stop, start))
    with build.counted_loop(start, stop, -1 if down else 1) as number:
        put(number)


def one_more(r, s, n, made, env):
    """Return the condition for another iteration of a loop after those that were made."""
    if s.form == "range":
        return r.build.compare("<", made, n)
    env[LEFT] = zero("int")
    r.separate_tape(r.forward, s.test.body, env)
    return r.present_value(s.condition, env)


def searched(r, s, n, region, env):
    """Emit a loop whose number of iterations is found by running it, a while, or a range of at most n that is
    left early; return this number.
    """
    build, made, go = r.build, Variable("trips"), Variable("goes_on")

    def test(loop):
        own = dict(env)
        region.read(own)
        r.assign(go, False)
        with only_if(build, build.compare("<=", own[LEFT], CODES["continue"])):
            condition = one_more(r, s, n, r.got(made, "int"), own)
            r.need(condition)
            r.assign(go, build.cast(condition, "bool"))
        loop.condition = r.got(go, "bool")

    def frame(run_once):
        r.assign(made, 0)
        r.assign(go, True)
        loop = Loop("while", build.frame.call, test=Block(build.block))
        with build.inside(loop.test):
            test(loop)
        with build.repeated(loop):
            number = r.got(made, "int")
            run_once(number)
            r.assign(made, build.binary("+", number, 1))

    region.run(frame, env)
    return r.got(made, "int")


def count(r, s, env):
    """Return the number of a range's iterations, which may be negative."""
    build = r.build
    start, stop = (build.cast(r.present_value(v, env), "int") for v in (s.start, s.stop))
    r.need(start, stop)
    low, high = (start, stop) if s.step > 0 else (stop, start)
    return build.parts_of(build.binary("-", high, low), abs(s.step))
