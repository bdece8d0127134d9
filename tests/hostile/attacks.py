"""Attack a launch as real programs do: threads, forks, signals, Ctrl-C, exits, pickles, limits. A table of
attacks.

Each is a function of a random generator and of the number of tries; it returns the number of tries made, and
raises if a check failed. It runs in a separate process: `python -m tests.hostile NAME`.
"""

from . import (  # noqa: F401
    attacks_cold,
    attacks_ctrl_c,
    attacks_exits,
    attacks_limits,
    attacks_processes,
    attacks_threads,
)
from .victims import ATTACKS, attack

__all__ = ["ATTACKS", "attack"]
