"""Find the code of a launch on disk by a fingerprint, without reading the kernel's source."""

import ast

from ... import cache
from ..reading.fingerprint import fingerprint
from ..reading.signature import known_objects
from .block import Launched


class CachedCode:
    """Facts of a launch, and keys of its code, which disk holds under a fingerprint; a key is a hash of the
    code's text.

    Parameters
    ----------
    launch : kernel, policy kind, types of arguments, reducers
    machine : all else that determines the code; None for code that no other process looks for
    entry : function that returns the Entry of the launch, with its facts

    Attributes
    ----------
    launched : the Entry, or Launched with its facts
    """

    def __init__(self, launch, machine, entry):
        self.launch, self.machine = launch, machine
        self.name = self._fingerprint()
        known = self.name and cache.get(self.name, False)
        facts, self.keys = ast.literal_eval(known.decode()) if known else (None, {})
        self.launched = Launched(*launch, facts) if known else entry()

    def _fingerprint(self):
        kernel, policy_kind, specs, reducers = self.launch
        if self.machine is None:
            return None
        return fingerprint(kernel, reducers, known_objects(specs), policy_kind, repr((specs, self.machine)))

    def key(self, kind, make):
        """Return the key of code of a kind; `make` computes it from the code's text."""
        if kind not in self.keys:
            self.keys[kind] = make()
            kernel, *_, reducers = self.launch
            # not that of a kernel whose result parallel_for refuses, or warns of; nor if another thread has
            # changed the value of a global name
            known = reducers or not kernel.portable_text.returns_something
            if self.name and known and self.name == self._fingerprint():
                cache.put(self.name, repr((self.launched.facts, self.keys)).encode())
        return self.keys[kind]
