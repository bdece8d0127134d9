"""Define the oracle's expressions: their types, and access to elements of arrays."""

from . import meaning
from .meaning import Refused


class View:
    """Type of an array: its dtype and number of dimensions."""

    def __init__(self, dtype, ndim):
        self.dtype, self.ndim = dtype, ndim

    def __eq__(self, other):
        return isinstance(other, View) and (self.dtype, self.ndim) == (other.dtype, other.ndim)

    def __hash__(self):
        return hash((self.dtype, self.ndim))


class Expr:
    """Expression: its type (a dtype, a View, a tuple of types, "team", or a reducer's name) and a function of
    the variables.

    `product`: for a product of floats, the functions that give its two factors.
    """

    __slots__ = ("type", "run", "product")

    def __init__(self, type, run, product=None):  # noqa: A002
        self.type, self.run, self.product = type, run, product


def inside(array, index):
    if not all(0 <= k < n for k, n in zip(index, array.shape, strict=True)):
        raise Refused(f"index {index} of an array of {array.shape}")


def load(array, index, dtype):
    inside(array, index)
    value = array[index]
    return value if dtype in meaning.FLOATS else value.item()
