"""parallel_for, parallel_reduce and parallel_scan called by functions that numba compiles: launches on numba's threads.

The code of a launch from Python, packs and all, goes into a library of numba's own kind, so that numba keeps it in its
cache; the argument block lies on the caller's stack. Blocks of reductions and scans are those of a launch from Python, and
so are the bits.
"""

from __future__ import annotations

import inspect

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import NativeValue, intrinsic, lower_builtin, models, register_model, unbox
from numba.core.imputils import lower_constant

import numpy as np

from .. import dispatch
from ..backends.cpu import engine
from ..backends.cpu import space as cpu
from ..backends.cpu.lower import Entry
from ..backends.cpu.scan import ScanEntry
from ..compiler.entry import EXTRA
from ..compiler.optimise import optimise
from ..errors import DTypeError, InputError, LanguageError, ShapeError
from ..kernel import Kernel
from ..policy import n_indices
from ..reducer import Reducer, Sum
from .functions import Unchanged, Written, name_of, type_known
from .policies import FIELDS, kind_of
from .threads import ENTRY, I64, MOST, call, n_threads, ready, share
from .types import NUMBA, PTR, block, specs_of, word_at

_int = types.int64
_WORDS = {dispatch.parallel_for: (), dispatch.parallel_reduce: ("reducer",),
          dispatch.parallel_scan: ("out", "reducer", "inclusive")}


class Known(types.Dummy):
    """numba's type of an object that is known when code is made: a reducer."""

    def __init__(self, value):
        self.value = value
        super().__init__(f"{value!r} {id(value)}")

    def __reduce__(self):
        return type_known, (self.value,)


register_model(Known)(models.OpaqueModel)


@lower_constant(Known)
def _constant(context, builder, kind, value):
    return context.get_dummy_value()


@unbox(Known)
def _unbox(kind, obj, c):
    return NativeValue(c.context.get_dummy_value())


class Launch:
    """A launch by the types of its arguments, compiled.

    Attributes
    ----------
    result : numba's type of what it returns
    """

    def __init__(self, word, args, options):
        self.pattern, self.libraries = word.__name__.removeprefix("parallel_"), {}
        kernel = args[1].written if len(args) > 1 and isinstance(args[1], Written) else None
        if not isinstance(kernel, Kernel):
            raise LanguageError(f"{word.__name__}: the kernel is {args[1:2]}; a function marked with @pk.kernel is wanted")
        self.kernel = self.written = kernel
        policy_kind = kind_of(args[0])
        if policy_kind is None:
            raise InputError(f"{word.__name__} of kernel '{kernel.name}' ({kernel.place}): policy is numba's {args[0]}; an integer, or a "
                             "RangePolicy, MDRangePolicy or TeamPolicy made in the same function is wanted")
        if unknown := set(options) - set(_WORDS[word]):
            raise InputError(f"{word.__name__} of kernel '{kernel.name}' ({kernel.place}): {', '.join(sorted(unknown))}= is not for launches "
                             f"inside numba's functions; they know {', '.join(_WORDS[word]) or 'no options'}")
        self.reducers, self.several = self._reducers(options.get("reducer"), policy_kind)
        given, names = list(args[2:]), kernel.portable_text.params[n_indices(policy_kind):]
        if self.pattern == "scan":
            policy_kind = self._scan(policy_kind, options)
            given, names = [*given, options["out"]], [*names, "out"]
        if len(given) != len(names):
            raise ShapeError(f"kernel '{kernel.name}' ({kernel.place}) takes {len(names)} argument(s) ({', '.join(names)}), "
                             f"but {len(given)} were given")
        self.specs = specs_of(kernel, names, given, weak=True)
        with dispatch.compiling:
            entry = (ScanEntry if self.pattern == "scan" else Entry)(kernel, policy_kind, self.specs, self.reducers)
            self.entry, self.name = entry, name_of(kernel, entry.identity_of_code)
        self.made_from, self.reload = (word, args, options), ready
        self.result = self._result()

    def _reducers(self, given, policy_kind):
        """The reducers, and whether a tuple of results is wanted."""
        if self.pattern == "for":
            return (), False
        several = isinstance(given, types.BaseTuple)
        found = tuple(getattr(r, "value", None) for r in (given if several else (given,))) if given is not None else (Sum,)
        if not found or not all(isinstance(r, Reducer) for r in found):
            raise DTypeError(f"kernel '{self.kernel.name}' ({self.kernel.place}): reducer is numba's {given}; "
                             "pk.Sum, pk.Min, ..., a Reducer known where the function is defined, or a tuple of these is wanted")
        if policy_kind.startswith("box") and any(r.with_index for r in found):
            raise InputError(f"kernel '{self.kernel.name}' ({self.kernel.place}): reducers that tell a place know ranges and teams "
                             "inside numba's functions; launch this box from Python")
        return found, several

    def _scan(self, policy_kind, options):
        inclusive = options.get("inclusive", types.literal(True))
        if not isinstance(inclusive, types.BooleanLiteral):
            raise InputError("parallel_scan: inclusive must be True or False as it stands there, inside numba's functions")
        out, reducer = options.get("out"), self.reducers[0]
        if reducer.n_words != 1 or reducer.lift or reducer.finish:
            raise DTypeError(f"reducer: a scan wants one whose state is a number (pk.Sum, pk.Min, ...), got {reducer!r}")
        if policy_kind != "range":
            raise InputError("policy: scans run over a RangePolicy or an integer")
        if not isinstance(out, types.Array) or out.ndim != 1 or not out.mutable:
            raise ShapeError(f"out: a one-dimensional, writable array is wanted, got numba's {out}")
        return "scan inclusive" if inclusive.literal_value else "scan exclusive"

    def _result(self):
        if not self.reducers:
            return types.none
        numbers = iter([NUMBA[d] for d in self.entry.results.dtypes])
        parts = [next(numbers) if n is None else types.Tuple([next(numbers) for _ in range(n)]) for n in self.entry.results.shapes]
        return types.Tuple(parts) if self.several else parts[0]

    # ---- code
    def functions(self, context, builder):
        """The addresses of entry, finish and apply, 0 for one that there is not, as integers."""
        codegen, names = context.codegen(), ("entry", "finish", "apply")
        if codegen not in self.libraries:
            library = self.libraries[codegen] = codegen.create_library(self.name)
            with dispatch.compiling:
                text = self.entry.text
                for name in names:
                    text = text.replace(f'@"{name}"', f'@"{self.name}.{name}"')
                library.add_llvm_module(optimise(text, engine.machine(), self.kernel.name))
            ready()
            library._reload_init.add(Unchanged(self))
            library.finalize()
        context.active_code_library.add_linking_library(self.libraries[codegen])
        there = names[:1 + bool(self.reducers) + (self.pattern == "scan")]
        known = [builder.module.globals.get(f"{self.name}.{n}") or ir.Function(builder.module, ENTRY, f"{self.name}.{n}") for n in there]
        return [builder.ptrtoint(f, I64) for f in known] + [ir.Constant(I64, 0)] * (3 - len(there))

    def emit(self, context, builder, kinds, values):
        """The launch at the builder's place; numba's value of its result."""
        b, entry, n_results = builder, self.entry, len(self.entry.results.dtypes) if self.reducers else 0
        policy = dict.fromkeys(FIELDS, ir.Constant(I64, 0))
        if isinstance(kinds[0], types.Integer):
            policy["end"] = context.cast(b, values[0], kinds[0], _int)
        else:
            policy = {name: b.extract_value(values[0], k) for k, name in enumerate(FIELDS)}
        asked = policy["scratch_bytes"]
        extra = {**policy, "scratch_bytes": b.add(asked, ir.Constant(I64, entry.scratch_static))}
        first = entry.signature.n_words
        more = [extra.get(name, ir.Constant(I64, 0)) for name in EXTRA] + [None] * (2 * n_results)
        single = entry.signature.float_dtype == "float32"
        place = block(context, b, self.specs, kinds[2:], values[2:], single, more)
        for k in range(n_results):  # behind the addresses of the results stand these themselves
            result = word_at(b, place, first + len(EXTRA) + n_results + k)
            b.store(b.ptrtoint(result, I64), word_at(b, place, first + len(EXTRA) + k))
        numbers = [*self.functions(context, b), b.ptrtoint(place, I64), b.ptrtoint(word_at(b, place, first), I64),
                   policy["begin"], policy["end"], policy["chunk"], asked, *(ir.Constant(I64, n) for n in self._facts())]
        impl = _ranged if not self.reducers else _blocks
        context.compile_internal(b, impl, types.none(*[_int] * len(numbers)), numbers)
        return self._read(context, b, place, first + len(EXTRA) + n_results)

    def _facts(self):
        """What the launch's own text is told besides: see `_ranged` and `_blocks`."""
        entry, simple = self.entry, not self.kernel.portable_text.has_loops
        team = entry.policy_kind == "team"
        scratch = cpu.MOST_SCRATCH - entry.scratch_static
        if not self.reducers:
            least, width = (1, 1) if team else (cpu.SMALL if simple else entry.width, entry.width)
            return least, width, int(entry.scratch_open), scratch
        least = 1 if team else cpu.SCAN_LEAST if self.pattern == "scan" else cpu.REDUCE_LEAST if simple else 64
        return least, entry.n_words(), int(entry.scratch_open), scratch, int(simple), cpu.REDUCE_BLOCKS

    def _read(self, context, b, place, first):
        if not self.reducers:
            return context.get_dummy_value()
        numbers = iter([b.load(word_at(b, place, first + k), typ=context.get_value_type(NUMBA[d]))
                        for k, d in enumerate(self.entry.results.dtypes)])
        parts = []
        for k, n in enumerate(self.entry.results.shapes):
            kind = self.result[k] if self.several else self.result
            parts.append(next(numbers) if n is None else context.make_tuple(b, kind, [next(numbers) for _ in range(n)]))
        return context.make_tuple(b, self.result, parts) if self.several else parts[0]


# ---- what a launch does, in numba's own language; cpu/space.py says the same for launches from Python
@intrinsic
def _poke(typingctx, place, k, word):
    """Write a word of the argument block."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], PTR), [args[1]], source_etype=I64))
        return context.get_dummy_value()

    return types.none(_int, _int, _int), codegen


def _ranged(entry, finish, apply, block, extra, begin, end, chunk, asked, least, width, scratch_open, most_scratch):
    if end < begin:
        raise InputError("policy: a negative extent was given; zero or more is wanted")
    if scratch_open and not asked:
        raise InputError("the kernel has scratch of run-time shape: say how much, TeamPolicy(..., scratch_bytes=)")
    if asked > most_scratch:
        raise InputError("more scratch is asked than a CPU gives a team")
    if chunk == 0:
        chunk = max(least, (end - begin) // (n_threads() * cpu.CHUNKS_A_THREAD))
    share(MOST, entry, block, begin, end, (chunk + width - 1) // width * width)


def _blocks(entry, finish, apply, block, extra, begin, end, chunk, asked, least, words, scratch_open, most_scratch, simple, most):
    if end < begin:
        raise InputError("policy: a negative extent was given; zero or more is wanted")
    if scratch_open and not asked:
        raise InputError("the kernel has scratch of run-time shape: say how much, TeamPolicy(..., scratch_bytes=)")
    if asked > most_scratch:
        raise InputError("more scratch is asked than a CPU gives a team")
    size = max(least, (end - begin + most - 1) // most)
    if size >= 64:
        size = (size + 63) // 64 * 64
    n_blocks = (end - begin + size - 1) // size
    partials = np.empty(max(1, n_blocks * words), np.int64)
    _poke(extra, 0, begin)
    _poke(extra, 1, end)
    _poke(extra, 2, size)
    _poke(extra, 3, _int(partials.ctypes.data))
    at_once = max(1, n_blocks // (n_threads() * cpu.CHUNKS_A_THREAD)) if simple else 1
    share(MOST, entry, block, 0, n_blocks, at_once)
    call(finish, block, 0, n_blocks, 0)
    if apply:
        share(MOST, apply, block, 0, n_blocks, at_once)
    partials[0] = 0  # which lives until here


# ---- the words
_known = {}


def _launch(word, args, names):
    key = word, args, names
    if key not in _known:
        n = len(args) - len(names)
        _known[key] = Launch(word, args[:n], dict(zip(names, args[n:])))
    return _known[key]


def _teach(word):
    class Template(AbstractTemplate):
        key = word
        prefer_literal = True  # for `inclusive` alone

        def generic(self, args, kws):
            names, n = tuple(kws), len(args)
            given = (*map(types.unliteral, args), *(v if name == "inclusive" else types.unliteral(v) for name, v in kws.items()))
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            pysig = inspect.Signature([inspect.Parameter(name, kind) for name in (*(f"_{k}" for k in range(n)), *names)])
            return signature(_launch(word, given, names).result, *given).replace(pysig=pysig)

    @lower_builtin(word, types.VarArg(types.Any))
    def codegen(context, builder, sig, values):
        names = tuple(name for name in sig.pysig.parameters if not name.startswith("_"))
        launch, n = _launch(word, sig.args, names), len(values) - len(names)
        kinds = list(sig.args[:n])
        if launch.pattern == "scan":
            out = n + names.index("out")
            kinds, values = [*kinds, sig.args[out]], [*values[:n], values[out]]
        return launch.emit(context, builder, kinds, values[:len(kinds)])

    infer_global(word, types.Function(Template))


for _word in _WORDS:
    _teach(_word)
