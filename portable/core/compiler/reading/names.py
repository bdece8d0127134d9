"""What names stand for in a text that is being built: numbers, tuples of these, views."""

from __future__ import annotations

from ....errors import LanguageError
from .calls import Calls
from .tree import Block, Operation, Set, Variable, View, alike, arrangement, flat, mapped
from ...language.types import UNIFORM


class Names(Calls):
    """Needs from the class on top: `block`, `frame`, `exchanged`, `_loop` (see build.py)."""

    def read(self, name, node):
        if name in self.frame.direct:
            return self.frame.direct[name]
        if name not in self.frame.variables:
            self.fail(node, f"'{name.partition('@')[0]}' is used before it is assigned", LanguageError)
        value = mapped(lambda variable: self.operation("get", attr=variable), self.frame.variables[name])
        options = self.frame.views.get(name)
        if options is None:
            return value
        plain = name.partition("@")[0]
        self.wanted(
            lambda: value.kind == UNIFORM,
            node,
            f"'{plain}' is one of several views here, which must be the same for all indices",
        )
        view = View(plain, options[0].dtype, [], options[0].readonly, items=[value], options=options)
        view.shape = [
            Operation("extent", attr=(view, d), dtype="int", kind=UNIFORM)
            for d in range(len(options[0].shape))
        ]
        return self.put(view)

    def place_of(self, name, view, node):
        """The number of a view among those that a name may hold."""
        options = view.options or self.exchanged.setdefault((view.dtype, len(view.shape), view.readonly), [])
        if (
            not view.options
            and (view.base or view.scatter or view.lanes_last)
            or self.frame.views.setdefault(name, options) is not options
        ):
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {self.describe(view)} here and something else elsewhere; a"
                " name may hold one of several arguments or scratch arrays of one dtype and number of"
                " dimensions; give others a name of their own",
            )
        if view.options:
            return view.items[0]
        if view not in options:
            options.append(view)
        return self.const(options.index(view))

    def assign(self, name, value, node):
        frame = self.frame
        web = frame.text.webs[name]
        if web.direct:
            frame.direct[name] = value
            if value.__class__ is View:
                value.name = value.name or name.partition("@")[0]
            return
        if value.__class__ is View:
            value = self.place_of(name, value, node)
        elif not all(isinstance(v, Operation) for v in flat(value)) or name in frame.views:
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {self.describe(value)} here and is assigned elsewhere too;"
                " give it a name of its own",
            )
        home = frame.homes.get(web.block, Block())
        variables = frame.variables.setdefault(name, mapped(lambda _: Variable(name), value))
        if not alike(arrangement(variables), arrangement(value)):
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {self.describe(value)} here and something else elsewhere;"
                " a name that is assigned again holds as many numbers (a complex sum begins with 0j)",
            )
        for variable, v in zip(flat(variables), flat(value)):
            self.put(Set(variable, v, home, self.block, self._loop(), at=(frame.text, node)))
