"""Run a kernel's source in plain Python, with the operations of `meaning.py`.

The source is compiled to closures once for each set of argument types, since a name's dtype is known before
the run: `Reader` translates expressions and statements. Source that it does not support is `Refused`; the
generators do not draw it. Products keep their factors, so that a sum with one is rounded once; `fused=False`
rounds as plain Python and the checked space do.
"""

import ast
import functools

from .expressions import Expressions
from .meaning import Refused, Undefined, convert, promote
from .types import Expr, load

BREAK, CONTINUE, RETURN = "break", "continue", "return"


class Frame:
    """Facts about one function while it is translated."""

    def __init__(self, tree, types):
        self.types = dict(zip((a.arg for a in tree.args.args), types))
        stores, in_turn = (
            [
                n.id
                for s in part
                for n in ast.walk(s)
                if isinstance(getattr(n, "ctx", 0), ast.Store) and hasattr(n, "id")
            ]
            for part in ([tree], [s for s in tree.body if isinstance(s, ast.Assign)])
        )
        # names of which each value is from one assignment: there is one, or all follow each other
        self.alone = {n for n in stores if stores.count(n) in (in_turn.count(n), n not in self.types)}
        self.products, self.result = set(), None


class Reader(Expressions):
    """Translate the functions of a module's source into closures.

    Parameters
    ----------
    text : str
    own : "float32" or "float64", the kernel's own float
    fused : bool
    """

    def __init__(self, text, own, fused):
        self.own, self.fused, self.fuses = own, fused, False
        self.functions, self.constants, self.reducers = {}, {}, {}
        self.made = {}
        for s in ast.parse(text).body:
            if isinstance(s, ast.FunctionDef):
                self.functions[s.name] = s
            elif (
                isinstance(s, ast.Assign)
                and isinstance(s.value, ast.Call)
                and ast.unparse(s.value.func) == "pk.Reducer"
            ):
                self.reducers[s.targets[0].id] = s.value.args
            elif isinstance(s, ast.Assign):
                self.constants[s.targets[0].id] = s.value

    def strong(self, dtype):
        return self.own if dtype == "float" else "int64" if dtype == "int" else dtype

    def convert(self, value, a, b):
        return convert(value, self.strong(a), self.strong(b))

    # ---- functions
    def function(self, name, types):
        """Return (type of the result, function of arguments) of one of the source's functions for these
        argument types."""
        key = (name, types)
        if key not in self.made:
            tree = self.functions[name]
            frame = Frame(tree, types)
            body = self.block(tree.body, frame)
            params = [a.arg for a in tree.args.args]

            def call(*args):
                variables = dict(zip(params, args))
                if body(variables) is RETURN and frame.result is not None:
                    value, type_ = variables[RETURN]
                    return self.fit(value, type_, frame.result)
                return None

            self.made[key] = frame.result, call
        return self.made[key]

    def fit(self, value, a, b):
        """Convert a number, or a tuple of numbers, from type `a` to type `b`."""
        if a == b:
            return value
        if isinstance(a, tuple):
            return tuple(self.fit(v, p, q) for v, p, q in zip(value, a, b))
        return self.convert(value, a, b)

    # ---- statements: functions of the variables that return None, BREAK, CONTINUE or RETURN
    def block(self, body, frame):
        steps = [getattr(self, "stmt_" + type(s).__name__)(s, frame) for s in body]

        def run(variables):
            for step in steps:
                left = step(variables)
                if left is not None:
                    return left
            return None

        return run

    def stmt_Pass(self, s, frame):
        return lambda variables: None

    def stmt_Break(self, s, frame):
        return lambda variables: BREAK

    def stmt_Continue(self, s, frame):
        return lambda variables: CONTINUE

    def stmt_Expr(self, s, frame):
        run = self.expr(s.value, frame).run

        def step(variables):
            run(variables)

        return step

    def stmt_Return(self, s, frame):
        if s.value is None:
            return lambda variables: RETURN
        value = self.expr(s.value, frame)
        frame.result = value.type if frame.result is None else self.common(frame.result, value.type)

        def step(variables):
            variables[RETURN] = value.run(variables), value.type
            return RETURN

        return step

    def common(self, a, b):
        return tuple(self.common(p, q) for p, q in zip(a, b)) if isinstance(a, tuple) else promote(a, b)

    def stmt_Assign(self, s, frame):
        (target,) = s.targets
        several = isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple)
        pairs = zip(target.elts, s.value.elts, strict=True) if several else [(target, s.value)]
        values = [(part, self.expr(value, frame)) for part, value in pairs]
        steps = [self.assigned(part, value, frame) for part, value in values]

        def step(variables):
            found = [run(variables) for run, _ in steps]
            for (_, store), value in zip(steps, found):
                store(variables, value)

        return step

    def assigned(self, target, value, frame):
        """Return functions that evaluate a value, and that store it; a product keeps its factors."""
        name = getattr(target, "id", None)
        store = self.target(target, value.type, frame)
        frame.products.discard(name)
        if not (value.product and self.fused and name in frame.alone and frame.types[name] == value.type):
            return value.run, store
        frame.products.add(name)
        first, second = value.product

        def keep(variables, factors):
            variables[name + ":factors"] = factors
            variables[name] = factors[0] * factors[1]

        return (lambda variables: (first(variables), second(variables))), keep

    def target(self, target, type_, frame):
        """Return a function (variables, value) that stores a value of this type."""
        if isinstance(target, ast.Tuple):
            parts = [self.target(t, p, frame) for t, p in zip(target.elts, type_, strict=True)]

            def store(variables, value):
                for part, v in zip(parts, value):
                    part(variables, v)

        elif isinstance(target, ast.Name):
            own = self.declare(target.id, type_, frame)

            def store(variables, value):
                variables[target.id] = value if own == type_ else self.convert(value, type_, own)

        else:
            place = self.place(target, frame)

            def store(variables, value):
                array, index, dtype = place(variables)
                array[index] = self.convert(value, type_, dtype)

        return store

    def declare(self, name, type_, frame):
        """Return the type of a variable: that of its first assignment, which later ones may only weaken."""
        own = frame.types.setdefault(name, type_)
        if own != type_ and self.strong(own) != self.strong(type_) and promote(own, type_) != own:
            raise Refused(f"{name} is {own} and {type_}")
        return own

    def stmt_AugAssign(self, s, frame):
        if isinstance(s.target, ast.Name):
            old = Expr(frame.types[s.target.id], lambda variables: variables[s.target.id])
            value = self.binary(s.op, old, self.expr(s.value, frame))
            store = self.target(s.target, value.type, frame)

            def step(variables):
                store(variables, value.run(variables))

            return step
        place = self.place(s.target, frame)
        dtype = self.expr(s.target.value, frame).type.dtype
        value = self.binary(s.op, Expr(dtype, lambda variables: variables[":old"]), self.expr(s.value, frame))

        def step(variables):
            array, index, _ = place(variables)
            variables[":old"] = load(array, index, dtype)
            array[index] = self.convert(value.run(variables), value.type, dtype)

        return step

    def stmt_If(self, s, frame):
        test, body, other = (
            self.truth(self.expr(s.test, frame)),
            self.block(s.body, frame),
            self.block(s.orelse, frame),
        )
        return lambda variables: body(variables) if test(variables) else other(variables)

    def stmt_While(self, s, frame):
        test, body = self.truth(self.expr(s.test, frame)), self.block(s.body, frame)

        def step(variables):
            while test(variables):
                left = body(variables)
                if left is BREAK:
                    break
                if left is RETURN:
                    return RETURN
            return None

        return step

    def stmt_For(self, s, frame):
        if isinstance(s.iter, ast.Call):
            items, type_ = self.range(s.iter, frame), "int"
        else:
            row = self.expr(s.iter, frame)
            items, type_ = row.run, functools.reduce(self.common, row.type)
        store = self.target(s.target, type_, frame)
        body = self.block(s.body, frame)

        def step(variables):
            for item in items(variables):
                store(variables, item)
                left = body(variables)
                if left is BREAK:
                    break
                if left is RETURN:
                    return RETURN
            return None

        return step

    def range(self, call, frame):
        name = ast.unparse(call.func)
        bounds = [self.as_int(self.expr(a, frame)) for a in call.args]
        if name == "range":
            return lambda variables: within(range(*(b(variables) for b in bounds)))
        if not name.endswith(".thread_range"):
            raise Refused(name)

        def share(variables):
            team = variables["team"]
            low, high = (0, bounds[0](variables)) if len(bounds) == 1 else (b(variables) for b in bounds)
            return range(low + team.rank, high, team.size)

        return share


def within(steps):
    """Check that a range does not step beyond int64; in steps of one it cannot."""
    if abs(steps.step) > 1 and not -(2**63) <= steps.stop + steps.step < 2**63:
        raise Undefined("a range steps beyond int64")
    return steps
