"""A function or kernel with a change, such as its derivative."""


def changed(function, kind, change):
    """Return a Function or Kernel with a change, made once."""
    found = function.compiled
    if change not in found:
        found[change] = kind(function.fn, *function.options[:-1], change)
    return found[change]


def place_of(text, name):
    """Return the place of a parameter among those of a source."""
    return [param.partition("@")[0] for param in text.params].index(name)
