"""A View of host memory as an argument and a result of numba's functions: an array there, the same memory."""

from numba import typeof
from numba.core import types
from numba.core.datamodel.models import ArrayModel
from numba.extending import NativeValue, box, register_model, typeof_impl, unbox

from ..errors import SpaceError
from ..core.places.space import HOST
from ..core.arrays.view import View as Ours, asview


class View(types.Array):
    """numba's type of a View."""

    def __init__(self, array):
        super().__init__(
            array.dtype,
            array.ndim,
            array.layout,
            readonly=not array.mutable,
            aligned=array.aligned,
            name=f"portable.View({array})",
        )
        self.array = array


register_model(View)(ArrayModel)


@typeof_impl.register(Ours)
def _typeof(view, context):
    """Return numba's type of a View; SpaceError if numba's code for CPUs cannot reach it."""
    if view.memory != HOST:
        raise SpaceError(
            f"{view!r} is in memory '{view.memory}', which numba's functions for CPUs cannot reach: "
            "pass view.to_numpy(), a copy, or launch a kernel there"
        )
    return View(typeof(view.to_numpy()))


@unbox(View)
def _unbox(kind, obj, c):
    array = c.pyapi.object_getattr_string(obj, "_array")
    native = c.unbox(kind.array, array)
    c.pyapi.decref(array)
    return NativeValue(native.value, is_error=native.is_error, cleanup=native.cleanup)


@box(View)
def _box(kind, value, c):
    array = c.box(kind.array, value)
    asview_of = c.pyapi.unserialize(c.pyapi.serialize_object(asview))
    view = c.pyapi.call_function_objargs(asview_of, [array])
    c.pyapi.decref(asview_of)
    c.pyapi.decref(array)
    return view
