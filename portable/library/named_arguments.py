"""Launch arguments passed by name, and the default values of a kernel's parameters."""

import functools

from ..core.language.kernel import Kernel
from ..core.language.words import static
from ..core.launch import dispatch
from ..errors import InputError, LanguageError, ShapeError
from ..core.places.policy import WITH_PREFIXES, as_policy, kind_of, n_indices


def arranged(policy, kernel, args, named):
    """Return a kernel, or that of a functools.partial, and all of its arguments in their order.

    Raises
    ------
    InputError
        A name that is no parameter's, or is given twice; positional arguments of the partial.
    ShapeError
        Too many or too few arguments.
    """
    while isinstance(kernel, functools.partial):
        if kernel.args:
            raise InputError(
                f"functools.partial of {kernel.func!r}: its first parameter is the index; pass arguments"
                " by their names"
            )
        named, kernel = {**kernel.keywords, **named}, kernel.func
    if type(kernel) is not Kernel:
        raise dispatch.no_kernel(kernel)
    params = kernel.params[n_indices(kind_of(as_policy(policy))) :]
    for name in named:
        if name not in params[len(args) :]:
            hint = "; the space is the policy's, pk.RangePolicy(0, n, space=...)" * (name == "space")
            raise InputError(
                f"kernel '{kernel.name}' ({kernel.place}): '{name}' is none of the remaining arguments,"
                f" {', '.join(params[len(args) :]) or 'since all are given'}{hint}"
            )
    known = dict(zip(reversed(params), reversed(_defaults(kernel)))) | dict(zip(params, args)) | named
    if len(args) > len(params) or len(known) < len(params):
        raise _wrong_count(kernel, len(kernel.params) - len(params), len(args) + len(named))
    return kernel, tuple(known[name] for name in params)


def absent(kernel, kind, n_given):
    """Return the defaults of the parameters after the given number of arguments; ShapeError for too few or
    too many.
    """
    defaults, first = _defaults(kernel), n_indices(kind)
    n = len(kernel.params) - first + (kind in WITH_PREFIXES) - n_given
    if not 0 <= n <= len(defaults):
        raise _wrong_count(kernel, first, n_given - (kind in WITH_PREFIXES))
    return defaults[len(defaults) - n :]


def _wrong_count(kernel, first, n_given):
    """Return the error of a launch with too many or too few arguments."""
    kernel.portable_text  # noqa: B018  (refuses parameters that no kernel has)
    names, optional = kernel.params, len(_defaults(kernel))
    n = len(names) - first
    wanted = f"{n - optional} to {n}" if optional else n
    return ShapeError(
        f"kernel '{kernel.name}' ({kernel.place}) takes {wanted} argument(s) after"
        f" '{', '.join(names[:first])}' ({', '.join(names[first:])}), but {n_given} were given; a range gives"
        " the first parameter, a pk.MDRangePolicy one for each dimension"
    )


def _defaults(kernel):
    """Return the defaults of a kernel's last parameters, which are constants of its code."""
    return tuple(_constant(kernel, value) for value in kernel.fn.__defaults__ or ())


def _constant(kernel, value):
    if type(value) is tuple:
        return tuple(_constant(kernel, v) for v in value)
    try:
        return static(value)
    except LanguageError:
        raise InputError(
            f"kernel '{kernel.name}' ({kernel.place}): a default is {value!r:.60} of type"
            f" {type(value).__name__}; expected a number, None, a function or a tuple of these; pass others"
            " at the launch"
        ) from None
