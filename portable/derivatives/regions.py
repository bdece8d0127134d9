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

N_KEPT = 64
WRITES = "store", "atomic"
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
    """Return the statements inside a statement."""
    return [q for block in inside(s) for q in block.body]


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
    """

    def __init__(self, r, nodes, body, env, loop=None, more=()):
        self.r, self.body, self.loop = r, body, loop
        found = assigned(r.target, nodes)
        env |= {key: zero(key.dtype) for key in found if key.__class__ is Variable and key not in env}
        self.keys = [*(key for key in found if key in env), *more]

    def put(self, what, env):
        env[LEFT] = zero("int")
        self.body(what, env)

    def record_region(self, entry, env, backwards):
        """Add to the tape the adjoint of the region between `entry` and `env`, by `backwards(once)`."""
        after = {key: env[key] for key in self.keys if env[key] in self.r.live}
        self.r.tape.append(partial(self.take_back, entry, after, backwards))

    def take_back(self, entry, after, backwards):
        """Emit the adjoint, from the numbers that entered the region and the adjoints of its results."""
        r = self.r
        self.masking = not r.masked.isdisjoint(after.values())
        seeds = {key: r.adjoints.pop(number, None) for key, number in after.items()}
        carries = {key: Variable("adjoint") for key, seed in seeds.items() if seed or self.loop}

        def put(outside):
            for key, variable in carries.items():
                r.assign(variable, seeds[key] or 0.0)
            backwards(partial(self.once_back, carries, outside))

        if r.emit_separately(put, any(seeds.values())):
            r.masking = self.masking
            for key, variable in carries.items():
                r.add(entry[key], r.got(variable))

    def once_back(self, carries, outside, what, env):
        """Put the region once more, and its adjoints; those of numbers outside of it are added to `outside`:
        variables, which begin in the block `home`."""
        r, entered, (variables, home) = self.r, dict(env), outside
        outer, r.adjoints = r.adjoints, {}
        if self.loop:
            r.live |= {env[key] for key in carries}
        tape, r.masking = r.separate_tape(self.put, what, env), self.masking
        for key, variable in carries.items():
            r.add(env[key], r.got(variable))
        r.backwards(tape)
        for key, variable in carries.items():
            r.assign(variable, r.adjoints.pop(entered[key], None) or 0.0)
        left, r.adjoints = r.adjoints, outer
        for number, value in left.items():
            variable = variables.setdefault(number, Variable("adjoint"))
            r.homes[variable] = home
            r.assign(variable, r.sum(r.got(variable), value))


class Run:
    """A region whose keys are in variables. note : called with the number of each iteration and its input."""

    def __init__(self, region, env, note=None):
        self.region, self.r, self.env, self.note = region, region.r, env, note

    def put(self, frame):
        """Emit the region, by `frame(self)`. Numbers that depend on a lost number are lost, too, as is known
        only afterwards: iterations that need such numbers are then emitted again.
        """
        env, begin, keys = self.env, marks(self.r.build), self.region.keys
        self.gone, self.also = {key: env[key].attr for key in keys if env[key].op == "lost"}, True
        while self.also:
            undo(begin)
            self.also, self.held = {}, {key: Variable("carried") for key in keys if key not in self.gone}
            for key, variable in self.held.items():
                self.r.assign(variable, env[key])
            frame(self)
            self.gone |= self.also
            if not self.region.loop:
                break
        self.read(env)

    def read(self, env):
        """Bind the keys to the present values of their variables."""
        loop = self.region.loop
        for key in self.region.keys:
            if key in self.gone:
                number = unknown_number(dtype_of(key), *[(loop, key)] * bool(loop), *self.gone[key])
            else:
                number = self.r.got(self.held[key], dtype_of(key))
            self.r.hold(env, key, number)

    def run_once(self, what):
        own = dict(self.env)
        if self.region.loop:
            self.read(own)
        if self.note:
            self.note(what, own)
        self.r.separate_tape(self.region.put, what, own)
        for key, variable in self.held.items():
            if own[key].op == "lost":
                self.also[key] = own[key].attr
            else:
                self.r.assign(variable, own[key])


# ---- branches
def fork(r, condition, bodies, nodes, env):
    """Emit a branch: one of at most two `bodies`, called with an environment. `nodes`: all that they
    emit.
    """
    r.need(condition)

    def sides(once):
        here = r.build.block
        node = r.build.put(If(condition, Block(here), Block(here), (True, True)))
        for block, body in zip(inside(node), bodies):
            with r.build.inside(block):
                once(body)

    more = [LEFT] * bool(leaves(nodes))
    region, entry = Region(r, nodes, lambda body, own: body(own), env, more=more), dict(env)
    Run(region, env).put(lambda run: sides(run.run_once))
    region.record_region(entry, env, lambda once: sides(lambda body: once(body, dict(entry))))


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
        unrolled(r, s.trips, env)
    else:
        trips(r, s, env, ways - {"continue"})
    left = env[LEFT]
    returned = r.build.compare("==", left, CODES["return"])
    env[LEFT] = r.build.select(returned, left, 0) if "return" in ways else zero("int")


def unrolled(r, blocks, env):
    """Emit the iterations of an unrolled loop, which may be left early."""
    r.forward(blocks[0].body, env)
    goes_on = r.build.compare("==", env[LEFT], CODES["continue"])
    env[LEFT] = r.build.select(goes_on, 0, env[LEFT])
    if blocks[1:]:
        nodes = [s for block in blocks[1:] for s in block.body]
        emit_rest(r, partial(unrolled, r, blocks[1:]), nodes, env)


def trips(r, s, env, left):
    """Emit the iterations of a loop; `left`: the ways in which a statement may leave it."""
    region = Region(r, [s], partial(trip, r, s), env, s, [LEFT] * bool(left))
    entry, n = dict(env), count(r, s, env) if s.form == "range" else None
    run = Run(region, env)
    if n is None or left:
        n = searched(r, s, n, run)
    else:
        run.put(lambda run: counted(r, 0, n, run.run_once))
    region.record_region(entry, env, lambda once: Back(region, once).all(n, entry))


def trip(r, s, number, env):
    """Emit one iteration, of this number."""
    if s.form == "range":
        k = r.build.binary("*", number, s.step)
        env[s.counter] = r.moved(r.present_value(s.start, env), k)
    r.counters.append(env.get(s.counter))
    r.forward(s.body.body, env)
    r.counters.pop()


def counted(r, first, n, put, down=False):
    """Put a loop over n numbers from `first` on, or over the same downwards."""
    build = r.build
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


def searched(r, s, n, run):
    """Emit a loop whose number of iterations is found by running it, a while, or a range of at most n that is
    left early; return this number.
    """
    build, made, go = r.build, Variable("trips"), Variable("goes_on")

    def test(loop):
        own = dict(run.env)
        run.read(own)
        r.assign(go, False)
        with only_if(build, build.compare("<=", own[LEFT], CODES["continue"])):
            condition = one_more(r, s, n, r.got(made, "int"), own)
            r.need(condition)
            r.assign(go, build.cast(condition, "bool"))
        loop.condition = r.got(go, "bool")

    def frame(run):
        r.assign(made, 0)
        r.assign(go, True)
        loop = Loop("while", build.frame.call, test=Block(build.block))
        with build.inside(loop.test):
            test(loop)
        with build.repeated(loop):
            number = r.got(made, "int")
            run.run_once(number)
            r.assign(made, build.binary("+", number, 1))

    run.put(frame)
    return r.got(made, "int")


def count(r, s, env):
    """Return the number of a range's iterations, which may be negative."""
    build = r.build
    start, stop = (build.cast(r.present_value(v, env), "int") for v in (s.start, s.stop))
    r.need(start, stop)
    low, high = (start, stop) if s.step > 0 else (stop, start)
    return build.parts_of(build.binary("-", high, low), abs(s.step))


class Back:
    """The iterations of a loop backwards. kept : carried numbers that adjoints need; once : emits an
    iteration and its adjoints, called with its number and its input.
    """

    def __init__(self, region, once):
        self.region, self.r, self.run_once = region, region.r, once
        self.kept = [key for key in region.keys if (region.loop, key) in self.r.kept]

    def all(self, n, entry):
        """Emit n iterations, from the input of the loop."""
        self.r.need(n, *(entry[key] for key in self.kept))
        gone = [key for key in self.region.keys if key not in self.kept and key != LEFT]
        env = entry | {key: unknown_number(dtype_of(key), (self.region.loop, key)) for key in gone}
        self.part(0, n, env, 2)

    def part(self, first, n, env, depth):
        """Emit n iterations from number `first` on, whose input is the kept numbers of `env`."""
        r, build, size = self.r, self.r.build, 1
        if depth == 0 or not self.kept:
            counted(r, first, n, partial(self.repeat_iteration, first, env), down=True)
            return
        arrays = {key: self.array(dtype_of(key)) for key in self.kept}
        if n.const is None or n.const > N_KEPT:
            size = build.extreme(">", build.parts_of(n, N_KEPT), 1)
        self.forward(first, n, dict(env), partial(self.note, arrays, first, size))
        one_part = partial(self.inner, first, n, env, depth, arrays, size)
        counted(r, 0, build.parts_of(n, size), one_part, down=True)

    def inner(self, first, n, env, depth, arrays, size, q):
        """Emit the part of number q, of `size` iterations or the rest of n."""
        r, build = self.r, self.r.build
        behind, own = build.binary("*", q, size), dict(env)
        begin = build.binary("+", first, behind)
        for key, array in arrays.items():
            r.hold(own, key, build.cast(r.loaded(array, q), dtype_of(key)))
        if size == 1:
            self.run_once(begin, own)
        else:
            rest = build.extreme("<", size, build.binary("-", n, behind))
            self.part(begin, rest, own, depth - 1)

    def array(self, dtype):
        dtype = t.strong(dtype, self.r.build.float_dtype)
        return self.r.build.put(View("kept", dtype, [N_KEPT], lanes_last=True, store="(local)"))

    def note(self, arrays, first, size, c, own):
        """Keep the input of an iteration, if it is one of those to be kept."""
        build = self.r.build
        place = build.binary("-", c, first)
        with only_if(build, build.compare("==", build.binary("%", place, size), 0)):
            build.writes()
            for key, array in arrays.items():
                build.operation("store", build.binary("//", place, size), own[key], view=array)

    def forward(self, first, n, env, note=None):
        """Run n iterations again, whose results must include the kept numbers."""
        Run(self.region, env, note).put(lambda run: counted(self.r, first, n, run.run_once))
        self.r.need(*(env[key] for key in self.kept))

    def repeat_iteration(self, first, env, c):
        """Repeat iteration c, after running those from number `first` on."""
        own = dict(env)
        if self.kept:
            self.forward(first, self.r.build.binary("-", c, first), own)
        self.run_once(c, own)
