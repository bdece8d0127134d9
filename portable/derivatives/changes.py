"""A function or kernel with a change, such as its derivative."""


def changed(function, kind, change):
    """Return a Function or Kernel with a change, made once."""
    found = function.compiled
    if change not in found:
        found[change] = kind(function.fn, *function.options[:-1], change)
    return found[change]


def place_of(text, path):
    """Return the place of the parameter of a path, such as "p.omega", among those of a source."""
    return [param.partition("@")[0] for param in text.params].index(path.partition(".")[0])


def at_path(text, values, path):
    """Return the part at a path of values for the parameters of a source; KeyError for a missing field."""
    found = values[place_of(text, path)]
    for field in path.split(".")[1:]:
        names = getattr(found, "names", ())
        found = dict(zip(names, found if names else ()))[field]
    return found
