"""A derived function called on the host: one index of a launch on the serial space."""

import numpy as np

from ..core import events
from ..core.compiler.reading.signature import Signature
from ..core.compiler.reading.tree import flat, plain_tuple
from ..core.compiler.reading.typing import typed
from ..core.language.kernel import Kernel, from_text
from ..core.language.types import strong
from ..core.launch.dispatch import described, parallel_for
from ..core.places.policy import RangePolicy
from ..errors import InputError


def run(function, args):
    """Return the result of a derived function, as a number or tuples of numbers."""
    events.refuse_while_recording("a derivative")
    params, optional = function.params, function.fn.__defaults__ or ()
    if not len(params) - len(optional) <= len(args) <= len(params):
        raise InputError(f"'{function.name}' takes {len(params)} argument(s), but {len(args)} were given")
    args = (*args, *optional[len(optional) - len(params) + len(args) :])
    specs = described(args)
    if ("host", specs) not in function.compiled:
        function.compiled["host", specs] = _storing_kernel(function, specs)
    kernel, result, dtypes = function.compiled["host", specs]
    outs = [np.zeros(1, dtype) for dtype in dtypes]
    parallel_for(RangePolicy(0, 1, space="serial"), kernel, function, args, tuple(outs))
    return _arranged(result, iter(outs))


def _storing_kernel(function, specs):
    """Return a kernel that stores a function's result for such arguments, the result's arrangement, and
    dtypes.
    """
    signature = Signature(specs)
    tree = typed(
        function.portable_text, tuple(signature.described()), 1, 1, signature.float_dtype, function.name
    )
    lines = [f"    result = f({', '.join(f'given[{k}]' for k in range(len(specs)))})\n"]
    lines += [f"    outs[{k}][0] = result{path}\n" for k, path in enumerate(_places(tree.result))]
    params = "i", "f", "given", "outs"
    kernel = written(Kernel, f"{function.name}_on_the_host", params, lines, (False, False, 1))
    return kernel, tree.result, [strong(v.dtype, signature.float_dtype) for v in flat(tree.result)]


def written(kind, name, params, lines, options=()):
    """Return a kernel or function of these lines."""
    head = f"def {name}({', '.join(params)}):\n"
    return from_text(kind, name, __name__, f"<{name}>", [head, *lines], 1, {}, options)


def _places(value):
    """Return the paths to the numbers of a result."""
    if not isinstance(value, tuple):
        return [""]
    names = [f".{name}" for name in getattr(value, "names", ()) if name.isidentifier()]
    return [f"{names[k] if names else f'[{k}]'}{rest}" for k, v in enumerate(value) for rest in _places(v)]


def _arranged(value, outs):
    if not isinstance(value, tuple):
        number = next(outs)[0]
        return number.item() if isinstance(number, np.float64) else number
    parts = tuple(_arranged(v, outs) for v in value)
    return parts if plain_tuple(value) else complex(*parts)
