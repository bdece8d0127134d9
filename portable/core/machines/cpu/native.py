"""Functions of the host over addresses, in the language of kernels: the pool, copies, Ctrl-C.

Their numbers and addresses are int64. They call each other, operations of this file, and C functions (`c`); a
result of 32 bits is converted by int32(...).
"""

from llvmlite import ir

from ...compiler.reading.fingerprint import compiler
from ...compiler.writing.lines import Integer, builder
from ...language.types import UNIFORM, VARYING
from . import engine

I64, PTR = Integer(64), ir.PointerType()
_PAUSE = {"x86": "pause", "aarch64": "isb"}.get(engine.MACHINE, "")


class Operation:
    """Results of a function of the builder and of int64; `n_results` int64, or one if it is None."""

    def __init__(self, name, made, n_results=None):
        self.__name__, self.made, self.n_results = name, made, n_results
        self.dtypes = ["int64"] * (n_results or 1)

    def __repr__(self):
        return self.__name__

    def results(self, dtypes):
        return self.dtypes

    def emit(self, here, values):
        from ...compiler.writing.values import Value

        made = self.made(*(here.ops.get(v, "int64") for v in values))
        if self.n_results is None:
            return Value("int64", VARYING, made)
        return tuple(Value("int64", VARYING, x) for x in made)


def of_line(text):
    """Return a function of the pointer at an address, and of numbers, given by LLVM IR."""

    def emit_load(address, *numbers):
        operands = builder.inttoptr(address, PTR), *numbers
        return builder.line(I64, "memory", operands, text.format(*(x.get_reference() for x in operands)))

    return emit_load


def _neighbours(address, n):
    return [address + 8 * k for k in range(n)]


def words(n):
    """Return the n neighbouring words at an address."""
    return Operation(f"load {n}", lambda at: [load.made(x) for x in _neighbours(at, n)], n)


def _store(address, *numbers):
    for place, x in zip(_neighbours(address, len(numbers)), numbers):
        builder.store(x, builder.inttoptr(place, PTR))
    return address


def _stream(target, source):
    line = builder.load(builder.inttoptr(source, PTR), ir.VectorType(I64, 8), 1)
    builder.store(line, builder.inttoptr(target, PTR), 64).text += ", !nontemporal !{i32 1}"
    return target


def c(name):
    """Return a function of C's, that is known by its name when code is linked."""

    def made(*numbers):
        return builder.call(builder.declared(name, I64, [I64] * len(numbers)), numbers)

    return Operation(name, made)


def place_of(name):
    """Return a function without arguments that gives the address registered under a name at link time."""

    def made():
        module = builder.module
        place = (module.globals.get(name) or ir.GlobalVariable(module, I64, name)).get_reference()
        return builder.line(I64, "ptrtoint", (), f"ptrtoint ptr {place} to i64")

    return Operation(name, made)


def _call(address, *numbers):
    given = ", ".join(f"i64 {x.get_reference()}" for x in numbers)
    return of_line(f"call i64 {{}}({given})")(address)


def _pause():
    builder.asm(ir.FunctionType(ir.VoidType(), []), _PAUSE, "~{memory}", [], True)
    return I64(0)


load = Operation("load", of_line("load i64, ptr {}"))
pair = words(2)
store = Operation("store", _store)  # neighbouring words
stream = Operation("stream", _stream)  # copies 64 bytes past the caches, to a multiple of 64
# atomic operations on words that several threads write, sequentially consistent; these return the previous
# value
read = Operation("read", of_line("load atomic i64, ptr {} seq_cst, align 8"))
write = Operation("write", of_line("atomicrmw xchg ptr {}, i64 {} seq_cst"))
add = Operation("add", of_line("atomicrmw add ptr {}, i64 {} seq_cst"))
swap = Operation("swap", of_line("cmpxchg ptr {}, i64 {}, i64 {} seq_cst seq_cst"))  # without result
call = Operation("call", _call)  # the word at an address
pause = Operation("pause", _pause)
stack = Operation("stack", lambda n: builder.ptrtoint(builder.alloca(I64, n), I64))  # the address of n words


def define(module, fn):
    """Emit a function into a module, and return it."""
    from ...compiler.reading.callables import text_of
    from ...compiler.writing.emit import Emitter
    from ...compiler.writing.values import Value
    from .lanes import Unwatched

    kind = ir.FunctionType(I64, [I64] * fn.__code__.co_argcount)
    function = ir.Function(module, kind, fn.__name__)
    function.calling_convention = getattr(fn, "convention", "")
    lower = Emitter(Unwatched, 1, "float64", False, fn.__name__)
    with builder.elsewhere():
        lower.begin(function)
        here = lower.make_place()
        result = here.inline(text_of(fn), [Value("int64", UNIFORM, x) for x in function.args])
        builder.ret(I64(0) if result is None else here.ops.get(result, "int64"))
    return function


def text(functions):
    """Return the LLVM IR of functions. The compiler is imported where their code is not on the disk."""
    module = ir.Module()
    for fn in functions:
        define(module, fn)
    return str(module)


def compiled(functions, name, hear=None):
    """Return addresses of functions by their names, as engine.load does."""
    made_by = compiler()
    key = made_by and engine.key_of((name, made_by), 0)
    return engine.load(lambda: text(functions), name, key, 0, hear)
