"""Functions that numba compiles, called in kernels unchanged: numba's code, types and bits.

A call is a loop over the lanes of a pack around numba's function, which LLVM inlines, and vectorises if it
can. A lane in which the function raises has the result NaN, or the integer 0.
"""

import contextlib
import dis
import functools
import hashlib
from importlib import metadata

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from ..core.language.types import VARYING, TypeClash, is_float
from ..core.compiler.writing.lines import builder
from ..core.compiler.writing.values import I1, I8, I64, PTR, SCALAR, Value
from .types import DTYPE, NUMBA

I32 = ir.IntType(32)
_NOT_IN_KERNELS = ("Py", "numba_gil_", "numba_unpickle", "NRT_Allocate_External")


class Foreign:
    """One call of a function of numba's in a kernel.

    Attributes
    ----------
    name : str
    n_results : int or None
        Return the length of the tuple that a function returns, by its source; None for a number, 0 for no
        result.
    """

    def __init__(self, function):
        self.function, self.name, self.code = function, function.py_func.__name__, ""
        self.n_results = _n_results(function)

    def __repr__(self):
        return f"{self.name} {self.code} {_versions()}"  # which a kernel's code on disk is known by

    def results(self, dtypes):
        """Return the dtypes of its results for arguments of these types; TypeClash if numba or the source
        disagrees.
        """
        try:
            result = self.typed(tuple(NUMBA[d] for d in dtypes))
        except NumbaError as error:
            raise TypeClash(
                f"numba cannot compile '{self.name}' for ({', '.join(dtypes)}): {_first_line(error)}"
            ) from error
        several = isinstance(result, types.BaseTuple)
        parts = tuple(result) if several else () if result == types.none else (result,)
        if not all(part in DTYPE for part in parts):
            raise TypeClash(
                f"'{self.name}' returns numba's {result}; expected a number, or a tuple of numbers"
            )
        n = len(parts) if several or not parts else None
        if n != self.n_results:
            raise TypeClash(
                f"'{self.name}' returns numba's {result}, but its source does not show it: "
                "write each of its returns as `return a, b`"
            )
        self.dtypes = [DTYPE[part] for part in parts]
        return self.dtypes

    def typed(self, argtypes):
        """Return numba's type of the result, after compiling the function."""
        function = self.function
        if not isinstance(function, Dispatcher):
            from . import device

            result, self.code = device.result_of(function, [DTYPE[kind] for kind in argtypes])
            return result
        function.compile(argtypes)
        self.compiled = function.overloads[argtypes]
        self.code = hashlib.sha256(str(self._module()).encode()).hexdigest()
        return self.compiled.signature.return_type

    def _module(self):
        return self.compiled.library._get_module_for_linking()

    # ---- code for this machine
    def emit(self, here, values):
        """Call it at a place, in all live lanes; return the operation's result. On a GPU by numba-cuda."""
        if here.ops.target.straight:
            from . import device

            return device.emit(here, self, values)
        if not isinstance(self.function, Dispatcher):
            raise TypeClash(
                f"'{self.name}' is a device function of numba-cuda; on a CPU kernels call functions of @njit,"
                f" or pk.function({self.name}), compiled from its source for every space"
            )
        result = self._called(here, values)
        numbers = []
        for k, dtype in enumerate(self.dtypes):
            x = builder.extract_value(result, k)
            x = builder.trunc(x, _as(I1, here.ops.W)) if dtype == "bool" else x
            numbers.append(Value(dtype, VARYING, x))
        return numbers[0] if self.n_results is None else tuple(numbers)

    def _called(self, here, values):
        """Return the call, in all live lanes."""
        ops, W = here.ops, here.ops.W
        masked = W > 1 and here.mask is not None
        mask = [Value("bool", VARYING, here.mask)] if masked else []
        args = [_stored(ops, v) for v in (*mask, *values)]
        name = f"portable.{self.name}.{self.code[:16]}.{W}{'.masked' * masked}"
        if name not in here.lower.links:
            here.lower.links[name] = self._lanes(name, [x.type for x in args], W, masked)
        return builder.call_named(name, args, self._struct(W))

    def _struct(self, W):
        return ir.LiteralStructType([_as(I8 if d == "bool" else SCALAR[d], W) for d in self.dtypes])

    def _lanes(self, name, kinds, W, masked):
        """Return the IR of a function of whole packs, with numba's in it; the first argument is the mask, if
        any.
        """
        module, struct = ir.Module(name), self._struct(W)
        function = ir.Function(module, ir.FunctionType(struct, kinds), name)
        function.attributes.add("alwaysinline")
        b = ir.IRBuilder(function.append_basic_block("begin"))
        places = [_place(b, kind, x) for kind, x in zip(kinds, function.args)]
        outs = [_place(b, kind, ir.Constant(kind, None)) for kind in struct.elements]
        with _loop(b, W) as (k, following):
            numbers = [_element(b, place, kind, k) for place, kind in zip(places, kinds)]
            if masked:
                lane = b.append_basic_block("lane")
                b.cbranch(b.trunc(numbers.pop(0), I1), lane, following)
                b.position_at_end(lane)
            for out, number in zip(outs, self._call(b, numbers)):
                b.store(number, b.gep(out, [k], source_etype=number.type))
        b.ret(_loaded(b, struct, outs))
        return self._optimised(module, name)

    def _call(self, b, arguments):
        """Emit numba's call in one lane: the numbers of its result as in memory, NaN and 0 if it raised."""
        context, signature = cpu_target.target_context, self.compiled.signature
        function = context.declare_function(b.module, self.compiled.fndesc)
        arguments = [
            b.trunc(x, I1) if kind == types.boolean else x for x, kind in zip(arguments, signature.args)
        ]
        status, result = context.call_conv.call_function(
            b, function, signature.return_type, signature.args, arguments
        )
        for k, dtype in enumerate(self.dtypes):
            number = result if self.n_results is None else b.extract_value(result, k)
            number = b.zext(number, I8) if dtype == "bool" else number
            yield b.select(
                status.is_ok, number, ir.Constant(number.type, float("nan") if is_float(dtype) else 0)
            )

    def _optimised(self, module, name):
        """Return the IR with numba's code, its loop vectorised; TypeClash if it needs the interpreter."""
        from ..core.machines.cpu import engine

        linked = llvm.parse_assembly(str(module))
        linked.link_in(self._module(), preserve=True)
        for function in linked.functions:
            if not function.is_declaration and function.name != name:
                function.linkage = "internal"
        tm = engine.machine()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        builder = llvm.create_pass_builder(tm, options)
        builder.getModulePassManager().run(linked, builder)
        for function in linked.functions:
            if function.is_declaration and function.name.startswith(_NOT_IN_KERNELS):
                raise TypeClash(
                    f"'{self.name}' needs Python's interpreter (its code calls {function.name}); kernels "
                    "call numba functions without print or Python objects"
                )
        linked.get_function(name).linkage = "linkonce_odr"  # several callers may bring it
        return str(linked)


def linked(target, text, links):
    """Return IR linked with the IR of the functions that it calls, as internal symbols; on a GPU these are
    PTX, which LLVM passes on unchanged before its own output.
    """
    if target.straight:
        lines = [line for own in links.values() for line in own.splitlines() if line.strip()]
        escaped = [line.replace("\\", "\\5C").replace('"', "\\22") for line in lines]
        return text + "".join(f'\nmodule asm "{line}"' for line in escaped)
    module = llvm.parse_assembly(text)
    for name, own in links.items():
        module.link_in(llvm.parse_assembly(own))
        module.get_function(name).linkage = "internal"
    return str(module)


@functools.cache
def _versions():
    """Return the versions of the packages that make code of numba's functions, on a GPU too."""
    found = []
    for name in ("numba", "numba-cuda", "nvidia-nvvm"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(metadata.version(name))
    return found


def _as(scalar, W):
    return ir.VectorType(scalar, W) if W > 1 else scalar


def _stored(ops, v):
    """Return a number of the emitter's in all lanes, as memory has it."""
    x = ops.get(v, None, VARYING)
    return builder.zext(x, _as(I8, ops.W)) if ops.strong(v.dtype) == "bool" else x


def _place(b, kind, value):
    """Memory on the stack that holds a value."""
    place = b.alloca(kind)
    place.align, place.type = 64, PTR
    b.store(value, place)
    return place


def _loaded(b, struct, places):
    """Return a struct of the values in memory at these places."""
    result = ir.Constant(struct, ir.Undefined)
    for number, (place, element) in enumerate(zip(places, struct.elements)):
        result = b.insert_value(result, b.load(place, typ=element), number)
    return result


@contextlib.contextmanager
def _loop(b, n):
    """Yield a loop over k = 0, ..., n - 1 around the block: k, and the block that begins the next
    iteration.
    """
    begin, head, following, done = b.block, *(b.append_basic_block(name) for name in ("head", "next", "done"))
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(I64)
    k.add_incoming(I64(0), begin)
    yield k, following
    b.branch(following)
    b.position_at_end(following)
    more = b.add(k, I64(1))
    k.add_incoming(more, following)
    b.cbranch(b.icmp_unsigned("<", more, I64(n)), head, done)
    b.position_at_end(done)


def _element(b, place, kind, k):
    """Return an element of a vector in memory, or the scalar there."""
    scalar = getattr(kind, "element", kind)
    return b.load(b.gep(place, [k], source_etype=scalar), typ=scalar)


def _n_results(function):
    """Return the number of a function's results, by the instruction before each return in its bytecode."""
    found, before = 0, None
    for now in dis.get_instructions(function.py_func):
        value = before if now.opname == "RETURN_VALUE" else now if now.opname == "RETURN_CONST" else None
        if value is not None and value.opname == "BUILD_TUPLE":
            return value.arg
        if value is not None and isinstance(value.argval, tuple):
            return len(value.argval)
        nothing = value is None or value.opname in ("LOAD_CONST", "RETURN_CONST") and value.argval is None
        if not nothing:
            found = None
        before = now
    return found


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in nopython")), "")
