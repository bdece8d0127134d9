"""Count compiled code by kinds of operations: executed instructions of LLVM, and spills in machine code."""

import collections
import re

_LLVM = {"double": ("float64", 8), "float": ("float32", 4), "i1": ("bool", 1), "ptr": ("pointer", 8)} | {
    f"i{8 * n}": (f"int{8 * n}", n) for n in (1, 2, 4, 8)
}
FLOPS = {"fadd": 1, "fsub": 1, "fmul": 1, "fdiv": 1, "frem": 1, "fma": 2, "fmuladd": 2}
# of LLVM's instructions; each of these is one machine instruction
ARITHMETIC = {*FLOPS} - {"frem"}
_DIVISIONS = "sdiv udiv srem urem".split()
_INTEGER = {
    *"add sub mul shl lshr ashr and or xor smin smax umin umax abs".split(),
    *(f"{name}{how}" for name in _DIVISIONS for how in ("", " by constant")),
}
_LOADS, _STORES = {"load", "masked.load", "masked.gather"}, {"store", "masked.store", "masked.scatter"}
STARTS = {*FLOPS, "sqrt", *_INTEGER, *_LOADS, *_STORES}  # each is one or several instructions of a GPU


def lanes_and_type(text):
    """Return (lanes, dtype, bytes of an element) of an LLVM type: "<8 x double>" is (8, "float64", 8)."""
    vector = re.match(r"<(\d+) x (\w+)>", text)
    lanes, element = (int(vector[1]), vector[2]) if vector else (1, text)
    return (lanes, *_LLVM.get(element, (element, 0)))


def executed_totals(executed):
    """Return totals of executed instructions; each lane of a vector is an operation.

    Operations inside special functions have a separate total, because hardware counters do not distinguish
    functions.

    Parameters
    ----------
    executed : dict of (line, instruction, LLVM type) to int

    Returns
    -------
    dict
        "flops" and "inside_flops" (of special functions without branches) by dtype, "special" by name,
        "integer", "loaded" and "stored" bytes (masked lanes included), "atomics".
    """
    flops, inside, special = (collections.Counter() for _ in range(3))
    totals = collections.Counter(integer=0, loaded=0, stored=0, atomics=0)
    for (_, name, of), n in executed.items():
        lanes, dtype, size = lanes_and_type(of)
        if name.startswith("inside "):
            inside[dtype] += FLOPS.get(name.split(" ")[2], 0) * lanes * n
            continue
        each = FLOPS.get(name, 0)
        if name.startswith("vector.reduce.f") and not name.startswith("vector.reduce.fm"):
            each = 1
        if each:
            flops[dtype] += each * lanes * n
        elif name in ("special //", "special %"):  # each is one flop of the source, as other operators
            flops[dtype] += lanes * n
        elif name.startswith("special "):
            special[f"{name.removeprefix('special ')} {dtype}"] += lanes * n
        elif name == "sqrt":
            special[f"sqrt {dtype}"] += lanes * n
        elif name in _INTEGER and "int" in dtype:
            totals["integer"] += lanes * n
        elif name in _LOADS:
            totals["loaded"] += lanes * size * n
        elif name in _STORES:
            totals["stored"] += lanes * size * n
        elif name.startswith(("atomicrmw", "cmpxchg")):
            totals["atomics"] += n
    return {
        "flops": dict(flops),
        "inside_flops": {d: n for d, n in inside.items() if n},
        "special": dict(special),
        **totals,
    }


_OF_LLVM = {
    "fpext": "float32 to float64",
    "fptrunc": "float64 to float32",
    **dict.fromkeys("sitofp uitofp".split(), "int64 to float64"),
    **dict.fromkeys("fptosi fptoui fptosi.sat fptoui.sat".split(), "float64 to int64"),
}


def conversions(executed):
    """Return the executed conversions, by the converted types, each lane counts: {"int64 to float64": n,
    ...}; integers of any size are reported as int64."""
    found = collections.Counter()
    for (_, name, of), n in executed.items():
        if name in _OF_LLVM:
            found[_OF_LLVM[name]] += n * lanes_and_type(of)[0]
    return dict(found)


# Floating-point instructions of x86-64 and of aarch64, on whole registers or on one number
_ARITHMETIC = re.compile(
    r"\s(?:v?(?:add|sub|mul|div)[ps][sd]|vf?n?m(?:add|sub)\d+[ps][sd]|f(?:n?m?add|n?msub|n?mul|div|ml[as]))\s"
)
DEEPER = 8  # assumed iterations of a loop, as the weight of an inner loop's instructions
_KEPT = re.compile(r"(\d+)-byte (?:Folded )?(?:Spill|Reload)")


def spilled(assembly):
    """Return (bytes spilled to the stack and reloaded, floating-point instructions) of the block of code with
    most floating-point instructions among the deepest loops, by LLVM's remarks in the machine code; (0, 0)
    without loops."""
    blocks = [[0, 0, 0]]  # depth of its loop, arithmetic, bytes
    for line in assembly.splitlines():
        if re.match(r"\.?L?BB\d+_\d+:|[#/]+ %bb\.\d+:", line.strip()):
            blocks.append([0, 0, 0])
        if depth := re.search(r" Depth=(\d+)", line):
            blocks[-1][0] = max(blocks[-1][0], int(depth[1]))
        blocks[-1][1] += bool(_ARITHMETIC.search(line))
        if kept := _KEPT.search(line):
            blocks[-1][2] += int(kept[1])
    loops = [(arithmetic * DEEPER**depth, kept, arithmetic) for depth, arithmetic, kept in blocks if depth]
    return max(loops, default=(0, 0, 0))[1:]
