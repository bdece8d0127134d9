"""A function or kernel with a change, such as its derivative."""


def changed(function, kind, change):
    """Return a Function or Kernel with a change, made once."""
    found = function.compiled
    if change not in found:
        found[change] = kind(function.fn, *function.options[:-1], change)
    return found[change]
