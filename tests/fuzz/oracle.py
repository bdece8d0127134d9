"""A kernel's text, run in plain Python by the meaning of `meaning.py`.

The text is turned into closures once for each set of argument types, since a name's dtype is known before it runs: `Reader` reads
expressions and statements. What it was not written for is `Refused`: the generators stay inside. Products remember their factors, so
that a sum with one is rounded once; `fused=False` is plain Python's rounding, that of the checked space.
"""

from __future__ import annotations

import ast
import functools
import math

import numpy as np

from . import meaning, reducing
from .meaning import Refused, Undefined, convert, promote

BREAK, CONTINUE, RETURN = "break", "continue", "return"
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
           ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_CASTS = {"pk.int32": "int32", "pk.int64": "int64", "pk.uint32": "uint32", "pk.uint64": "uint64", "pk.float32": "float32",
          "pk.float64": "float64", "bool": "bool", "float": "float"}
_ATOMICS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


class View:
    """The type of an array: its dtype and number of dimensions."""

    def __init__(self, dtype, ndim):
        self.dtype, self.ndim = dtype, ndim

    def __eq__(self, other):
        return isinstance(other, View) and (self.dtype, self.ndim) == (other.dtype, other.ndim)

    def __hash__(self):
        return hash((self.dtype, self.ndim))


class Expr:
    """An expression: its type (a dtype, a View, a tuple of types, "team", or a reducer's name) and a function of the variables.

    `product`: of a float product the functions that give its two factors.
    """

    __slots__ = ("type", "run", "product")

    def __init__(self, type, run, product=None):  # noqa: A002
        self.type, self.run, self.product = type, run, product


class Frame:
    """What is known of one function while it is read."""

    def __init__(self, tree, types):
        self.types = dict(zip((a.arg for a in tree.args.args), types))
        stores = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.once = {name for name in stores if stores.count(name) == 1} - set(self.types)
        self.products, self.result = set(), None


class Reader:
    """Turns the functions of a module's text into closures.

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
            elif isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and ast.unparse(s.value.func) == "pk.Reducer":
                self.reducers[s.targets[0].id] = s.value.args
            elif isinstance(s, ast.Assign):
                self.constants[s.targets[0].id] = s.value

    def strong(self, dtype):
        return self.own if dtype == "float" else "int64" if dtype == "int" else dtype

    def convert(self, value, a, b):
        return convert(value, self.strong(a), self.strong(b))

    # ---- functions
    def function(self, name, types):
        """(type of the result, function of arguments) of one of the text's functions for these argument types."""
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
        """A number, or a tuple of numbers, of type `a` as one of type `b`."""
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
        value = self.expr(s.value, frame)
        target, = s.targets
        if isinstance(target, ast.Name) and value.product and self.fused and target.id in frame.once:
            return self.named_product(target.id, value, frame)
        store = self.target(target, value.type, frame)

        def step(variables):
            store(variables, value.run(variables))

        return step

    def named_product(self, name, value, frame):
        frame.types[name] = value.type
        frame.products.add(name)
        first, second = value.product

        def step(variables):
            a, b = variables[name + ":factors"] = first(variables), second(variables)
            variables[name] = a * b

        return step

    def target(self, target, type_, frame):
        """A function (variables, value) that stores a value of this type."""
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
        """The type of a variable: that of its first assignment, which later ones may only weaken."""
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
        test, body, other = self.truth(self.expr(s.test, frame)), self.block(s.body, frame), self.block(s.orelse, frame)
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

    # ---- expressions
    def expr(self, node, frame):
        return getattr(self, "expr_" + type(node).__name__)(node, frame)

    def truth(self, e):
        return lambda variables: bool(e.run(variables) != 0)

    def as_int(self, e):
        if meaning.is_float(e.type):
            raise Refused("a float as an index or bound")
        return lambda variables: int(e.run(variables))

    def to(self, e, dtype):
        if self.strong(e.type) == self.strong(dtype):
            return e.run
        return lambda variables: self.convert(e.run(variables), e.type, dtype)

    def constant(self, value):
        """A Python number that the text holds; a weak float is of the kernel's own float."""
        if isinstance(value, tuple):
            parts = [self.constant(v) for v in value]
            values = tuple(p.run(None) for p in parts)
            return Expr(tuple(p.type for p in parts), lambda variables: values)
        type_ = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        value = meaning.FLOATS[self.own](value) if type_ == "float" else value
        return Expr(type_, lambda variables: value)

    def expr_Constant(self, node, frame):
        return self.constant(node.value)

    def expr_Name(self, node, frame):
        name = node.id
        if name in frame.types:
            factors = None
            if name in frame.products:
                factors = (lambda variables: variables[name + ":factors"][0], lambda variables: variables[name + ":factors"][1])
            return Expr(frame.types[name], lambda variables: variables[name], factors)
        if name in self.constants:
            return self.expr(self.constants[name], frame)
        if name in self.reducers:
            return Expr(name, None)
        raise Refused(f"name {name}")

    def expr_Attribute(self, node, frame):
        text = ast.unparse(node)
        if text in ("math.inf", "math.nan", "math.pi"):
            return self.constant(getattr(math, node.attr))
        if text.startswith("pk."):
            return Expr(text[3:], None)  # a reducer
        base = self.expr(node.value, frame)
        if base.type == "team":
            return Expr("int", lambda variables: getattr(base.run(variables), node.attr))
        if node.attr == "shape":
            return Expr(("int",) * base.type.ndim, lambda variables: base.run(variables).shape)
        if node.attr == "size":
            return Expr("int", lambda variables: base.run(variables).size)
        raise Refused(text)

    def expr_Tuple(self, node, frame):
        parts = [self.expr(e, frame) for e in node.elts]
        return Expr(tuple(p.type for p in parts), lambda variables: tuple(p.run(variables) for p in parts))

    def expr_Subscript(self, node, frame):
        base = self.expr(node.value, frame)
        if isinstance(base.type, tuple):
            k = ast.literal_eval(node.slice)
            return Expr(base.type[k], lambda variables: base.run(variables)[k])
        index, n_kept = self.index(node.slice, base.type, frame)
        if n_kept:
            return Expr(View(base.type.dtype, n_kept), lambda variables: base.run(variables)[index(variables)])
        dtype = base.type.dtype
        return Expr(dtype, lambda variables: load(base.run(variables), index(variables), dtype))

    def place(self, node, frame):
        """A function of the variables: (array, index, dtype) of an element."""
        base = self.expr(node.value, frame)
        index, n_kept = self.index(node.slice, base.type, frame)
        if n_kept:
            raise Refused("one element is assigned at a time")

        def place(variables):
            array, where = base.run(variables), index(variables)
            inside(array, where)
            return array, where, base.type.dtype

        return place

    def index(self, node, view, frame):
        """(function of the variables that gives NumPy's index, dimensions that stay)."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        items, slices = [], 0
        for part in parts:
            if isinstance(part, ast.Slice):
                slices += 1
                ends = [None if p is None else self.as_int(self.expr(p, frame)) for p in (part.lower, part.upper)]
                items.append(lambda variables, ends=ends: slice(*(e and e(variables) for e in ends)))
            else:
                items.append(self.as_int(self.expr(part, frame)))
        return lambda variables: tuple(item(variables) for item in items), view.ndim - len(parts) + slices

    # ---- operators
    def expr_BinOp(self, node, frame):
        left, right = self.expr(node.left, frame), self.expr(node.right, frame)
        if isinstance(node.op, ast.Pow):
            return self.power(left, right)
        return self.binary(node.op, left, right)

    def binary(self, operator, left, right):
        if isinstance(operator, ast.Pow):
            return self.power(left, right)
        op = _BINARY[type(operator)]
        dtype = promote(left.type, right.type)
        if dtype == "bool" and op not in "&|^":
            dtype = "int"
        if op == "/" and not meaning.is_float(dtype):
            dtype = "float"
        strong = self.strong(dtype)
        x, y = self.to(left, dtype), self.to(right, dtype)
        if meaning.is_float(dtype):
            if op in "+-" and self.fused:
                for e, sign in ((left, 1), (right, -1)):
                    if e.product and self.strong(e.type) == strong:
                        self.fuses = True
                        return Expr(dtype, self.fused_sum(op, e.product, x if sign < 0 else y, strong, sign))
            run = functools.partial(apply, meaning.floating, op, x, y)
            return Expr(dtype, run, (x, y) if op == "*" else None)
        if dtype == "bool":
            return Expr(dtype, lambda variables: bool(meaning.integer(op, x(variables), y(variables), "int")))
        return Expr(dtype, lambda variables: meaning.integer(op, int(x(variables)), int(y(variables)), strong))

    def fused_sum(self, op, factors, other, dtype, sign):
        """product + other (sign 1) or other + product (sign -1), in the text's order."""
        first, second = factors

        def product_first(variables):
            a, b = first(variables), second(variables)
            c = other(variables)
            return meaning.fma(a, b, -c if op == "-" else c, dtype)

        def product_last(variables):
            c = other(variables)
            a, b = first(variables), second(variables)
            return meaning.fma(-a if op == "-" else a, b, c, dtype)

        return product_first if sign > 0 else product_last

    def power(self, left, right):
        """Integers to small constant powers, floats to any: exact cases only, since pow is the layer's own."""
        if not meaning.is_float(promote(left.type, right.type)):
            strong = self.strong("int" if left.type == "bool" else left.type)

            def run(variables):
                x, n, result = int(left.run(variables)), int(right.run(variables)), 1
                for _ in range(n):
                    result = meaning.integer("*", result, x, strong)
                return result

            return Expr("int" if left.type == "bool" else left.type, run)
        dtype = promote(left.type, right.type)
        x, y = self.to(left, dtype), self.to(right, dtype)
        return Expr(dtype, lambda variables: np.power(x(variables), y(variables)))

    def expr_UnaryOp(self, node, frame):
        e = self.expr(node.operand, frame)
        if isinstance(node.op, ast.Not):
            test = self.truth(e)
            return Expr("bool", lambda variables: not test(variables))
        if isinstance(node.op, ast.USub):
            if meaning.is_float(e.type):
                return Expr(e.type, lambda variables: -e.run(variables))
            dtype = "int" if e.type == "bool" else e.type
            return Expr(dtype, lambda variables: meaning.integer("-", 0, int(e.run(variables)), self.strong(dtype)))
        if e.type == "bool":
            return Expr("bool", lambda variables: not e.run(variables))
        return Expr(e.type, lambda variables: meaning.wrapped(~e.run(variables), self.strong(e.type)) if e.type not in (
            "uint32", "uint64") else meaning.most(e.type) - e.run(variables))

    def expr_Compare(self, node, frame):
        parts = [self.expr(n, frame) for n in (node.left, *node.comparators)]
        ops = [_COMPARE[type(op)] for op in node.ops]
        kinds = [self.strong(promote(a.type, b.type)) for a, b in zip(parts, parts[1:])]

        def run(variables):
            left = parts[0].run(variables)
            for k, op in enumerate(ops):
                right = parts[k + 1].run(variables)
                a = self.convert(left, parts[k].type, kinds[k])
                if not meaning.compare(op, a, self.convert(right, parts[k + 1].type, kinds[k])):
                    return False
                left = right
            return True

        return Expr("bool", run)

    def expr_BoolOp(self, node, frame):
        """Each operand as one of the common type of those before and itself."""
        result = self.expr(node.values[0], frame)
        for part in node.values[1:]:
            result = self.and_or(isinstance(node.op, ast.And), result, self.expr(part, frame))
        return result

    def and_or(self, conjunction, left, right):
        dtype = promote(left.type, right.type)

        def run(variables):
            value = left.run(variables)
            if bool(value != 0) == conjunction:
                return self.convert(right.run(variables), right.type, dtype)
            return self.convert(value, left.type, dtype)

        return Expr(dtype, run)

    def expr_IfExp(self, node, frame):
        test = self.truth(self.expr(node.test, frame))
        return self.choice(test, self.expr(node.body, frame), self.expr(node.orelse, frame))

    def choice(self, test, yes, no):
        dtype = promote(yes.type, no.type)
        a, b = self.to(yes, dtype), self.to(no, dtype)
        return Expr(dtype, lambda variables: a(variables) if test(variables) else b(variables))

    # ---- calls
    def expr_Call(self, node, frame):
        name = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and frame.types.get(node.func.value.id) == "team":
            return self.collective(node.func.attr, node, frame)
        if name == "pk.local":
            return self.array(node, frame, lambda variables, shape, dtype: np.zeros(shape, dtype))
        args = [self.expr(a, frame) for a in node.args]
        if name in self.functions:
            type_, call = self.function(name, tuple(a.type for a in args))
            return Expr(type_, lambda variables: call(*(a.run(variables) for a in args)))
        if name.startswith("pk.atomic_"):
            return self.atomic(name[len("pk.atomic_"):], *args)
        if name in _CASTS:
            return Expr(_CASTS[name], self.to(args[0], _CASTS[name]))
        module, _, word = name.rpartition(".")
        if word in ("floor", "ceil", "trunc", "rint"):
            return self.rounding(getattr(np, word), module == "math", *args)
        return getattr(self, "word_" + word)(*args)

    def array(self, node, frame, make):
        shape = ast.literal_eval(node.args[0])
        name = ast.unparse(node.args[1])
        dtype = self.expr(node.args[1].value, frame).type.dtype if name.endswith(".dtype") else name.removeprefix("pk.")
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
                x = meaning.floating(_ATOMICS[op], old, x) if meaning.is_float(dtype) else meaning.integer(_ATOMICS[op], old, x, dtype)
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
        """math.floor gives an integer, np.floor a float."""
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
        return Expr("int" if e.type == "bool" else e.type, lambda variables: negated(int(e.run(variables)), dtype))

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
        return Expr(dtype, lambda variables: meaning.fma(a(variables), b(variables), c(variables), self.strong(dtype)))

    def word_copysign(self, *args):
        dtype = functools.reduce(promote, (a.type for a in args), "float")
        a, b = (self.to(e, dtype) for e in args)
        return Expr(dtype, lambda variables: np.copysign(a(variables), b(variables)))

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
            return self.array(node, frame, lambda variables, shape, dtype: variables["team"].scratch(shape, dtype))
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
            team, array, begin, x = variables["team"], view.run(variables), int(at.run(variables)), stored(variables)
            keeps = team.meet("append", kept(variables))
            if keeps[team.rank]:
                where = (begin + sum(keeps[: team.rank]),)
                inside(array, where)
                array[where] = x
            return begin + sum(keeps)

        assert dtype != "bool"
        return Expr(promote("int", at.type), run)

    def reducer(self, name, contribution, in_team=False):
        return (reducing.Written if name in self.reducers else reducing.BuiltIn)(self, name, contribution, in_team)


def apply(meant, op, x, y, variables):
    return meant(op, x(variables), y(variables))


def apply_two(step, x, y, variables):
    return step(x(variables), y(variables))


def negated(value, dtype):
    return meaning.integer("-", 0, value, dtype) if value < 0 else value


def inside(array, index):
    if not all(0 <= k < n for k, n in zip(index, array.shape, strict=True)):
        raise Refused(f"index {index} of an array of {array.shape}")


def within(steps):
    """A range, which must not step beyond int64; in steps of one it does not."""
    if abs(steps.step) > 1 and not -(2**63) <= steps.stop + steps.step < 2**63:
        raise Undefined("a range steps beyond int64")
    return steps


def load(array, index, dtype):
    inside(array, index)
    value = array[index]
    return value if dtype in meaning.FLOATS else value.item()
