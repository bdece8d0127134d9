"""Evaluate the words of the kernel language for the oracle: casts, atomics, minima, rounding, collectives
of a team."""

import ast
import functools
import math

import numpy as np

from . import meaning, reducing
from .meaning import promote
from .types import Expr, View, inside, load

_CASTS = {
    name: name.removeprefix("pk.")
    for name in "pk.int32 pk.int64 pk.uint32 pk.uint64 pk.float32 pk.float64 bool float".split()
}
_ATOMICS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


class Words:
    """Evaluate calls. Requires from the derived class: `expr`, `to`, `convert`, `truth`, `as_int`,
    `function`.
    """

    def expr_Call(self, node, frame):
        name = ast.unparse(node.func)
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and frame.types.get(node.func.value.id) == "team"
        ):
            return self.collective(node.func.attr, node, frame)
        if name == "pk.local":
            return self.array(node, frame, lambda variables, shape, dtype: np.zeros(shape, dtype))
        args = [self.expr(a, frame) for a in node.args]
        if name in self.functions:
            type_, call = self.function(name, tuple(a.type for a in args))
            return Expr(type_, lambda variables: call(*(a.run(variables) for a in args)))
        if name.startswith("pk.atomic_"):
            return self.atomic(name[len("pk.atomic_") :], *args)
        if name in _CASTS:
            return Expr(_CASTS[name], self.to(args[0], _CASTS[name]))
        module, _, word = name.rpartition(".")
        if name == "round":
            return self.rounding(np.rint, True, *args)
        if word in ("floor", "ceil", "trunc", "rint"):
            return self.rounding(getattr(np, word), module == "math", *args)
        return getattr(self, "word_" + word)(*args)

    def array(self, node, frame, make):
        shape = ast.literal_eval(node.args[0])
        name = ast.unparse(node.args[1])
        dtype = (
            self.expr(node.args[1].value, frame).type.dtype
            if name.endswith(".dtype")
            else name.removeprefix("pk.")
        )
        dtype = "bool" if dtype == "np.bool_" else dtype
        shape = shape if isinstance(shape, tuple) else (shape,)
        return Expr(View(dtype, len(shape)), lambda variables: make(variables, shape, dtype))

    def atomic(self, op, view, index, value, new=None):
        dtype = view.type.dtype
        last = value if new is None else new
        operand = self.to(last, dtype)
        expected = self.to(value, dtype)

        def run(variables):
            array, where = view.run(variables), index.run(variables)
            where = tuple(int(v) for v in where) if isinstance(where, tuple) else (int(where),)
            inside(array, where)
            wanted = expected(variables) if new is not None else None
            x = operand(variables)
            old = load(array, where, dtype)
            if op in _ATOMICS:
                x = (
                    meaning.floating(_ATOMICS[op], old, x)
                    if meaning.is_float(dtype)
                    else meaning.integer(_ATOMICS[op], old, x, dtype)
                )
            elif op in ("min", "max"):
                x = meaning.extreme_nan(op == "min", old, x)
            elif op == "cas":
                x = x if old == wanted else old
            array[where] = x
            return old

        return Expr(dtype, run)

    def word_static(self, e):
        return Expr(e.type, e.run)

    def word_len(self, e):
        n = len(e.type) if isinstance(e.type, tuple) else None
        return Expr("int", lambda variables: n if n is not None else len(e.run(variables)))

    def word_int(self, e):
        if meaning.is_float(e.type):
            return Expr("int", lambda variables: meaning.cut(e.run(variables), "int64"))
        return Expr("int", lambda variables: int(e.run(variables))) if e.type == "bool" else e

    def rounding(self, fn, whole, e):
        """Evaluate rounding: math.floor gives an integer, np.floor a float."""
        if not meaning.is_float(e.type):
            if whole:
                return self.word_int(e)
            e = Expr("float", self.to(e, "float"))
        run = e.run
        if whole:
            return Expr("int", lambda variables: meaning.cut(fn(run(variables)), "int64"))
        return Expr(e.type, lambda variables: fn(run(variables)))

    def word_abs(self, e):
        if meaning.is_float(e.type):
            return Expr(e.type, lambda variables: abs(e.run(variables)))
        dtype = self.strong("int" if e.type == "bool" else e.type)
        return Expr(
            "int" if e.type == "bool" else e.type, lambda variables: negated(int(e.run(variables)), dtype)
        )

    word_fabs = word_abs

    def fold(self, step, args):
        result = args[0]
        for e in args[1:]:
            dtype = promote(result.type, e.type)
            run = functools.partial(apply_two, step, self.to(result, dtype), self.to(e, dtype))
            result = Expr(dtype, run)
        return result

    def word_min(self, *args):
        return self.fold(functools.partial(meaning.extreme, True), args)

    def word_max(self, *args):
        return self.fold(functools.partial(meaning.extreme, False), args)

    def word_minimum(self, *args):
        return self.fold(functools.partial(meaning.extreme_nan, True), args)

    def word_maximum(self, *args):
        return self.fold(functools.partial(meaning.extreme_nan, False), args)

    def word_clip(self, x, low, high):
        return self.word_minimum(self.word_maximum(x, low), high)

    def word_where(self, test, yes, no):
        dtype = promote(yes.type, no.type)
        c, a, b = self.truth(test), self.to(yes, dtype), self.to(no, dtype)

        def run(variables):
            chosen, x, y = c(variables), a(variables), b(variables)
            return x if chosen else y

        return Expr(dtype, run)

    def word_sqrt(self, e):
        dtype = promote("float", e.type)
        x = self.to(e, dtype)
        return Expr(dtype, lambda variables: np.sqrt(x(variables)))

    def word_fma(self, *args):
        dtype = functools.reduce(promote, (a.type for a in args), "float")
        a, b, c = (self.to(e, dtype) for e in args)
        return Expr(
            dtype, lambda variables: meaning.fma(a(variables), b(variables), c(variables), self.strong(dtype))
        )

    def word_copysign(self, *args):
        dtype = functools.reduce(promote, (a.type for a in args), "float")
        a, b = (self.to(e, dtype) for e in args)
        return Expr(dtype, lambda variables: np.copysign(a(variables), b(variables)))

    def of_floats(self, fn, *args):
        """Wrap a function of Python floats so that its results are numbers of the operands' dtype."""
        dtype = functools.reduce(promote, (a.type for a in args), "float")
        runs = [self.to(e, dtype) for e in args]
        kind = np.float32 if self.strong(dtype) == "float32" else np.float64
        return Expr(dtype, lambda variables: kind(fn(*(float(run(variables)) for run in runs))))

    def word_fmod(self, *args):
        return self.of_floats(np.fmod, *args)

    def word_remainder(self, *args):
        return self.of_floats(remainder, *args)

    def word_ldexp(self, *args):
        return self.of_floats(lambda x, n: np.ldexp(x, int(n)), *args)

    def word_logb(self, e):
        return self.of_floats(exponent, e)

    def word_frexp(self, e):
        m, k = (self.of_floats(lambda x, k=k: math.frexp(x)[k], e) for k in (0, 1))
        whole = Expr("int", lambda variables: int(k.run(variables)))
        return Expr((m.type, "int"), lambda variables: (m.run(variables), whole.run(variables)))

    def word_gcd(self, *args):
        dtype = functools.reduce(promote, (a.type for a in args))
        a, b = (self.to(e, dtype) for e in args)
        return Expr(dtype, lambda variables: math.gcd(int(a(variables)), int(b(variables))))

    def word_isinf(self, e):
        return Expr("bool", lambda variables: bool(np.isinf(float(e.run(variables)))))

    def word_isnan(self, e):
        return Expr("bool", lambda variables: bool(e.run(variables) != e.run(variables)))

    def word_isfinite(self, e):
        return Expr("bool", lambda variables: bool(np.isfinite(e.run(variables))))

    def word_bits(self, e):
        dtype = "int32" if self.strong(e.type) == "float32" else "int64"
        return Expr(dtype, lambda variables: int(e.run(variables).view(dtype)))

    def word_from_bits64(self, e):
        x = self.to(e, "int64")
        return Expr("float64", lambda variables: np.int64(x(variables)).view(np.float64))

    def word_from_bits32(self, e):
        x = self.to(e, "int32")
        return Expr("float32", lambda variables: np.int32(x(variables)).view(np.float32))

    # ---- words of the team
    def collective(self, word, node, frame):
        if word == "barrier":
            return Expr(None, lambda variables: variables["team"].meet("barrier", None))
        if word == "single":
            return Expr("bool", lambda variables: variables["team"].rank == 0)
        if word == "scratch":
            return self.array(
                node, frame, lambda variables, shape, dtype: variables["team"].scratch(shape, dtype)
            )
        args = [self.expr(a, frame) for a in node.args]
        if word == "broadcast":
            rank = self.as_int(args[1]) if len(args) > 1 else lambda variables: 0

            def broadcast(variables):
                values = variables["team"].meet("broadcast", args[0].run(variables))
                return values[rank(variables)]

            return Expr(args[0].type, broadcast)
        if word == "append":
            return self.append(*args)
        reducer = self.reducer(args[1].type if len(args) > 1 else "Sum", args[0].type, in_team=True)
        if word == "reduce":

            def reduce(variables):
                return reducer.all(variables["team"].meet("reduce", args[0].run(variables)))

            return Expr(reducer.result, reduce)

        def scan(variables):
            team = variables["team"]
            return reducer.all(team.meet("scan", args[0].run(variables))[: team.rank])

        return Expr(reducer.result, scan)

    def append(self, view, at, value, keep):
        kept, stored, dtype = self.truth(keep), self.to(value, view.type.dtype), view.type.dtype

        def run(variables):
            team, array, begin, x = (
                variables["team"],
                view.run(variables),
                int(at.run(variables)),
                stored(variables),
            )
            keeps = team.meet("append", kept(variables))
            if keeps[team.rank]:
                where = (begin + sum(keeps[: team.rank]),)
                inside(array, where)
                array[where] = x
            return begin + sum(keeps)

        assert dtype != "bool"
        return Expr(promote("int", at.type), run)

    def reducer(self, name, contribution, in_team=False):
        return (reducing.Written if name in self.reducers else reducing.BuiltIn)(
            self, name, contribution, in_team
        )


def apply_two(step, x, y, variables):
    return step(x(variables), y(variables))


def negated(value, dtype):
    return meaning.integer("-", 0, value, dtype) if value < 0 else value


def remainder(x, y):
    """Evaluate math.remainder; NaN where that raises."""
    try:
        return math.remainder(x, y)
    except ValueError:
        return math.nan


def exponent(x):
    """Evaluate C's logb."""
    return math.frexp(x)[1] - 1.0 if x and math.isfinite(x) else abs(x) or -math.inf
