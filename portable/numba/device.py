"""Interoperation of numba-cuda and the space "cuda": functions go both ways as blocks of inline assembly.

Code generated here is for the oldest device that numba-cuda supports, and runs on all newer ones.
"""

import functools
import hashlib
import re

from llvmlite import ir
from numba import cuda
from numba.core.errors import NumbaError
from numba.cuda.np import arrayobj

from ..core.machines.cuda import engine
from ..core.machines.cuda.lanes import CudaTarget
from ..core.machines.cuda.lower import DATA_LAYOUT
from ..core.compiler.writing.lines import builder as own
from ..core.compiler.writing.optimise import optimise
from ..core.compiler.reading.signature import flatten
from ..core.language.types import VARYING, TypeClash
from ..core.compiler.writing.values import I1, I64, PTR, SCALAR, Value
from ..core.launch.dispatch import compiling
from ..errors import LanguageError, LoweringError
from ..core.language.kernel import Kernel
from . import assembly
from .types import DTYPE, NUMBA, word_at, words

CAPABILITY = 7, 5
I32 = ir.IntType(32)


# ---- portable's functions in numba-cuda's kernels
def _words(spec):
    """Return the LLVM types of an argument's words; a bool fills one."""
    if spec[0] == "static":
        return []
    number = I64 if spec[1] == "bool" else SCALAR[spec[1]]
    return [number] if spec[0] == "number" else [I64] * (1 + 2 * spec[2])


def _module(name):
    module = ir.Module(name)
    module.triple, module.data_layout = "nvptx64-nvidia-cuda", DATA_LAYOUT
    return module


@functools.cache
def _block(linked):
    """Return (assembly, types of its results) of a function of portable's, whose arguments are words in
    registers.
    """
    inputs = [kind for spec in flatten(linked.signature.specs) for kind in _words(spec)]
    outs = [I32 if kind == I1 else kind for kind in linked.llvm]
    with compiling:
        machine = engine.machine(CAPABILITY)
        ptx = machine.emit_assembly(
            optimise(str(_of_registers(linked, inputs, outs)), machine, linked.written.name)
        )
    found = assembly.block(ptx, "outer", inputs, outs)
    if found is None:
        raise LoweringError(
            f"{linked.where} uses tables or calls on a GPU, which numba-cuda's kernels cannot include; "
            "launch a @pk.kernel instead"
        )
    return assembly.rounded(found), outs


def _of_registers(linked, inputs, outs):
    """Return a module with a function "outer" that passes words and results of a portable function in
    registers.
    """
    result, module = assembly.result_type(outs), _module(linked.written.name)
    outer = ir.Function(module, ir.FunctionType(result, inputs), "outer")
    b = ir.IRBuilder(outer.append_basic_block("begin"))
    place = b.alloca(ir.ArrayType(I64, max(1, len(inputs) + len(outs))))
    place.type = PTR
    for k, word in enumerate(outer.args):
        b.store(word, word_at(b, place, k))
    linked.emit(module, "inner", CudaTarget)
    module.get_global("inner").linkage = "internal"
    b.call(module.get_global("inner"), [place])
    numbers = [b.load(word_at(b, place, len(inputs) + k), typ=kind) for k, kind in enumerate(linked.llvm)]
    _return(b, result, [b.zext(x, I32) if x.type == I1 else x for x in numbers])
    return module


def _return(b, kind, numbers):
    result = numbers[0] if len(numbers) == 1 else ir.Constant(kind, ir.Undefined) if numbers else None
    for k, number in enumerate(numbers if len(numbers) > 1 else ()):
        result = b.insert_value(result, number, k)
    if numbers:
        b.ret(result)
    else:
        b.ret_void()


def call(linked, context, builder, kinds, values):
    """Return the results of a portable function at the place of numba-cuda's builder."""
    body, outs = _block(linked)
    args = []
    for kind, value in zip(kinds, values):
        for word in words(context, builder, kind, value, arrayobj.make_array):
            word = builder.ptrtoint(word, I64) if isinstance(word.type, ir.PointerType) else word
            args.append(builder.zext(word, I64) if word.type == I1 else word)
    pure = not any(spec[0] == "view" for spec in flatten(linked.signature.specs))
    return [
        builder.trunc(x, I1) if t == I1 else x
        for x, t in zip(assembly.call(builder, body, outs, args, pure), linked.llvm)
    ]


# ---- numba's functions in portable's kernels
@functools.cache
def _compiled(function, dtypes):
    """Return (name, PTX, dtype of the result) of a numba function for arguments of these dtypes."""
    argtypes = tuple(NUMBA["int32" if d == "bool" else d] for d in dtypes)
    name = f"numba_{function.py_func.__name__}"
    try:
        ptx, result = cuda.compile(
            function.py_func,
            argtypes,
            device=True,
            abi="c",
            abi_info={"abi_name": name},
            cc=CAPABILITY,
            output="ptx",
        )
    except (NumbaError, NotImplementedError) as error:
        raise TypeClash(
            f"numba-cuda cannot compile '{function.py_func.__name__}' for ({', '.join(dtypes)}):"
            f" {str(error).strip()}"
        ) from error
    if result not in DTYPE:
        raise TypeClash(f"'{function.py_func.__name__}' returns {result}; expected one number on a GPU")
    return name, ptx.replace("\0", ""), DTYPE[result]


def result_of(function, dtypes):
    """Return (numba's type of the result, a hash of the code) of a device function for arguments of these
    dtypes.
    """
    _, ptx, dtype = _compiled(function, tuple(dtypes))
    return NUMBA[dtype], _hash(ptx)


def _hash(ptx):
    return hashlib.sha256(ptx.encode()).hexdigest()


def emit(here, foreign, values):
    """Return a call of a numba function at the place of portable's emitter; its Value."""
    ops = here.ops
    ops.diverges()
    name, ptx, dtype = _compiled(foreign.function, tuple(ops.strong(v.dtype) for v in values))
    if foreign.dtypes != [dtype]:
        raise TypeClash(
            f"'{foreign.name}' returns {', '.join(foreign.dtypes) or 'nothing'} on a CPU and {dtype} on a GPU"
        )
    out = I32 if dtype == "bool" else SCALAR[dtype]
    args = [own.zext(x, I32) if x.type == I1 else x for x in map(ops.get, values)]
    body = assembly.block(ptx, name, [x.type for x in args], [out])
    if body is None:
        called = f"{name}_{_hash(ptx)[:12]}"
        here.lower.links[called] = _as_text(ptx, name, called)
        body = assembly.calling(called, [x.type for x in args], out)
    (x,) = assembly.call(own, body, [out], args, False)
    return Value(dtype, VARYING, own.trunc(x, I1) if dtype == "bool" else x)


def _as_text(ptx, name, own):
    """Return a function with its tables and helpers as part of other PTX: without header, and with unique
    names.
    """
    text = re.sub(r"^\s*(\.version|\.target|\.address_size).*$|//.*$", "", ptx, flags=re.M)
    declared = re.findall(r"\.func\s*(?:\([^)]*\))?\s*([\w$]+)", text)
    declared += re.findall(
        r"^\s*(?:\.visible |\.weak )?\.(?:global|const)[^;=\[]*?([\w$]+)\s*[\[;=]", text, re.M
    )
    for one in {*declared, name}:
        text = re.sub(
            rf"(?<![\w$%.]){re.escape(one)}(?![\w$])",
            own if one == name else f"{own}_{one.strip('_$')}",
            text,
        )
    return text.replace(".visible ", "").replace(".weak ", "")


# ---- a portable kernel as one of numba-cuda's
def kernel(written):
    """See `portable.numba.cuda_kernel`."""
    if not isinstance(written, Kernel):
        raise LanguageError(f"cuda_kernel: expected a function marked with @pk.kernel, got {written!r}")
    first, *names = written.portable_text.params
    args = ", ".join(names)
    text = f"def {written.name}(n, {args}):\n for i in range(grid(1), n, gridsize(1)): kernel(i, {args})\n"
    scope = {"grid": cuda.grid, "gridsize": cuda.gridsize, "kernel": written}
    exec(compile(text, f"<cuda kernel {written.name}>", "exec"), scope)  # noqa: S102  (the text above)
    return cuda.jit(scope[written.name])
