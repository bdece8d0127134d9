"""Fixes of defects that earlier programs found, to be reverted one at a time.

Each is (item of the list of defects, description, file, source now, source without the fix); the present
source occurs exactly once in the file. Where the typed tree has made a defect impossible, the reverted source
is at the place where it would arise now.
"""

BUILD, EXPRESSIONS, STATEMENTS = (
    f"portable/core/compiler/reading/{name}.py" for name in ("build", "expressions", "statements")
)
PARTS, TYPING = "portable/core/compiler/writing/parts.py", "portable/core/compiler/reading/typing.py"
VALUES = "portable/core/compiler/writing/values.py"

MENDS = [
    (
        1,
        "exits from thread_range",
        "portable/core/machines/cpu/lanes.py",
        "        if ops.W == 1 or loop.breaks:",
        "        if ops.W == 1:",
    ),
    (
        2,
        "shift counts",
        "portable/core/compiler/writing/arithmetic.py",
        "        return _shift(ops, op, x, y, dtype, const_b)\n",
        "        return x << y if op == '<<' else builder.lshr(x, y) if dtype in UNSIGNED else x >> y\n",
    ),
    (
        3,
        "slices from the end",
        PARTS,
        "ops.larger(ops.plus(extent, bound), 0) if bound < 0 else ops.smaller(bound, extent)\n",
        "bound\n",
    ),
    (
        3,
        "bounds of slices at run time",
        PARTS,
        "    return ops.smaller(ops.larger(behind, 0), extent)\n",
        "    return bound\n",
    ),
    (
        4,
        "// and % of floats",
        "portable/core/compiler/writing/instructions.py",
        '            return _layers_text(here, op, texts("divmod"), values, dtype, op == "%")\n',
        """            kind = ops.kind_of(a, b)
            x, y = ops.get(a, dtype, kind), ops.get(b, dtype, kind)
            q = ops.intrinsic("floor", [builder.fdiv(x, y)])
            r = ops.intrinsic("fma", [builder.fneg(q), y, x])
            return Value(dtype, kind, q if op == "//" else r)
""",
    ),
    (
        5,
        "chained comparisons",
        EXPRESSIONS,
        "    return linked(node, build.expr(node.left), 0)\n",
        """    if len(node.ops) > 1:
        values = [node.left, *node.comparators]
        pairs = zip(values, node.ops, values[1:])
        parts = [ast.copy_location(ast.Compare(a, [op], [b]), node) for a, op, b in pairs]
        return build.expr(ast.copy_location(ast.BoolOp(ast.And(), parts), node))
    return linked(node, build.expr(node.left), 0)
""",
    ),
    (
        6,
        "constants that are equal",
        "portable/core/launch/dispatch.py",
        "key = type(value), repr(value)",
        "key = value, value",
    ),
    (
        6,
        "constants that are equal, in typed trees",
        "portable/core/compiler/reading/tree.py",
        'return "constant", value.dtype, repr(value.const), value.const',
        'return "constant", value.dtype, value.const, value.const',
    ),
    (
        7,
        "floats as integers",
        VALUES,
        "            return self._to_integer(x, to, b)\n",
        "            return build.fptoui(x, to) if b in UNSIGNED else build.fptosi(x, to)\n",
    ),
    (
        7,
        "NaN in atomic_min and atomic_max",
        "portable/core/compiler/writing/atomic.py",
        '"min": "fminimum", "max": "fmaximum"',
        '"min": "fmin", "max": "fmax"',
    ),
    (
        7,
        "unsigned sums",
        "portable/core/compiler/reading/team.py",
        '    return "uint64" if dtype in UNSIGNED else "int64"\n',
        '    return "int64"\n',
    ),
    (
        7,
        "division by zero in the checked space",
        "portable/watch/checked/code.py",
        "//: {0:=} // {1:=} if {1:=} else 0",
        "//: {0:=} // {1:=} if {1:=} else 1",
    ),
    (
        8,
        "collectives behind loops",
        TYPING,
        "block.split or left)\n",
        """block.split or left)
            if s.__class__ is Loop:
                apart = apart or s.varying_exit or s.varying_continue
""",
    ),
    (
        9,
        "x **= a",
        STATEMENTS,
        "        new = operated(s.op, old, build.expr(s.value), s)\n",
        """        whole = isinstance(getattr(s.value, "value", None), int)
        if name and isinstance(s.op, ast.Pow) and not whole:
            build.fail(s, f"`{ast.unparse(s)}` does not compile")
        new = operated(s.op, old, build.expr(s.value), s)
""",
    ),
    (
        9,
        "powers of constants",
        EXPRESSIONS,
        "        known = constant_power(base, exponent, node)\n",
        "        known = build.const(base.const ** n)\n",
    ),
    (
        11,
        "what a function returns",
        BUILD,
        "            result = mapped(self.rounded, frame.result)\n",
        "            result = frame.result\n",
    ),
    (11, "what a function is given", BUILD, "        args = [mapped(self.rounded, a) for a in args]\n", ""),
    (
        12,
        "one reducer over two dtypes",
        TYPING,
        "    key = described, width, step, float_dtype, asserts, apart\n",
        """    def untyped(d):
        return d[:1] + d[2:] if d[0] == "number" else (d[0], *map(untyped, d[1:])) if d[0] == "tuple" else d
    key = tuple(map(untyped, described)), width, step, float_dtype, asserts, apart
""",
    ),
    (
        13,
        "the width of a weak float that goes from member to member",
        "portable/core/machines/cuda/lanes.py",
        "    bits = BITS[ops.strong(v.dtype)]\n",
        "    bits = BITS[v.dtype]\n",
    ),
    (
        14,
        "casts of constants to float32",
        "portable/core/language/types.py",
        "    if is_float(dtype):\n        return rounded(number, dtype)\n",
        "    if is_float(dtype):\n        return float(number)\n",
    ),
    (
        14,
        "products of constants in a sum",
        "portable/core/compiler/reading/operations.py",
        "                    made.attr, made.args = op, [a, b]\n",
        "                    pass\n",
    ),
]
