"""The texts of math's words beside elementary.py's, by their names."""

from ...core.texts import elementary
from . import approximate, c99, erf, gamma, tables

TEXTS = {**elementary.TEXTS, **vars(approximate), **vars(c99), **vars(erf), **vars(gamma)}
TEXTS_32 = elementary.narrowed(TEXTS, tables.T32)
