"""Load and store states of several numbers, for the scans of all machines."""

from ...language.types import VARYING
from ..reading.team import finished
from ..reading.tree import flat
from .lines import builder
from .values import I64, Value


def words_of(place, index, n):
    """Return the addresses of the n consecutive words of a state."""
    first = index if n == 1 else index * n
    return [builder.gep(place, [first + k if k else first], I64) for k in range(n)]


class Scanned:
    """Base of the launcher of a scan, for the code of its entry. `state`: a Value without a number for each
    number of a state."""

    def __init__(self, code, kind):
        self.code, self.ops, self.kind, self.extra = code, code.ops, code.policy_kind, code.extra
        (self.reducer,) = code.reducers
        self.state = tuple(Value(v.dtype, kind, None) for v in code.entry.states[0])

    def _contributed(self, index, mask=None):
        """Return the state of the kernel's contribution at an index, or at a pack of them."""
        code, here = self.code, self.code.lower.make_place(mask, mask is not None)
        inside, text = here._replace(where=(index,)), code.kernel.portable_text
        (value,) = code.entry.contributions(inside.inline(text, [index, *code.args]))
        return code.state(here, self.reducer, value, index, VARYING)

    def _neutral(self):
        return self.code.identity(self.reducer, self.state)

    def _read(self, places):
        return self.code.loaded(self.state, places)

    def _write(self, state, places):
        for x, v, p in zip(state, self.state, places):
            builder.store(self.ops.get(x, v.dtype), p)

    def _finished(self, state):
        """Return the numbers of the prefix for a state."""
        return flat(finished(self.code.lower.make_place(), self.reducer, state))
