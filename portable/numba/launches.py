"""parallel_for, parallel_reduce and parallel_scan in functions that numba compiles, on numba's threads.

The code of a launch from Python, with its packs, is put into a library of numba's type, which numba caches;
the argument block is on the caller's stack. Blocks of reductions and scans are those of a launch from Python,
and so are the bits.
"""

import functools
import inspect

import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import types
from numba.core.imputils import lower_constant
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    register_jitable,
    register_model,
    typeof_impl,
    unbox,
)

from ..core.launch import dispatch
from ..core.machines.cpu import engine, space as cpu
from ..core.machines.cpu.lanes import Unwatched
from ..core.machines.cpu.entry import entry_of
from ..core.compiler.writing.block import EXTRA
from ..errors import DTypeError, InputError, LanguageError, ShapeError
from ..core.language.frontend import writes
from ..core.language.kernel import Kernel
from ..core.places.policy import n_indices
from ..core.language.reducer import Reducer, Sum
from .functions import Unchanged, Written, arranged_as, made_tuple, name_of, nothing_native
from .policies import FIELDS, kind_of
from .threads import CHUNKS_A_THREAD, ENTRY, I64, MOST, call, n_threads, ready, share
from .types import NUMBA, PTR, block, specs_of, word_at, words

_int = types.int64
_FUNCTIONS = "entry", "finish", "apply"  # of a launch's code
_OPTIONS = {
    dispatch.parallel_for: (),
    dispatch.parallel_reduce: ("reducer",),
    dispatch.parallel_scan: ("out", "reducer", "inclusive"),
}


class Known(types.Dummy):
    """numba's type of an object that is known when code is made: a reducer."""

    def __init__(self, value):
        self.value = value
        super().__init__(f"{value!r} {id(value)}")

    def __reduce__(self):
        return typeof, (self.value,)


typeof_impl.register(Reducer)(lambda reducer, context: Known(reducer))
register_model(Known)(models.OpaqueModel)


@lower_constant(Known)
def _constant(context, builder, kind, value):
    return context.get_dummy_value()


unbox(Known)(nothing_native)


class Launch:
    """A launch by the types of its arguments, compiled.

    Attributes
    ----------
    result : numba's type of its result
    """

    def __init__(self, word, args, options):
        self.made_from, self.reload, self.libraries = (word, args, options), ready, {}
        self.pattern = word.__name__.removeprefix("parallel_")
        kind = self._look_at(word, args, options)
        self.reducers, self.several = self._reducers(options.get("reducer"), kind)
        given, names = list(args[2:]), self.written.portable_text.params[n_indices(kind) :]
        if self.pattern == "scan":
            kind, given, names = self._scan(kind, options), [*given, options["out"]], [*names, "out"]
        elif not all(r.commutes for r in self.reducers):
            kind = "scan total"
        if len(given) != len(names):
            raise ShapeError(
                f"{self.where} takes {len(names)} argument(s) ({', '.join(names)}), "
                f"but {len(given)} were given"
            )
        self._compile(kind, specs_of(self.written, names, given, weak=True))

    def _look_at(self, word, args, options):
        """Return the kind of the policy; InputError or LanguageError where these are not a launch's
        arguments."""
        self.written = args[1].written if len(args) > 1 and isinstance(args[1], Written) else None
        if not isinstance(self.written, Kernel):
            raise LanguageError(
                f"{word.__name__}: expected a function marked with @pk.kernel, got numba's {args[1:2]}"
            )
        self.where, kind = f"kernel '{self.written.name}' ({self.written.place})", kind_of(args[0])
        if kind is None:
            raise InputError(
                f"{self.where}: policy is numba's {args[0]}; expected an integer, or a RangePolicy, "
                "MDRangePolicy or TeamPolicy made in the same function"
            )
        if unknown := ", ".join(sorted(set(options) - set(_OPTIONS[word]))):
            raise InputError(
                f"{self.where}: {unknown}= is not accepted inside numba's functions; "
                f"{word.__name__} takes {', '.join(_OPTIONS[word]) or 'no options'} there"
            )
        return kind

    def _compile(self, kind, specs):
        with dispatch.compiling:
            # numba's code either handles Ctrl-C and the floating-point state itself or not at all
            self.entry = entry_of(self.written, kind, specs, self.reducers, target=Unwatched)
            if self.pattern == "for" and not writes(self.written.portable_text):
                dispatch.refuse_results(self.written)
            self.name = name_of(self.written, self.entry.text)
        results = self.entry.results
        self.shapes, dtypes = (results.shapes, results.dtypes) if self.reducers else ([], [])
        if "complex" in self.shapes:
            raise DTypeError(f"{self.where}: launch sums of complex numbers from Python")
        self.numbers = [NUMBA[d] for d in dtypes]
        parts = tuple(n and (None,) * n for n in self.shapes)
        self.arranged = parts if self.several else parts[0] if parts else ()
        self.result = types.none
        if parts:
            self.result = arranged_as(self.arranged, iter(self.numbers), types.Tuple)

    def _reducers(self, given, kind):
        """Return the reducers, and True if the result is a tuple."""
        if self.pattern == "for":
            return (), False
        several = isinstance(given, types.BaseTuple)
        found = (
            (Sum,)
            if given is None
            else tuple(getattr(r, "value", None) for r in (given if several else (given,)))
        )
        if not found or not all(isinstance(r, Reducer) for r in found):
            raise DTypeError(
                f"{self.where}: reducer is numba's {given}; expected pk.Sum, pk.Min, ..., a Reducer known "
                "where the function is defined, or a tuple of these"
            )
        if kind.startswith("box") and any(r.with_index for r in found):
            raise InputError(
                f"{self.where}: inside numba's functions reducers with a place need a range or teams; "
                "launch this box from Python"
            )
        if not all(r.commutes for r in found) and (several or kind != "range"):
            raise InputError(
                f"{self.where}: reducer does not commute; expected one, and a RangePolicy or an integer"
            )
        return found, several

    def _scan(self, kind, options):
        inclusive, out = options.get("inclusive", types.literal(True)), options.get("out")
        if not isinstance(inclusive, types.BooleanLiteral):
            raise InputError(
                f"{self.where}: inclusive must be a literal True or False inside numba's functions"
            )
        if kind != "range" or self.several:
            raise InputError(f"{self.where}: scans run over a RangePolicy or an integer, with one reducer")
        for array in out if isinstance(out, types.BaseTuple) else (out,):
            if not isinstance(array, types.Array) or array.ndim != 1 or not array.mutable:
                raise ShapeError(
                    f"{self.where}: out: expected a one-dimensional, writable array, got numba's {array}"
                )
        return "scan inclusive" if inclusive.literal_value else "scan exclusive"

    # ---- code
    def functions(self, context, builder):
        """Return the addresses, integers, of entry, finish and apply; 0 for a missing one."""
        codegen = context.codegen()
        if codegen not in self.libraries:
            self.libraries[codegen] = self._library(codegen)
        context.active_code_library.add_linking_library(self.libraries[codegen])
        names = [f"{self.name}.{n}" for n in _FUNCTIONS[: 1 + bool(self.reducers) + (self.pattern == "scan")]]
        known = [builder.module.globals.get(n) or ir.Function(builder.module, ENTRY, n) for n in names]
        return [builder.ptrtoint(f, I64) for f in known] + [I64(0)] * (len(_FUNCTIONS) - len(names))

    def _library(self, codegen):
        library = codegen.create_library(self.name)
        with dispatch.compiling:
            text = self.entry.text
            for name in _FUNCTIONS:
                text = text.replace(f'@"{name}"', f'@"{self.name}.{name}"')
            library.add_llvm_module(engine.optimised(text, self.written.name))
        ready()
        library._reload_init.add(Unchanged(self))
        library.finalize()
        return library

    def emit(self, context, b, kinds, values):
        """Emit the launch at the builder's position; return its result as a value of numba."""
        policy = self._policy(context, b, kinds[0], values[0])
        place, results = self._block(context, b, policy, kinds[2:], values[2:])
        addresses = [
            *self.functions(context, b),
            b.ptrtoint(place, I64),
            b.ptrtoint(word_at(b, place, self.entry.signature.n_words), I64),
        ]
        asked = [policy[name] for name in ("begin", "end", "chunk", "scratch_bytes")]
        numbers = [*addresses, *asked, *self._facts()]
        if self.reducers:
            numbers.append(self._prefix_count(context, b, kinds[-1], values[-1]))
        context.compile_internal(
            b, _blocks if self.reducers else _ranged, types.none(*[_int] * len(numbers)), numbers
        )
        return self._read(context, b, results)

    def _block(self, context, b, policy, kinds, values):
        """Return the argument block, and the addresses of the results, which are at its end."""
        signature, n_results = self.entry.signature, len(self.numbers)
        known = policy | {"scratch_bytes": b.add(policy["scratch_bytes"], I64(self.entry.scratch_static))}
        more = [known.get(name, I64(0)) for name in EXTRA] + [None] * (2 * n_results)
        place = block(context, b, signature.specs, kinds, values, signature.float_dtype == "float32", more)
        first = signature.n_words + len(EXTRA)
        results = [word_at(b, place, first + n_results + k) for k in range(n_results)]
        for k, result in enumerate(results):
            b.store(b.ptrtoint(result, I64), word_at(b, place, first + k))
        return place, results

    @staticmethod
    def _policy(context, b, kind, value):
        """Return the words of a policy by their names."""
        if isinstance(kind, types.Integer):
            return dict.fromkeys(FIELDS, I64(0)) | {"end": context.cast(b, value, kind, _int)}
        return {name: b.extract_value(value, k) for k, name in enumerate(FIELDS)}

    def _facts(self):
        """Return the last arguments of `_ranged` and `_blocks`."""
        entry, simple = self.entry, not self.entry.has_loops
        scratch = int(entry.scratch_open), cpu.MOST_SCRATCH - entry.scratch_static
        most = cpu.REDUCE_BLOCKS
        if entry.policy_kind == "team":
            least = width = 1
        elif self.pattern == "for":
            least, width = cpu.SMALL if simple else entry.width, entry.width
        else:
            least = cpu.REDUCE_LEAST if simple else 64
        if entry.policy_kind.startswith("scan"):
            least, most = cpu.scan_blocks(entry)
        facts = (least, most, entry.state_words, int(simple)) if self.reducers else (least, width)
        return [I64(n) for n in (*scratch, *facts)]

    def _prefix_count(self, context, b, kind, value):
        """Return the number of prefixes that a scan's arrays hold."""
        room = I64(MOST)
        for extent in words(context, b, kind, value)[1::3] if self.pattern == "scan" else ():
            room = b.select(b.icmp_signed("<", extent, room), extent, room)
        return room

    def _read(self, context, b, results):
        if not results:
            return context.get_dummy_value()
        numbers = iter(
            [b.load(place, typ=context.get_value_type(kind)) for place, kind in zip(results, self.numbers)]
        )
        return arranged_as(self.arranged, numbers, functools.partial(made_tuple, context, b), self.result)


# ---- the work of a launch, in numba's language; core/machines/cpu/space.py has the same in Python
@intrinsic
def _poke(typingctx, place, k, word):
    """Write a word of the argument block."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], PTR), [args[1]], source_etype=I64))
        return context.get_dummy_value()

    return types.none(_int, _int, _int), codegen


@register_jitable
def _checked(begin, end, asked, scratch_open, most_scratch):
    if end < begin:
        raise InputError("policy: a negative extent was given; expected zero or more")
    if scratch_open and not asked:
        raise InputError(
            "the kernel has scratch of run-time shape; pass its size, TeamPolicy(..., scratch_bytes=)"
        )
    if asked > most_scratch:
        raise InputError("the policy requests more scratch than a CPU's team has")


def _ranged(
    entry, finish, apply, block, extra, begin, end, chunk, asked, scratch_open, most_scratch, least, width
):
    _checked(begin, end, asked, scratch_open, most_scratch)
    if chunk == 0:
        chunk = max(least, (end - begin) // (n_threads() * CHUNKS_A_THREAD))
    share(MOST, entry, block, begin, end, (chunk + width - 1) // width * width)


def _blocks(
    entry,
    finish,
    apply,
    block,
    extra,
    begin,
    end,
    chunk,
    asked,
    scratch_open,
    most_scratch,
    least,
    most,
    words,
    simple,
    room,
):
    _checked(begin, end, asked, scratch_open, most_scratch)
    if end > room or apply and begin < 0:
        raise ShapeError("out: the policy has indices outside the array")
    size = max(least, (end - begin + most - 1) // most)
    if size >= 64:
        size = (size + 63) // 64 * 64
    n_blocks = (end - begin + size - 1) // size
    partials = np.empty((n_blocks + 1) * words, np.int64)
    _poke(extra, 0, begin)
    _poke(extra, 1, end)
    _poke(extra, 2, size)
    _poke(extra, 3, _int(partials.ctypes.data))
    at_once = max(1, n_blocks // (n_threads() * CHUNKS_A_THREAD)) if simple else 1
    share(MOST, entry, block, 0, n_blocks, at_once)
    call(finish, block, 0, n_blocks, 0)
    if apply:
        share(MOST, apply, block, 0, n_blocks, at_once)
    partials[0] = 0  # which lives until here


# ---- the words
@functools.cache
def _launch(word, args, names):
    n = len(args) - len(names)
    return Launch(word, args[:n], dict(zip(names, args[n:])))


def _named(positional, names):
    """Return a signature of so many arguments and these keywords, by which numba orders them."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [inspect.Parameter(name, kind) for name in (*(f"_{k}" for k in range(positional)), *names)]
    )


def _emitted(word, context, builder, sig, values):
    names = [name for name in sig.pysig.parameters if not name.startswith("_")]
    launch, n = _launch(word, sig.args, tuple(names)), len(values) - len(names)
    wanted = [*range(n), *([n + names.index("out")] if launch.pattern == "scan" else ())]
    return launch.emit(context, builder, [sig.args[k] for k in wanted], [values[k] for k in wanted])


def _register_word(word):
    class Template(AbstractTemplate):
        key = word
        prefer_literal = True  # only for `inclusive`

        def generic(self, args, kws):
            given = [*args, *(v if name == "inclusive" else types.unliteral(v) for name, v in kws.items())]
            given = (*map(types.unliteral, given[: len(args)]), *given[len(args) :])
            return signature(_launch(word, given, tuple(kws)).result, *given).replace(
                pysig=_named(len(args), kws)
            )

    lower_builtin(word, types.VarArg(types.Any))(functools.partial(_emitted, word))
    infer_global(word, types.Function(Template))


for _word in _OPTIONS:
    _register_word(_word)
