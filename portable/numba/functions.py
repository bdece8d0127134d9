"""@pk.function, and a kernel at one index, called by functions that numba compiles.

The source is typed and emitted by portable's compiler, one lane wide, into a library of numba's type that
numba links to the caller, where LLVM inlines it. It is a separate module, so numba's fastmath=True does not
affect its instructions.
"""

import functools
import hashlib

import llvmlite.binding as llvm
from llvmlite import ir
from numba import typeof
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, signature
from numba.extending import NativeValue, lower_builtin, models, register_model, typeof_impl, unbox

from ..core.machines.cpu.lanes import Unwatched
from ..core.compiler.writing.emit import Emitter
from ..core.compiler.writing.emitted import arguments
from ..core.compiler.writing.lines import builder as own
from ..core.compiler.reading.signature import Signature, flatten
from ..core.compiler.reading.tree import Operation, arrangement, flat
from ..core.language.types import UNIFORM
from ..core.compiler.reading.typing import typed
from ..core.compiler.writing.values import SCALAR
from ..core.launch.dispatch import compiling
from ..core.locks import lazy_attribute
from ..errors import LanguageError, ShapeError
from ..core.language.kernel import Function, Kernel
from .types import NUMBA, PTR, block, specs_of, word_at


class Linked:
    """A function or kernel for arguments of known types: `void name(block)`, with the results after the
    arguments.

    Attributes
    ----------
    result : numba's type of its result
    """

    def __init__(self, written, args):
        self.written, self.made_from, self.libraries = written, (written, args), {}
        self.where = f"{written.kind} '{written.name}' ({written.place})"
        self.signature = Signature(self._specs(written.portable_text, args))
        floats = {s[1] for s in flatten(self.signature.specs)} & {"float32", "float64"}
        self.float_dtype = self.signature.float_dtype = "float32" if floats == {"float32"} else "float64"
        with compiling:
            known = tuple(self.signature.described())
            tree = typed(written.portable_text, known, 1, 1, self.float_dtype, written.name)
        self._take_results(tree.result)

    @lazy_attribute
    def texts(self):
        """Return the LLVM IR of the function, which has no name yet, and of functions that it calls."""
        module = ir.Module("function")
        with compiling:
            links = self.emit(module, "function")
        return str(module), *links.values()

    @lazy_attribute
    def name(self):
        return name_of(self.written, repr(self.texts))

    def _specs(self, text, args):
        """Return the types of all arguments: of the given ones, and constants for the others."""
        optional = len(text.params) - len(args)  # arguments that are not given
        if not 0 <= optional <= len(text.defaults):
            raise ShapeError(
                f"{self.where} takes {len(text.params)} argument(s) ({', '.join(text.params)}), "
                f"but {len(args)} were given"
            )
        defaults = text.defaults[len(text.defaults) - optional :]
        return *specs_of(self.written, text.params, args), *(("static", v, repr(v)) for v in defaults)

    def _take_results(self, result):
        numbers = [] if result is None else flat(result)
        if not all(isinstance(v, Operation) for v in numbers):
            raise LanguageError(
                f"{self.where} returns a view; expected numbers or tuples of numbers in numba's functions"
            )
        if numbers and not self.written.portable_text.always_returns:
            raise LanguageError(f"{self.where} returns a value on some paths and nothing on others")
        dtypes = [{"float": self.float_dtype, "int": "int64"}.get(v.dtype, v.dtype) for v in numbers]
        self.arranged, self.llvm, self.result = arrangement(result), [SCALAR[d] for d in dtypes], types.none
        if dtypes:
            self.result = arranged_as(self.arranged, iter([NUMBA[d] for d in dtypes]), types.Tuple)

    def reload(self):
        """Before code from numba's cache is loaded."""

    def emit(self, module, name, target=Unwatched):
        """Emit the function into a module; return the IR of foreign functions that it calls."""
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), name)
        function.attributes.add("alwaysinline")
        written = self.written
        lower = Emitter(target, 1, self.float_dtype, written.fastmath, written.name)
        with own.elsewhere():
            lower.begin(function)
            place = function.args[0]
            args = arguments(self.signature, lower.ops, written.portable_text.params, place)
            result = lower.make_place().inline(written.portable_text, args)
            for k, v in enumerate(flat(result) if self.llvm else ()):
                own.store(lower.ops.get(v, None, UNIFORM), word_at(own, place, self.signature.n_words + k))
            own.ret_void()
        return lower.links

    def library(self, codegen):
        """Return a library with only this function, for numba's code generator."""
        if codegen not in self.libraries:
            library = self.libraries[codegen] = codegen.create_library(self.name)
            for text in self.texts:
                text = text.replace('@"function"', f'@"{self.name}"')
                library.add_llvm_module(llvm.parse_assembly(text))
            library._reload_init.add(Unchanged(self))
            library.finalize()
        return self.libraries[codegen]

    def call(self, context, builder, kinds, values):
        """Call it at the builder's place; return numba's value of its result."""
        if type(context).__module__.startswith("numba.cuda"):
            from . import device

            numbers = device.call(self, context, builder, kinds, values)
        else:
            numbers = self._call(context, builder, kinds, values)
        if not numbers:
            return context.get_dummy_value()
        return arranged_as(
            self.arranged, iter(numbers), functools.partial(made_tuple, context, builder), self.result
        )

    def _call(self, context, builder, kinds, values):
        context.active_code_library.add_linking_library(self.library(context.codegen()))
        function = builder.module.globals.get(self.name) or ir.Function(
            builder.module, ir.FunctionType(ir.VoidType(), [PTR]), self.name
        )
        place = block(context, builder, self.signature.specs, kinds, values, False, [None] * len(self.llvm))
        builder.call(function, [place])
        return [
            builder.load(word_at(builder, place, self.signature.n_words + k), typ=t)
            for k, t in enumerate(self.llvm)
        ]


def name_of(written, identity):
    """Return the name of code, which identifies the sources that it was made from."""
    return f"portable.{written.name}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


class Unchanged:
    """Function that numba calls when it loads code from its cache. It is stored with the code and compares
    portable's sources: numba compares only the caller's file.
    """

    def __init__(self, made):
        self.made = made

    def __call__(self):
        self.made.reload()

    def __reduce__(self):
        return _unchanged, (type(self.made), self.made.made_from, self.made.name)


def _unchanged(kind, made_from, name):
    made = kind(*made_from)
    if made.name != name:
        raise FileNotFoundError(f"{made.written.name} has changed")  # makes numba compile again
    return Unchanged(made)


def made_tuple(context, builder, parts, kind):
    return context.make_tuple(builder, kind, parts)


def arranged_as(like, numbers, wrap, kind=None):
    """Return numbers arranged as a source returns them, each tuple by `wrap`."""
    if like is None:
        return next(numbers)
    parts = [arranged_as(part, numbers, wrap, kind and kind[k]) for k, part in enumerate(like)]
    return wrap(parts, kind) if kind else wrap(parts)


class Written(types.Function):
    """numba's type of a portable function or kernel, `written`; it has no run-time data."""

    def __reduce__(self):
        return typeof, (self.written,)


register_model(Written)(models.OpaqueModel)


@unbox(Written)
def nothing_native(kind, obj, c):
    """Return the native value of an object without run-time data."""
    return NativeValue(c.context.get_dummy_value())


@typeof_impl.register(Function)
@typeof_impl.register(Kernel)
def _typeof(written, context):
    """Return numba's type of a function or kernel, one and the same for each."""
    if not hasattr(written, "_type_in_numba"):
        written._type_in_numba = type_of(written)
    return written._type_in_numba


def type_of(written):
    """Return a new numba type for a function or kernel."""
    linked = functools.cache(functools.partial(Linked, written))

    def refuse(kws):
        if kws:
            raise LanguageError(
                f"{written.kind} '{written.name}' ({written.place}): numba's functions pass arguments by"
                " position"
            )

    kind = Written(callable_as(written, lambda n: linked, refuse))
    kind.written = written
    return kind


def callable_as(key, linked, refuse=lambda kws: None):
    """Return a template, and code, for numba to call the result of `linked(number of arguments)` for given
    types.
    """

    class Template(AbstractTemplate):
        prefer_literal = True  # loops over a literal argument unroll

        def generic(self, args, kws):
            refuse(kws)
            return signature(linked(len(args))(args).result, *args)

    @lower_builtin(key, types.VarArg(types.Any))
    def codegen(context, builder, sig, args):
        return linked(len(args))(sig.args).call(context, builder, sig.args, args)

    Template.key = key
    return Template
