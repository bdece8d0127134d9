"""The texts of math's words beside elementary.py's, by their names."""

from ...core.texts import elementary
from . import c99, erf, gamma

TEXTS = {**elementary.TEXTS, **vars(c99), **vars(erf), **vars(gamma)}
TEXTS_32 = elementary.narrowed(TEXTS)
