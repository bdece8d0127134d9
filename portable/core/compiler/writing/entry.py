"""Define the part of entry functions that all machines share: the typed tree, the width of packs, the
argument block, reduction states."""

import functools
import math

from ...depth import deep_sources
from ....errors import DTypeError, LanguageError, ShapeError
from ...language.frontend import has_loops, reached
from ...places.policy import WITH_PREFIXES, n_indices
from ...language.reducer import Sum
from ...locks import lazy_attribute
from .block import EXTRA, Launched, Results
from ..reading.signature import flatten, known_objects
from ..reading.team import aligned, finished, lifted, lifts_complex, numbers_in, unwrapped, widened
from ..reading.tree import Operation, View, described_number, flat
from ...language.types import (
    HELD,
    LINEAR,
    PARTS,
    UNIFORM,
    VARYING,
    Complex,
    Number,
    complex_of,
    is_float,
    itemsize,
    strong,
)
from ..reading.typing import typed
from .watch import Watch


def _scratch(tree):
    """Return the bytes of a kernel's scratch of compile-time shape, and whether it has scratch of run-time
    shape."""
    shapes = [
        (v.shape, itemsize(v.dtype))
        for v in tree.root.body[0].body.body
        if v.__class__ is View and v.store == "(scratch)"
    ]
    static = [
        aligned(math.prod(shape) * size) for shape, size in shapes if all(isinstance(n, int) for n in shape)
    ]
    return sum(static), len(static) < len(shapes)


class Entry(Launched):
    """Kernel lowered for one machine, policy kind and signature.

    This class contains no code generation (see emitted.py): a process that finds the code on disk does not
    import the emitter.

    Parameters
    ----------
    machine : provides `step`, `chained` (the least width of a kernel that calls a chain),
        `lanes(entry)`, `team_facts(width)`, and `text(entry)`, the LLVM IR
    watch : function of the entry that returns the Watch of its emission

    Attributes
    ----------
    text : str, the LLVM IR, emitted at the first access
    tree : Tree of the kernel's source with the types of this signature, for packs of `width`
    states : numbers of each reducer's state, without values
    """

    states, complex_sums = (), ()

    def __init__(self, machine, kernel, policy_kind, specs, reducers=(), watch=None):
        super().__init__(kernel, policy_kind, specs, reducers)
        self.machine = machine
        self._texts = kernel.portable_text, known_objects(specs)
        with self.source_stack():
            self._read_text()
        self.watch = watch(self) if watch else Watch()
        self.fault_bytes = self.watch.fault_bytes

    @lazy_attribute
    def text(self):
        with self.source_stack():
            return self.machine.text(self)

    @property
    def sites(self):
        """Meanings of a debug build's faults; None for other builds."""
        return self.watch.sites

    def fault_word(self):
        """Return the index of the word in the argument block for a debug build's fault, after a reduction's
        addresses."""
        return self.signature.n_words + len(EXTRA) + (len(self.results.dtypes) if self.results else 0)

    def source_stack(self):
        """Return a context manager that provides stack for the nesting of the kernel's source."""

        def trees():
            return [text.tree for text in reached(*self._texts) if text is not None]

        return deep_sources(f"kernel '{self.kernel.name}' ({self.kernel.place})", trees)

    def _read_text(self):
        kernel, policy_kind = self.kernel, self.policy_kind
        self.has_loops = has_loops(*self._texts)
        self.params = [*kernel.portable_text.params[n_indices(policy_kind) :], "out"]
        self.why_scalar = None if kernel.packed else "the kernel is marked packed=False"
        self.width = self.machine.lanes(self)
        self.tree = self.typed_for(self.width)
        if self.tree.chain and self.width > 1:
            self.width = max(self.width, self.machine.chained)
            self.tree = self.typed_for(self.width)
        if self.tree.scalar and policy_kind != "team":
            self.one_lane(self.tree.scalar)
        self.scratch_static, self.scratch_open = _scratch(self.tree)
        if self.reducers:
            self._type_reducers()

    def inline(self, text, args):
        """Return the result of a source, typed for arguments without values."""
        known = tuple(map(described_number, args))
        tree = self.typed[text] = typed(
            text, known, self.width, self.machine.step, self.signature.float_dtype, self.kernel.name
        )
        return tree.result

    def _type_reducers(self):
        stored = functools.partial(strong, float_dtype=self.signature.float_dtype)
        index, self.typed, self.states, finals = Operation("input", dtype="int", kind=VARYING), {}, [], []
        self._part_complex_sums()
        for reducer, value in zip(self.reducers, self.contributions(self.tree.result)):
            state = tuple(
                Operation("input", dtype=stored(widened(v.dtype)), kind=VARYING)
                for v in lifted(self, reducer, value, index)
            )
            self.inline(reducer.combine.portable_text, (unwrapped(state),) * 2)
            self.states.append(state)
            finals.append(finished(self, reducer, state))
        self.state_words = sum(r.n_words for r in self.reducers)
        finals = self.paired(finals, lambda x, y: complex_of((x, y)))
        self.results = Results(
            [*map(_shape, self.given, finals)], [stored(v.dtype) for f in finals for v in flat(f)]
        )
        if self.policy_kind in WITH_PREFIXES:
            self._check_prefixes(list(flatten(self.signature.specs[-1:])))

    def _part_complex_sums(self):
        """Replace a sum of complex numbers by two sums, of their parts."""
        self.given = self.reducers
        self.complex_sums = [*map(self._is_complex, self.given, self._given_contributions(self.tree.result))]
        self.reducers = tuple(r for r, two in zip(self.given, self.complex_sums) for _ in range(1 + two))

    def _check_prefixes(self, outs):
        """Raise an error for views of a scan that cannot hold its results."""
        if len(outs) != len(self.results.dtypes):
            raise ShapeError(
                f"out: expected {len(self.results.dtypes)} array(s), one for each prefix; got {len(outs)}"
            )
        for dtype, out in zip(self.results.dtypes, outs):
            if out[1] in (*HELD, *PARTS) or is_float(dtype) and not is_float(out[1]):
                raise DTypeError(
                    f"out: expected an array of {'floats' if is_float(dtype) else dtype}, as the prefixes"
                    f" are {dtype}; got {out[1]}"
                )

    def one_lane(self, why):
        """Set the width to one lane, for the reason `why`."""
        self.width, self.why_scalar = 1, why
        self.tree = self.typed_for(1)

    def typed_for(self, width, outer=UNIFORM):
        """Return the Tree of the kernel's source with the types of this signature; `outer`: the kind of a
        box's leading indices."""
        if self.policy_kind == "team":
            index = [self.machine.team_facts(width)]
        else:
            lanes = "number", "int", LINEAR if width > 1 else VARYING, self.machine.step, False
            index = [("number", "int", outer, 0, False)] * (n_indices(self.policy_kind) - 1) + [lanes]
        known = (*index, *self.signature.described())
        return typed(
            self.kernel.portable_text,
            known[: len(self.kernel.portable_text.params)],
            width,
            self.machine.step,
            self.signature.float_dtype,
            self.kernel.name,
        )

    def _is_complex(self, reducer, value):
        """Return True for a sum of complex numbers outside of scans, which do not support it."""
        return isinstance(value, Complex) and reducer is Sum and "scan" not in self.policy_kind

    def paired(self, values, make):
        """Return the values of all reducers, with the two parts of a complex sum joined by `make`."""
        values = iter(values)
        return tuple(make(next(values), next(values)) if two else next(values) for two in self.complex_sums)

    def contributions(self, result):
        """Return the kernel's result for each reducer; a complex sum's parts are separate, since they are
        summed separately."""
        values = zip(self._given_contributions(result), self.complex_sums)
        return tuple(part for value, two in values for part in (value if two else (value,)))

    def _given_contributions(self, result):
        """Return the kernel's result: a number or tuple for each reducer of the launch."""
        several = isinstance(result, tuple) and not isinstance(result, Complex)  # which is one number
        alone = len(self.given) == 1 and not (several and len(result) == 1)
        values = (result,) if alone or not several else result
        if (
            len(values) != len(self.given)
            or not all(_fits(*each) or self._is_complex(*each) for each in zip(self.given, values))
            or not self.kernel.portable_text.always_returns
        ):
            wanted = sum(1 if r.lift else r.n_words for r in self.given)
            got = "nothing" if result is None else f"{len(flat(result))} value(s)"
            if any(isinstance(value, Complex) for value in values):
                got = (
                    f"{len(values)} value(s), among them a complex number, which pk.Sum alone takes: give"
                    " others, and scans, its parts z.real and z.imag"
                )
            elif any(isinstance(value, View) for value in values):
                got = "an array; return an element, or its .sum()"
            elif result is not None and not self.kernel.portable_text.always_returns:
                got += " on some paths and nothing on others"
            raise LanguageError(
                f"kernel '{self.kernel.name}' ({self.kernel.place}): a reduction's kernel returns its "
                f"contribution; expected {wanted} number(s), got {got}"
            )
        return values

    def neutral(self, reducer, state):
        """Return the numbers of the neutral state for a state like `state`."""
        numbers = reducer.neutral(state[0].dtype)
        if len(numbers) != len(state):
            raise LanguageError(
                f"kernel '{self.kernel.name}' ({self.kernel.place}): {reducer!r} has an identity of"
                f" {len(numbers)} number(s), but a state of {len(state)}"
            )
        return numbers


def _shape(reducer, final):
    """Return the entry of Results.shapes for a number, a complex number or a tuple."""
    if not numbers_in(final):
        raise LanguageError(f"{reducer!r}: finish must return numbers, not nested tuples")
    return "complex" if isinstance(final, Complex) else len(final) if isinstance(final, tuple) else None


def _fits(reducer, value):
    """Return True if a contribution is a number, or has as many numbers as the reducer's states; a complex
    number fits only a user's own `lift`."""
    parts = flat(value)
    if isinstance(value, Complex) and not lifts_complex(reducer):
        return False
    return all(isinstance(v, Number) for v in parts) and (
        reducer.lift is not None or len(parts) == reducer.n_words
    )
