"""Draw programs of teams: shared memory, collectives, shares of a range left early, branches and loops that
members take together or separately.

A phase reads what other members wrote only after a barrier. Terms of sums are multiples of 1/8 below 4, so
that the order of addition does not matter.
"""

import contextlib

import numpy as np
from hypothesis import strategies as st

from .grammar import Grammar, helpers, indented
from .program import HEADER, Program
from .ranges import draw_dtypes

LENGTH, TEAMS = 19, 3
REDUCERS = """def _more(a, b):
    return a[0] + b[0], max(a[1], b[1])


@pk.function
def _counted(value):
    # NaN too: a max with it depends on the order
    return 1 if value > 0 else 0, value if value > -4.0 else -4.0


def _spread(state):
    return state[1] - state[0]


Spread = pk.Reducer("Spread", _more, (0, -4.0), _counted, _spread)


def _either(a, b):
    return a ^ b


Either = pk.Reducer("Either", _either, 0)


"""
MEMBER = {
    "f": ["t", "u0", "v0", "x[row, 3]"],
    "i": ["c", "row", "w0", "team.rank", "(team.rank + 16)", "team.size", "k[row, 2]"],
    "c": ["flag"],
    "u": ["z"],
}
ITEM = {
    "f": ["old[j]", "old[(j + 5) % 19]", "x[row, j]", "old[k[row, j]]"],
    "i": ["j", "k[row, j]"],
    "c": [],
    "u": [],
}
TOGETHER = {
    "f": ["u0", "v0", "x[row, 3]", "old[7]"],
    "i": ["row", "w0", "team.size", "team.league_size", "k[row, 1]"],
    "c": ["agreed"],
    "u": ["y"],
}


class TeamGrammar(Grammar):
    """Grammar of teams. `level`: "team" for code that all members execute together, "item" in a share of a
    range, "member" in a member's private loops."""

    level = "team"

    def __init__(self, draw, dtypes):
        super().__init__(draw, dtypes, LENGTH, room=8)
        self.leaves = {k: list(v) for k, v in TOGETHER.items()}
        self.variables = {"f": ["u0", "v0"], "i": ["w0"], "u": ["y"], "c": ["agreed"]}
        self.row, self.in_team_loop = "x[row]", False

    @contextlib.contextmanager
    def at(self, level):
        """Draw at another level, with the values and variables that are available there."""
        outer = self.level, self.leaves, self.variables, self.in_loop
        item = ITEM if level == "item" else {k: [] for k in "fiuc"}
        known = {
            k: [leaf for leaf in v if leaf not in TOGETHER[k]] for k, v in self.leaves.items()
        }  # counters of the enclosing loops
        self.leaves = {k: MEMBER[k] + item[k] + known[k] for k in "fiuc"}
        self.variables = {"f": ["t"], "i": ["c"], "u": ["z"], "c": ["flag"]}
        self.level, self.in_loop = level, level == "item"
        yield
        self.level, self.leaves, self.variables, self.in_loop = outer

    def kinds(self, depth):
        if self.level != "team":
            kinds = "assign augment both helper".split()
            kinds += ["branch", "counted", "condition"] if depth > 0 and self.room > 0 else []
            return kinds + (["leave", "leave"] if self.in_loop else [])
        kinds = "total map extreme place find parted scan broadcast append slots written bins assign".split()
        kinds += ["branch", "together"] if depth > 0 and self.room > 0 else []
        return kinds + (["leave"] if self.in_loop else [])

    def share(self, work, bounds=None):
        """Draw a loop over a share of a range, in which members work on their items."""
        bounds = bounds or self.pick(["19", "19", "row, 19", "17", "3", "w0 % 5, 18", "2, 2"])
        return [f"for j in team.thread_range({bounds}):", *indented(work)]

    def items(self, depth=1, most=2):
        with self.at("item"):
            return self.block(depth, most)

    # ---- phases, all members together
    def make_total(self, depth):
        return ["t = 0.0", *self.share([*self.items(), "t = q(t + old[j])"]), "u0 = q(team.reduce(q(t)))"]

    def make_map(self, depth):
        work = ["t = old[j]", "new[j] = t", *self.items(2), "new[j] = t"]
        return [
            *self.share(work, "19"),
            "team.barrier()",
            "for j in team.thread_range(19):",
            "    old[j] = q(new[j])",
            "team.barrier()",
        ]

    def make_extreme(self, depth):
        return [
            "t = -4.0",
            *self.share([*self.items(), "t = max(t, old[j])"]),
            f"v0 = team.reduce(t, {self.pick(['pk.Max', 'pk.Min'])}) + 0.0",
        ]

    def make_place(self, depth):
        whole = f"pk.{self.dtypes['i']}"
        return [
            f"t, c = 4.0, {whole}(99)",
            *self.share([*self.items(), "if old[j] < t:", f"    t, c = old[j], {whole}(j)"]),
            f"u0, w1 = team.reduce((t, c), {self.pick(['pk.MinLoc', 'pk.MaxLoc'])})",
            "u0 += 0.0",
            f"w0 = {whole}(w1 % 50)",
        ]

    def make_find(self, depth):
        """Draw a search for the first of a member's items that meets a condition."""
        whole = f"pk.{self.dtypes['i']}"
        with self.at("item"):
            test = self.expr("c")
        leave = self.pick(["break", "break", "continue"])
        return [
            f"c = {whole}(40)",
            *self.share(
                [f"if {test}:", f"    c = {whole}(j)", f"    {leave}", "t = old[j]", *self.items(0, 1)]
            ),
            f"w0 = {whole}(team.reduce(c, pk.Min) % 50)",
        ]

    def make_parted(self, depth):
        """Draw a plain loop that members leave at different times, and a collective after it."""
        name = self.name("r")
        head = self.pick(
            [
                f"for {name} in range({{I}} % 6):",
                f"for {name} in range(4):",
                f"while {name} < 5:",
                f"for {name} in range(3 + c % 3):",
            ]
        )
        before = [f"{name} = 0"] if head.startswith("while") else []
        with self.at("member"):
            head = self.fill(head, 1)
            self.in_loop = True
            self.leaves["i"].append(name)
            work = ([f"{name} += 1"] if before else []) + self.make_leave(1) + self.block(1, 2)
        return [
            *before,
            head,
            *indented(work),
            *self.pick([self.meet_sum, self.meet_scan, lambda: ["team.barrier()"]])(),
        ]

    def meet_sum(self):
        return ["v0 = q(team.reduce(q(t)))"]

    def meet_scan(self):
        return [f"c = pk.{self.dtypes['i']}(team.scan(c % 7) % 90)"]

    def make_scan(self, depth):
        with self.at("member"):
            value = self.pick([f"q({self.expr('f')})", f"{self.expr('i')} % 9", f"({self.expr('u')})"])
        if value.startswith("q"):
            return [f"t = q(team.scan({value}{self.pick(['', ', pk.Max'])}) + 0.0)"]
        if value.startswith("(("):
            unsigned, name = f"pk.{self.dtypes['u']}", self.pick(["", ", Either"])
            return [f"z = {unsigned}(team.scan({unsigned}{value}{name}))"]
        return [f"c = pk.{self.dtypes['i']}(team.scan({value}))"]

    def make_broadcast(self, depth):
        weak = ["({f} if {c} else -0.25)", "(1.5 if {c} else 2)", "({i} / 4)", "float({I})", "({c})"]
        with self.at("member"):  # a weak float has the width of the kernel's float type
            value = self.fill(self.pick(["{F}", "{F}", *weak]), 1)
        rank = self.pick(["", ", team.size - 1", ", w0 % team.size", ", 0"])
        return [f"u0 = pk.{self.dtypes['f']}(team.broadcast({value}{rank}))"]

    def make_append(self, depth):
        with self.at("member"):
            value, keep = self.expr("i"), self.expr("c")
        name = self.name("n")
        return [
            f"{name} = team.append(kept[row], 0, {value}, {keep})",
            "team.barrier()",
            f"w0 = pk.{self.dtypes['i']}({name})",
        ]

    def make_slots(self, depth):
        with self.at("member"):
            value = self.settled("f")
        return [
            f"slots[team.rank] = {value}",
            "team.barrier()",
            "t = slots[(team.rank + 1) % team.size]",
            "team.barrier()",
        ]

    def make_written(self, depth):
        with self.at("member"):
            if self.chance(2):
                return [f"w0 = pk.{self.dtypes['i']}(team.reduce({self.expr('i')} % 99, Either) % 90)"]
            return [f"u0 = pk.{self.dtypes['f']}(team.reduce(q({self.expr('f')}), Spread))"]

    def make_bins(self, depth):
        """Draw atomic updates of shared memory, and a read of it by one member."""
        with self.at("item"):
            where, value = self.expr("i", 1), self.pick(["1", "j", "j % 3"])
        word = self.pick("add max xor or".split())
        return [
            "for j in team.thread_range(8):",
            "    bins[j] = 0",
            "team.barrier()",
            *self.share([*self.items(0, 1), f"pk.atomic_{word}(bins, ({where}) % 8, {value})"], "19"),
            "team.barrier()",
            "if team.single():",
            "    bins[0] += 1",
            "team.barrier()",
            f"w0 = pk.{self.dtypes['i']}((bins[0] + bins[5]) % 40)",
            "team.barrier()",
        ]

    def make_together(self, depth):
        """Draw a loop whose iterations all members execute, with collectives inside."""
        name = self.name("r")
        with self.scope(loop=True):
            self.leaves["i"].append(name)
            if self.chance(3):
                return [
                    f"{name} = 0",
                    f"while {name} < 3 and ({self.expr('c')}):",
                    *indented([f"{name} += 1", *self.block(depth - 1, 2)]),
                ]
            return [
                f"for {name} in range({self.pick(['2', 'row % 3', '1, 3', 'w0 % 3', '2, 0, -1'])}):",
                *indented(self.block(depth - 1, 2)),
            ]

    def make_assign(self, depth):
        return super().make_assign(depth) if self.variables["f"] else ["pass"]


@st.composite
def programs(draw):
    dtypes = draw_dtypes(draw)
    g = TeamGrammar(draw, dtypes)
    real, whole, unsigned = (f"pk.{dtypes[k]}" for k in "fiu")
    phases = g.block(2, 4)
    with g.at("item"):
        end = [
            *g.pick([[], [], g.make_leave(1), [f"if {g.expr('c')}:", "    return"]]),
            f"fo[row, j] = {g.expr('f')}",
            "io[row, j] = j + c + w0",
        ]
    body = [
        "unused = wide(team.rank)",
        f"old, new = team.scratch({LENGTH}, x.dtype), team.scratch({LENGTH}, x.dtype)",
        "slots = team.scratch(32, x.dtype)",
        "bins = team.scratch(8, pk.int32)",
        "row = team.league_rank",
        f"u0, v0, w0 = x[row, 0], x[row, 1], {whole}(row)",
        f"t, c, flag = x[row, 2], {whole}(team.rank), team.rank < 3",
        f"agreed, z, y = row == 1, {unsigned}(team.rank), {unsigned}(row)",
        f"for j in team.thread_range({LENGTH}):",
        "    old[j] = x[row, j]",
        "    new[j] = 0.0",
        "team.barrier()",
        *phases,
        f"u0 = {real}(u0)",
        f"for j in team.thread_range({LENGTH}):",
        *indented(end),
    ]
    text = HEADER + helpers(draw, dtypes, LENGTH) + REDUCERS
    text += "@pk.kernel\ndef kernel(team, x, k, kept, fo, io, pad):\n" + "\n".join(indented(body)) + "\n"
    rng, shape = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), (TEAMS, LENGTH)
    args = [
        (rng.integers(-16, 17, shape) / 8).astype(dtypes["f"]),
        rng.integers(0, LENGTH, shape).astype(dtypes["i"]),
        np.zeros((TEAMS, 32), dtypes["i"]),
        *(np.zeros(shape, dtypes[kind]) for kind in "fi"),
        np.zeros(1, np.int32),
    ]
    return Program("team", text, ("team", TEAMS), args)
