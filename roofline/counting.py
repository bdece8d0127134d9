"""`roofline.count`: the operations of one launch, of the text and executed, and the bytes that it must move.

Conventions. A floating-point operation (flop) is one of + - * / // % on floats; an fma is two. Negation, abs, min, max,
comparisons, selections and conversions are listed, and are no flops. A special function (exp, sqrt, a random number) is
one operation under its own name. What is known at compile time, and the counting of loops, is no operation of the text.
A team of the text has one member, who does all the work; where a kernel asks for its team's size, and a launch gives one,
members work as they do, and what is the same for all of a pack counts once.

Sums of a ScatterView are those of a copy that nobody shares: a load, an addition and a store. Three byte figures are kept apart: compulsory (of what is touched what is read, and what is written, once), requested (every
load and store) and transferred (which hardware alone can tell). Accesses to scratch and to a kernel's own small arrays
are none of these.
"""

import ast
import collections
import dataclasses
import functools
import os
from dataclasses import dataclass, field

from rich.table import Table

import portable as pk
from roofline.arguments import Data
from roofline.cost import disagreements
from roofline.mix import executed_totals, ptx_mix
from roofline.touched import SIZES, accesses, by_names, compulsory, scattered, summed

ARITHMETIC = {"+": 1, "-": 1, "*": 1, "/": 1, "//": 1, "%": 1, "fma": 2}
LISTED = ("compare", "neg", "abs", "min", "max", "select", "convert", "rint", "floor", "ceil", "trunc", "copysign")
LAYER = os.path.dirname(pk.count.__code__.co_filename) + os.sep  # the folder of portable's own texts
LINE = 64  # bytes that a CPU's cache moves at once
WARP = 32  # members that a GPU's smallest team has
ISSUED = "", "issued", ""  # of build "lanes": lanes that packs have
LOGIC = ("&", "|", "^", "<<", ">>", "~")


@dataclass(frozen=True)
class Counts:
    """Counts of one launch. Every number is counted, none is estimated.

    Attributes
    ----------
    kernel, place, policy : str
    text : dict of (line, operation, dtype) to int
        As `portable.count` gives them.
    executed : dict of (line, instruction, LLVM type) to int, or None
        Of the optimised code for the launch's space, including what the layer puts around the kernel.
    masked : float
        Share of the lanes of packs that took no part in the operations which were done for them; 0 without packs, so on
        cuda, where threads branch.
    arrays : dict of str to (read, written), bytes
        Compulsory bytes of each argument: of elements that are touched, once. Arguments that share memory are one: "x, y".
    ptx : dict of str to int, or None
        Static instructions of the PTX by kind and type (cuda).
    notes : list of str
        What a reader must know: data-dependent counts, declared costs that disagree, ...
    apart : int
        Elements that neighbouring threads reach at places that are no neighbours (cuda, without reducers).
    occupancy : str
        How many of a GPU's threads have room, and the registers of each, in words.
    lines : dict of str to (read, written)
        Lines of 64 bytes in which the touched elements lie, as `arrays`; where members work as a launch's do, none are counted.
    moves : dict of str to int
        Of each argument, how often an access was to another line than the one before it at the same place of the text.
    """

    kernel: str
    place: str
    policy: str
    text: dict
    executed: dict | None
    masked: float
    arrays: dict
    ptx: dict | None = None
    notes: list = field(default_factory=list)
    apart: int = 0
    occupancy: str = ""
    lines: dict = field(default_factory=dict)
    moves: dict = field(default_factory=dict)

    def _sum(self, wanted):
        return sum(n * wanted(operation, dtype) for (_, operation, dtype), n in self.text.items())

    @property
    def flops_by_dtype(self):
        """Floating-point operations of the text: {"float64": n, ...}."""
        found = collections.Counter()
        for (_, operation, dtype), n in self.text.items():
            if dtype.startswith("float") and operation in ARITHMETIC:
                found[dtype] += n * ARITHMETIC[operation]
        return dict(found)

    @property
    def flops(self):
        """Floating-point operations of the text, all precisions."""
        return sum(self.flops_by_dtype.values())

    @property
    def special(self):
        """Special functions: {("exp", "float64"): n, ...}."""
        found = collections.Counter()
        for (_, operation, dtype), n in self.text.items():
            if _is_special(operation):
                found[operation, dtype] += n
        return dict(found)

    @property
    def integer(self):
        """Integer operations of the text, index arithmetic included."""
        return self._sum(lambda operation, dtype: "int" in dtype and (operation in ARITHMETIC or operation in LOGIC))

    @property
    def comparisons(self):
        """Comparisons of the text, of all types."""
        return self._sum(lambda operation, _: operation == "compare")

    @property
    def atomics(self):
        """Atomic operations: {("add", "int64"): n, ...}."""
        found = collections.Counter()
        for (_, operation, dtype), n in self.text.items():
            if operation.startswith("atomic "):
                found[operation.split(" ")[1], dtype] += n
        return dict(found)

    @property
    def loaded(self):
        """Requested bytes: every load of an argument's element, atomics included."""
        return self._sum(lambda operation, dtype: accesses(operation, ("load ", "atomic ")) * SIZES.get(dtype, 0))

    @property
    def stored(self):
        """Requested bytes: every store, atomics included."""
        return self._sum(lambda operation, dtype: accesses(operation, ("store ", "atomic ")) * SIZES.get(dtype, 0))

    @property
    def scratch(self):
        """Bytes loaded from and stored to a team's scratch."""
        return self._sum(lambda operation, dtype: operation.endswith("(scratch)") * SIZES.get(dtype, 0))

    @property
    def compulsory(self):
        """Compulsory bytes: of each argument what is read, once, and what is written, once."""
        return sum(read + written for read, written in self.arrays.values())

    @property
    def line_bytes(self):
        """Bytes of the lines that must be moved, or of the elements where no lines were counted."""
        return LINE * sum(read + written for read, written in self.lines.values()) if self.lines else self.compulsory

    @property
    def intensity(self):
        """Flops per compulsory byte, or None where nothing is moved."""
        return self.flops / self.compulsory if self.compulsory else None

    @property
    def executed_totals(self):
        """Executed operations: flops by precision, special functions, loads and stores; None if not counted."""
        return executed_totals(self.executed) if self.executed is not None else None

    def by_line(self):
        """{line: {operation and dtype: n}} of the text, the lines in their order."""
        found = {}
        for (line, operation, dtype), n in self.text.items():
            row = found.setdefault(line, collections.Counter())
            row[f"{operation} {dtype}".strip()] += n
        return {line: dict(found[line]) for line in sorted(found, key=_line_order)}

    def table(self):
        """The terminal's table, and a notebook's."""
        table = Table(
            title=f"{self.kernel}, {self.policy}",
            title_justify="left",
            caption_justify="left",
            caption="; ".join([*self.explanation(), *self.notes]),
        )
        table.add_column("counted")
        table.add_column("", justify="right")
        named = [(f"flops {dtype}", n) for dtype, n in self.flops_by_dtype.items()]
        named += [(" ".join(key), n) for key, n in self.special.items()]
        named += [(f"atomic {' '.join(key)}", n) for key, n in self.atomics.items()]
        named += [
            ("integer operations", self.integer),
            ("comparisons", self.comparisons),
            ("bytes, compulsory", self.compulsory),
            ("bytes, in lines touched", self.line_bytes),
            ("bytes, loaded", self.loaded),
            ("bytes, stored", self.stored),
            ("bytes, scratch", self.scratch),
        ]
        for name, n in named:
            table.add_row(name, f"{n:,}")
        return table

    def explanation(self):
        """Sentences on why executed flops are not those of the text."""
        if self.executed is None:
            return ["executed operations were not counted"]
        flops, executed = self.flops, sum(self.executed_totals["flops"].values())
        sentences = [f"executed: {executed:,} flops; of the text: {flops:,}"]
        if self.masked > 0:  # also where no flop but an exp is concerned
            sentences.append(f"{self.masked:.2%} of the lanes were masked off, and computed all the same")
        if executed < flops:
            sentences.append("what is the same for all lanes, or for all trips of a loop, is computed once")
        if executed > flops and self.ptx is None:
            sentences += self._more()
        if executed > flops and self.ptx is not None:
            sentences.append("partial sums of threads, warps and blocks are combined, by every thread of them")
        return sentences

    def _more(self):
        """Where the compiled code of a CPU does more flops than the text: around it, or in the line with most of them."""
        more = collections.Counter()  # by line, those of the layer's own together
        for (line, operation, dtype), n in self.text.items():
            more[_own(line)] -= n * ARITHMETIC.get(operation, 0) * dtype.startswith("float")
        for key, n in self.executed.items():
            more[_own(key[0])] += sum(executed_totals({key: n})["flops"].values())
        if (around := more.pop("", 0)) > 0:
            yield f"partial sums of packs, blocks and teams are combined: {around:,} flops more"
        line = max(more, key=more.get, default="")
        if more[line] > 0:
            yield f"line {line.rpartition(':')[2]}: {more[line]:,} flops more, of lanes that are masked off, that fill a pack, or that compute the same"

    def as_dict(self):
        """The JSON object."""
        return {
            "kernel": self.kernel,
            "place": self.place,
            "policy": self.policy,
            "provenance": "counted",
            "flops": self.flops_by_dtype,
            "special": _joined(self.special),
            "integer": self.integer,
            "comparisons": self.comparisons,
            "atomics": _joined(self.atomics),
            "bytes": {
                "compulsory": self.compulsory,
                "lines": self.line_bytes,
                "loaded": self.loaded,
                "stored": self.stored,
                "scratch": self.scratch,
            },
            "lines": self.by_line(),
            "executed": self.executed_totals,
            "masked_lanes": self.masked,
            "ptx": self.ptx,
            "notes": self.notes,
        }


def _joined(pairs):
    return {" ".join(key): n for key, n in pairs.items()}


def _own(line):
    """A line of a kernel, or "" for the layer's own."""
    return "" if line.startswith(LAYER) else line


def _line_order(line):
    file, _, number = line.rpartition(":")
    return file, int(number or 0)


def _is_special(operation):
    return not (
        operation in ARITHMETIC
        or operation in LISTED
        or operation in LOGIC
        or operation.startswith("team.")
        or operation.startswith(("load ", "store ", "atomic "))
    )


def count(policy, kernel, *args, reducer=(), scan=None, executed=True):
    """Count the operations of one launch, without hardware counters.

    The launch runs in builds of its own; what it wrote is undone afterwards, so that the arguments are as before. The text
    is counted on the host, with copies of the views that lie on a device, for a text does the same operations on every
    space; executed operations are counted where the launch would run, in the code that the optimiser made for it.

    Parameters
    ----------
    policy, kernel, *args : as in portable.parallel_for
    reducer : Reducer or tuple of Reducers, for a parallel_reduce or parallel_scan
        Its combine step counts once an index.
    scan : "inclusive" or "exclusive", optional
        The last argument is then the scan's `out`.
    executed : bool
        Also count the instructions of the optimised code and masked lanes: two runs more.

    Returns
    -------
    Counts

    Raises
    ------
    KernelError, InputError, SpaceError
        As a launch would.
    """
    wanted, space = _on_host(policy)
    on_device = space.startswith("cuda")
    data = Data(args, executed, with_room=on_device and _as_many_members(kernel, wanted))
    notes = data.notes
    with data:
        text, touched, moves = _text(wanted, kernel, data.args, reducer, scan, on_device)
        if not reducer:
            text = summed(text, set(scattered(_names(kernel, wanted), args)))
        if branches(kernel):
            notes.append("the text has conditions: the counts are of these data" + _changes(text))
        masked, instructions = 0.0, None
        if executed and not on_device:
            masked = _masked(wanted, kernel, data, reducer, scan)
            data.restore()
            instructions = pk.count(wanted, kernel, *args, reducer=reducer, scan=scan, build="executed")
    ptx, apart, occupancy = None, 0, ""
    if on_device:
        ptx = ptx_mix(pk.listing(policy, kernel, *args, reducer=reducer, scan=scan))
        if not reducer:
            apart, occupancy = _explained(pk.explain(policy, kernel, *args), text)
    if executed and on_device:
        with data.on_device():
            instructions = pk.count(policy, kernel, *args, reducer=reducer, scan=scan, build="executed")
    counts = Counts(
        kernel.name,
        kernel.place,
        in_words(wanted),
        text,
        instructions,
        masked,
        compulsory(text, touched, _names(kernel, wanted), args),
        ptx,
        notes,
        apart,
        occupancy,
        {names: (read, written) for names, (_, (read, written)) in touched.items()},
        moves,
    )
    quantities = {"flops": counts.flops, "bytes": counts.compulsory, "special": sum(counts.special.values())}
    notes += disagreements(kernel, _extent(wanted), args, quantities)
    return counts


def mean(weighted):
    """The Counts of a launch in the mean: of a list of (weight, Counts) of one kernel and policy."""
    first, total = weighted[0][1], sum(weight for weight, _ in weighted)
    if len(weighted) == 1:
        return first

    def of(quantity):
        sums = collections.Counter()
        for weight, counts in weighted:
            for key, n in quantity(counts).items():
                sums[key] += weight * n
        return {key: round(n / total) for key, n in sums.items()}

    counted_executed = all(counts.executed is not None for _, counts in weighted)

    def both_ways(name):
        ways = [of(lambda counts, way=way: {key: both[way] for key, both in getattr(counts, name).items()}) for way in (0, 1)]
        return {key: (ways[0][key], ways[1][key]) for key in ways[0]}

    notes = list(dict.fromkeys(note for _, counts in weighted for note in counts.notes))
    return dataclasses.replace(
        first,
        text=of(lambda counts: counts.text),
        executed=of(lambda counts: counts.executed) if counted_executed else None,
        masked=sum(weight * counts.masked for weight, counts in weighted) / total,
        arrays=both_ways("arrays"),
        lines=both_ways("lines"),
        moves=of(lambda counts: counts.moves),
        apart=round(sum(weight * counts.apart for weight, counts in weighted) / total),
        notes=[*notes, f"the mean of {len(weighted):,} counts: launches of this kind differ"],
    )


def _explained(found, text):
    """(elements at scattered places, occupancy in words) of a launch that a device's compiler tells of."""
    scattered = {(a.line, a.view) for a in found.accesses if a.how.startswith("strided")}
    apart = sum(n for (line, operation, _), n in text.items()
                if accesses(operation, ("load ", "store ", "atomic ")) and (line, operation.rpartition(" ")[2]) in scattered)
    registers, room = found.facts.get("registers a thread"), found.facts.get("occupancy", "").partition(" ")[0]
    return apart, f"{registers} registers a thread leave room for {room} of its threads" if room else ""


def _on_host(policy):
    """The policy on a space of the host, and the name of its own space."""
    policy = pk.RangePolicy(0, policy) if isinstance(policy, int) else policy
    space = getattr(policy, "space", None)
    with pk.use(space if space is not None else pk.default_space()) as here:
        pass
    host = here if here.name in ("serial", "threads") else pk.Threads()
    return (dataclasses.replace(policy, space=host) if dataclasses.is_dataclass(policy) else policy), str(here)


def _text(policy, kernel, args, reducer, scan, on_device):
    """(counts of the text, what of its arguments is touched, moves from line to line); those of a scan are a reduction's, and a store of each prefix.

    Touched: {names: ((bytes read, written), (lines read, written))} of the arguments that share memory.
    """
    build = "touched"
    if _as_many_members(kernel, policy):
        build = "lanes"  # its arrays may fit teams of the size that was asked for, and no others
        if on_device and policy.team_size <= WARP:
            build = f"lanes:{WARP}"
    found = pk.count(policy, kernel, *_inputs(args, scan), reducer=reducer, build=build)
    marks = {key: found.pop(key) for key in list(found) if not key[0]}
    for out in () if not scan else args[-1] if isinstance(args[-1], tuple) else args[-1:]:
        key = kernel.place, "store out", out.dtype.name
        found[key] = found.get(key, 0) + policy.end - policy.begin
    return found, dict(by_names(marks)), {what.removeprefix("moves "): n for (_, what, _), n in marks.items() if what.startswith("moves ")}


def _inputs(args, scan):
    """The arguments that a text knows: not where a scan writes."""
    return args[:-1] if scan else args


def _as_many_members(kernel, policy):
    """Whether a kernel's work is laid out for teams of the size that a launch asks for."""
    return isinstance(policy, pk.TeamPolicy) and policy.team_size is not pk.AUTO and _asks_for_size(kernel)


def _asks_for_size(kernel):
    """True where a text, or a function that it calls, reads how many members its team has."""
    texts, seen = [kernel.portable_text], set()
    while texts:
        text = texts.pop()
        if id(text) in seen:
            continue
        seen.add(id(text))
        for node in ast.walk(text.tree):
            if isinstance(node, ast.Attribute) and node.attr == "size":
                return True
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).split(".")
                called = functools.reduce(lambda a, b: getattr(a, b, None), name[1:], text.scope.get(name[0]))
                texts += [called.portable_text] if hasattr(called, "portable_text") else []
    return False


def _masked(policy, kernel, data, reducer, scan):
    """The share of lanes that did nothing of what was done for them."""
    data.restore()
    found = pk.count(policy, kernel, *_inputs(data.args, scan), reducer=reducer, build="lanes")
    issued = found.pop(ISSUED, 0)
    return 1.0 - sum(found.values()) / issued if issued else 0.0


@functools.cache
def branches(kernel):
    """True where a text decides by values what it does."""
    return any(isinstance(node, (ast.If, ast.While, ast.IfExp)) for node in ast.walk(kernel.portable_text.tree))


def _changes(text):
    """What to add where a launch writes what it reads. A second run would tell more, and may write where there is no room:
    what appends to an array goes on behind its end."""
    read, written = ({operation.split(" ")[-1] for _, operation, _ in text if accesses(operation, words)}
                     for words in (("load ", "atomic "), ("store ", "atomic ")))  # fmt: skip
    names = ", ".join(f"'{name}'" for name in sorted(read & written))
    return f", and the launch itself changes {names}: another one may count otherwise" if names else ""


def _extent(policy):
    """The number of indices or teams; of a box the tuple of its extents."""
    if isinstance(policy, pk.TeamPolicy):
        return policy.league_size
    return policy.extents if isinstance(policy, pk.MDRangePolicy) else policy.end - policy.begin


def in_words(policy):
    """The size of a policy: "1,000 indices", "20 teams"."""
    extent = _extent(policy)
    sizes = " x ".join(f"{n:,}" for n in (extent if isinstance(extent, tuple) else (extent,)))
    return f"{sizes} {'teams' if isinstance(policy, pk.TeamPolicy) else 'indices'}"


def _names(kernel, policy):
    """Of the arguments behind the index or the team."""
    n_indices = len(policy.begin) if isinstance(policy, pk.MDRangePolicy) else 1
    return [*kernel.portable_text.params[n_indices:], "out"]
