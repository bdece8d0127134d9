"""The checked space: kernels run as plain Python, which is what a kernel means.

Everything here is pure Python and slow. The other spaces are right when they agree with this one.
"""

from ..contract import Backend


class _Checked(Backend):
    marks_unwritten = True

    def launches(self):
        from .space import LAUNCHES

        return LAUNCHES

    def about(self, space):
        return [(space.name, "plain Python, for small sizes")]


BACKENDS = {"checked": _Checked()}
