"""The command line's options: a row for each, with the commands that accept it."""

import argparse

import portable as pk
from portable.errors import nearest
from portable.roofline import case_list

COMMANDS = {
    "report": "time every method; print a table and write an offline page",
    "show": "show saved reports, several side by side: of a CPU and a GPU, say",
    "versus": "time two versions of a program in turn; exit with 1 if the new one is slower",
    "ceilings": "measure what this machine can do, or show what was measured",
    "compare": "time ours against hand-written peers, or another revision, alternating",
    "diff": "compare two saved reports; exit with 1 if something got slower",
    "counters": "executed operations beside those of a GPU's own counters (ncu)",
    "validate": "hold the reports' reasons against pairs of kernels with a planted cause",
    "scoreboard": "time every headline beside its peer, and hold it against what is on record",
    "measured": "make the page of all figures, docs/measured.md, from the records",
    "scaleout": "measure workers of dask.distributed here, and predict thousands of places from that",
}


def positive(text):
    """Return a whole number that is at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def positive_number(text):
    """Return a finite number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


# commands | option, and its default after "=" | its name in help, or a key of KINDS | help
OPTIONS = """
report | script | ? | a program whose launches are reported instead of the methods, or FILE.py::kernel
report | arguments | ... | the program's own; of a kernel: [NAME=VALUE,... to sweep over] POLICY \
ARGUMENT ..., Python expressions
report | --data | FOLDER | folder of real data, holding hawkes/ (default: PORTABLE_DATA, else simulated)
report | --out=roofline-report.html | FILE | the page (default: %(default)s)
report | --all | flag | also what methods do beside: with it every kernel of the models is there
report | --only | TEXT | the methods whose names contain this
report ceilings compare | --quick | flag | tiny inputs: shows that everything runs, measures nothing of worth
report | --space | NAMES | execution spaces, as in threads,cuda (default: threads, and cuda where it is)
show | reports | + | written by report --json
show diff | --out | FILE | also write the page
measured | --out | FILE | the page (default: docs/measured.md)
report show diff | --svg | FILE | also write the plots alone, for papers
report show diff | --pdf | FILE | the same as PDF (by svglib)
report | --trace | FILE | also write a time line of the launches, for ui.perfetto.dev
ceilings | --fresh | flag | measure again, ignoring stored ceilings
compare | case | case | what is timed: %(choices)s
compare | --n | count | size (default: the case's own)
compare | --rounds | count | samples a side (default: 7, or 3 of slow ones)
compare | --against | REV | instead of peers, another commit, in its own process
compare | --minutes | number | with --against: no rounds after this long (default: 10)
diff | before | BEFORE | written by report --json
diff | after | AFTER | another one
diff | --across | flag | the reports may be of different machines
validate | --seed | seed | of the pairs' sizes and data (default: another each time)
validate | --only | TEXT,... | the pairs whose name, or planted cause, contains one of these
validate | --quick | flag | tiny inputs: shows that everything runs, and judges nothing of worth
scoreboard | --minutes | number | it ends by then (default: 6 on a GPU, 10 on a CPU)
scoreboard compare | --only | TEXT,... | headlines or kernels whose names contain one of these
scoreboard compare | --record | flag | put what was seen on record
scoreboard compare measured | --records | FOLDER | of records, or one's file (default: docs/records)
scoreboard compare | --commit | HASH | of what is recorded, outside git
scaleout | --quick | flag | tiny inputs, two workers at most: shows that everything runs
ceilings compare scoreboard validate versus | --space | NAME | execution space (default: the layer's choice)
report ceilings compare scoreboard counters validate versus | --json | FILE | also write the numbers as JSON
show | --json | FILE | also write them as one report
diff scaleout | --json | FILE | also write the tables as JSON
report show | --csv | FILE | also write the rows as CSV
report | --baseline | FILE | compare with the report that this file holds; made where it is not there
report versus | --wait | number | wait so many seconds at most until the machine is quiet
versus | old | OLD.py | a program
versus | new | NEW.py | another version of it
versus | arguments | ... | of both programs
versus | --rounds=7 | count | runs of each (default: %(default)s)
versus | --threshold=1.05 | number | times as long, from which the exit code is 1 (default: %(default)s)
"""
KINDS = {
    "flag": {"action": "store_true"},
    "?": {"nargs": "?"},
    "+": {"nargs": "+"},
    "...": {"nargs": argparse.REMAINDER},
    "case": {"choices": case_list.COMPARED, "metavar": "CASE"},
    "count": {"type": positive, "metavar": "N"},
    "number": {"type": positive_number, "metavar": "X"},
    "seed": {"type": int, "metavar": "N"},
}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        super().error(nearest(message))


def parser():
    """Return the parser of the command line; the attribute `command` of its result is the command's name."""
    words = "How fast the methods run here, and against what."
    made = _Parser(prog="portable roofline", description=words)
    made.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND", dest="command")
    of = {name: commands.add_parser(name, help=told) for name, told in COMMANDS.items()}
    for row in OPTIONS.strip().splitlines():
        names, option, kind, told = row.split(" | ")
        option, _, default = option.partition("=")
        how = KINDS.get(kind, {"metavar": kind}) | ({"default": default} if default else {})
        for name in names.split():
            of[name].add_argument(option, help=told, **how)
    for one in of.values():
        one.add_argument("--quiet", action="store_true", help="print only errors and warnings")
    return made
