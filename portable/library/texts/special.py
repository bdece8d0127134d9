"""Kernel functions of the math words that elementary.py lacks, by their names."""

from ...core.texts import elementary
from . import approximate, c99, erf, gamma
from .tables import T32

MODULES = approximate, c99, erf, gamma
TEXTS = {**elementary.TEXTS}
for _module in MODULES:
    TEXTS |= vars(_module)
TEXTS_32 = elementary.narrowed(TEXTS, T32)
