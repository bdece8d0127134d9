"""Format numbers and errors for people."""

import math

from portable.errors import printable

WORDS = {
    "arithmetic": "its arithmetic",
    "integer": "its integer operations",
    "atomics": "its atomic operations",
    "launch": "the cost of launches",
    "requested": "its loads and stores from the nearest cache",
}
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def scaled(value, unit=""):
    """Return `value` with three digits and an SI prefix: 0.0262, "s" gives "26.2 ms"."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g} {unit}".rstrip()
    exponent = int(f"{value:.2e}".partition("e")[2])  # of the rounded number: 999.9 is 1.00 k
    power = min(max(3 * (exponent // 3), -9), 15)
    digits = min(max(2 - (exponent - power), 0), 2)
    return f"{value / 10.0**power:.{digits}f} {_PREFIXES[power]}{unit}".rstrip()


def times(factor):
    """Return a factor with three digits, never with an exponent: "3.21", "7,110"."""
    return f"{float(f'{factor:.3g}'):,.0f}" if factor >= 100 else f"{factor:.3g}"


def spread(samples, unit=""):
    """Return the quartiles of a result: "25.9 ms to 26.4 ms"."""
    return f"{scaled(samples.lower, unit)} to {scaled(samples.upper, unit)}"


def in_words(samples, unit="s"):
    """Return the median and the quartiles: "26.1 ms (25.9 ms to 26.4 ms)"."""
    return f"{scaled(samples.median, unit)} ({spread(samples, unit)})"


def relative_difference(value, reference):
    """Return |value - reference| / |reference|, or the plain difference if the reference is 0."""
    difference = abs(value - reference)
    return difference / abs(reference) if reference else difference


def picked(a, names):
    """Return {name: attribute} of the attributes that JSON stores by the same names, which are separated by
    spaces."""
    return {name: getattr(a, name) for name in names.split()}


def finite(value):
    """Return `value`, or None if it is not finite: JSON cannot represent that."""
    return value if value is not None and math.isfinite(value) else None


def printable_document(value):
    """Return a document with all of its text `printable`."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: printable_document(item) for key, item in value.items()}
    return [printable_document(item) for item in value] if isinstance(value, (list, tuple)) else value


def one_line(error):
    """Return an exception's type and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def resource(name):
    """Return a resource in words: "memory L2" is "moving its data through L2"."""
    return WORDS.get(name) or f"moving its data through {name.removeprefix('memory ')}"
