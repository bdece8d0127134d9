"""PTX of a function as a block of inline assembly, which any LLVM accepts: the calling code
contains no call.

The device's assembler inlines neither across files nor functions of one file, so the function's body itself
is inserted: registers and labels get unique names, parameters become operands.
"""

import re

from llvmlite import ir

from ..core.machines.cuda.engine import REGISTERS

_REGISTER = r"%(p|rs|r|rd|f|fd|SP|SPL|temp|rl|b|c|h|hh)(\d+|<\d+>|\b)"


def block(ptx, name, inputs, outs):
    """Return the body of a device function with operands $0, $1, ... for results and parameters.

    Parameters
    ----------
    ptx : str, a whole text
    name : str, of the function in it
    inputs, outs : LLVM types, i32, i64, float or double

    Returns
    -------
    str, or None if the function refers to tables or other functions
    """
    head, _, rest = ptx.partition("\n{\n")
    body = re.sub(r"//.*$", "", rest[: rest.index("\n}")], flags=re.M)
    outside = head.replace(".visible .func", "", 1) + rest[rest.index("\n}") :]
    if re.search(r"^\s*\.(global|const|extern|func|visible|weak)", outside, re.M) or re.search(
        r"\bcall\b", body
    ):
        return None
    body = re.sub(
        _REGISTER, r"%pk_\1\2", body.replace("$L_", "$PK_").replace("$", "$$")
    )  # names of the caller's
    for k, kind in enumerate(inputs):
        parameter = rf"ld\.param\.\w+\s+(%\w+), \[{name}_param_{k}\];"
        body = re.sub(parameter, rf"mov.b{REGISTERS[str(kind)][1]} \1, ${len(outs) + k};", body)
    body = re.sub(r"st\.param(?:\.v\d)?\.\w+\s+\[func_retval0(?:\+(\d+))?\], ([^;]*);", _Results(outs), body)
    if ".param" in body:
        return None
    several = len(re.findall(r"^\s*ret;", body, re.M)) > 1
    body = re.sub(r"^\s*ret;", "\tbra PK_DONE;" if several else "", body, flags=re.M)
    return "{\n" + body + ("\nPK_DONE:\n" if several else "\n") + "}"


class _Results:
    """Moves to the operands of the results in place of a store to the struct that a function returns."""

    def __init__(self, outs):
        self.bits, self.places, at = [REGISTERS[str(o)][1] for o in outs], {}, 0
        for k, bits in enumerate(self.bits):
            at = -(-at // (bits // 8)) * (bits // 8)
            self.places[at] = k
            at += bits // 8

    def __call__(self, found):
        first = self.places[int(found[1] or 0)]
        registers = [r.strip() for r in found[2].strip("{}").split(",")]
        return " ".join(map(self.move, range(first, first + len(registers)), registers))

    def move(self, k, register):
        if "_rs" in register:  # a bool, in 16 bits
            return f"cvt.u32.u16 ${k}, {register};"
        return f"mov.b{self.bits[k]} ${k}, {register};"


def calling(name, inputs, out):
    """Return a block that calls a function of the surrounding PTX."""
    lines = ["{"]
    for k, kind in enumerate(inputs):
        bits = REGISTERS[str(kind)][1]
        lines += [f".param .b{bits} pk_in{k};", f"st.param.b{bits} [pk_in{k}], ${k + 1};"]
    bits = REGISTERS[str(out)][1]
    given = ", ".join(f"pk_in{k}" for k in range(len(inputs)))
    lines += [
        f".param .b{bits} pk_out;",
        f"call.uni (pk_out), {name}, ({given});",
        f"ld.param.b{bits} $0, [pk_out];",
        "}",
    ]
    return "\n".join(lines)


def rounded(body):
    """Return the block with each sum and product rounded separately: none fuses with the caller's."""
    return re.sub(r"\b(add|sub|mul)\.(f32|f64)\b", r"\1.rn.\2", body)


def result_type(outs):
    """Return the type of a function's result: none, a number, or a structure of them."""
    return outs[0] if len(outs) == 1 else ir.LiteralStructType(outs) if outs else ir.VoidType()


def call(builder, body, outs, args, pure):
    """Return the block at the builder's place; its results."""
    letters = ["=&" + REGISTERS[str(o)][0] for o in outs] + [REGISTERS[str(a.type)][0] for a in args]
    letters += [] if pure else ["~{memory}"]
    kind = ir.FunctionType(result_type(outs), [a.type for a in args])
    value = builder.call(ir.InlineAsm(kind, body, ",".join(letters), side_effect=not pure), args)
    return [value] if len(outs) == 1 else [builder.extract_value(value, k) for k in range(len(outs))]
