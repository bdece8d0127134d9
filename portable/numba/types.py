"""numba's types as the compiler's, and its values as the words of an argument block."""

from llvmlite import ir
from numba.core import types
from numba.np import arrayobj

from ..errors import DTypeError
from ..core.arrays.view import MAX_NDIM

I64, PTR = ir.IntType(64), ir.PointerType()
NUMBA = {
    "bool": types.boolean,
    "int32": types.int32,
    "int64": types.int64,
    "uint32": types.uint32,
    "uint64": types.uint64,
    "float32": types.float32,
    "float64": types.float64,
}
DTYPE = {ours: dtype for dtype, ours in NUMBA.items()}
SMALL = {getattr(types, name): name for name in "int8 uint8 int16 uint16".split()}
_STORED = DTYPE | SMALL | {types.complex64: "complex64", types.complex128: "complex128"}  # in arrays


_LITERALS = types.IntegerLiteral, types.BooleanLiteral


def specs_of(written, names, args, weak=False):
    """Return the types of arguments, as compiler/signature.py has them.

    weak : True if numbers of 64 bits are Python's at a launch, which take the type of the other operand
    """
    specs = []
    for name, kind in zip(names, args):
        try:
            specs.append(_spec(kind, weak))
        except DTypeError as error:
            raise DTypeError(
                f"{written.kind} '{written.name}' ({written.place}): argument '{name}': {error}"
            ) from None
    return tuple(specs)


def _spec(kind, weak):
    if isinstance(kind, _LITERALS):
        return "static", kind.literal_value, repr(kind.literal_value)
    if hasattr(kind, "written"):
        return kind.written.spec
    if isinstance(kind, types.BaseTuple):
        return "tuple", tuple(_spec(part, weak) for part in kind), tuple(getattr(kind, "fields", ()))
    if isinstance(kind, types.Record):
        return "tuple", tuple(_spec(kind.typeof(name), weak) for name in kind.fields), tuple(kind.fields)
    if isinstance(kind, types.Array) and kind.dtype in _STORED and kind.ndim <= MAX_NDIM:
        return "view", _STORED[kind.dtype], kind.ndim, kind.layout == "C", not kind.mutable
    if kind in SMALL:
        return "number", "int32"
    if kind not in DTYPE:
        raise DTypeError(
            f"numba's {kind} is not a kernel argument; expected a number, an array of "
            f"{', '.join(_STORED.values())} with at most {MAX_NDIM} dimensions, or a tuple or record of these"
        )
    return "number", (
        {"float64": "float", "int64": "int"}.get(DTYPE[kind], DTYPE[kind]) if weak else DTYPE[kind]
    )


def words(context, builder, kind, value, make_array=arrayobj.make_array):
    """Return the LLVM values of an argument, one after the other."""
    if isinstance(kind, _LITERALS) or hasattr(kind, "written"):
        return []
    if isinstance(kind, types.BaseTuple):
        return [
            w
            for k, part in enumerate(kind)
            for w in words(context, builder, part, builder.extract_value(value, k))
        ]
    if isinstance(kind, types.Record):
        return [w for name in kind.fields for w in _field(context, builder, kind, value, name)]
    if isinstance(kind, types.Array):
        array = make_array(kind)(context, builder, value)
        numbers = [
            builder.extract_value(part, d) for part in (array.shape, array.strides) for d in range(kind.ndim)
        ]
        return [builder.bitcast(array.data, PTR), *numbers]
    return [context.cast(builder, value, kind, types.int32) if kind in SMALL else value]


def _field(context, builder, kind, value, name):
    """Return a field of a NumPy record, which need not be aligned."""
    field = kind.typeof(name)
    place = builder.gep(builder.bitcast(value, PTR), [I64(kind.offset(name))], source_etype=ir.IntType(8))
    if isinstance(field, (types.Record, types.NestedArray)):
        return words(context, builder, field, place)
    stored = builder.load(place, align=1, typ=context.get_data_type(field))
    return [context.data_model_manager[field].from_data(builder, stored)]


def block(context, builder, specs, kinds, values, single, more=()):
    """Return an argument block on the caller's stack, with `more` words after the arguments, None for an
    unset one.

    single : True if weak floats are float32 there
    """
    laid = []
    for spec, kind, value in zip(specs, kinds, values):
        laid += [
            builder.fptrunc(w, ir.FloatType()) if single and spec == ("number", "float") else w
            for w in words(context, builder, kind, value)
        ]
    laid += more
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(I64, max(1, len(laid))))
        place.align, place.type = 64, PTR
    for k, word in enumerate(laid):
        if word is not None:
            word = builder.zext(word, I64) if word.type == ir.IntType(1) else word
            builder.store(word, word_at(builder, place, k))
    return place


def word_at(builder, place, k):
    """Return the address of a word of a block."""
    return builder.gep(place, [I64(k)], inbounds=True, source_etype=I64)
