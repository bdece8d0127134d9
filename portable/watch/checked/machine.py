"""The space "checked", as machines/contract.py requires."""

from ...core.machines.contract import Backend


class _Checked(Backend):
    marks_unwritten = True

    def launches(self):
        from .space import LAUNCHES

        return LAUNCHES

    def about(self, space):
        return [(space.name, "plain Python, for small sizes")]


BACKENDS = {"checked": _Checked()}
