"""The command line's options: a row for each, with the commands that have it."""

import argparse

import portable as pk
from portable.roofline import listed

MINUTES = 10.0  # that a comparison of revisions takes at most
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
    """A whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def positive_number(text):
    """A finite number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _file(commands, name, help):
    return commands, name, {"metavar": "FILE", "help": help}


def _flag(commands, name, help):
    return commands, name, {"action": "store_true", "help": help}


OPTIONS = (
    (
        "report",
        "script",
        {
            "nargs": "?",
            "help": "a program whose launches are reported instead of the methods, or FILE.py::kernel",
        },
    ),
    (
        "report",
        "arguments",
        {
            "nargs": argparse.REMAINDER,
            "help": (
                "the program's own; of a kernel: [NAME=VALUE,... to sweep over] POLICY ARGUMENT ..., Python"
                " expressions"
            ),
        },
    ),
    (
        "report",
        "--data",
        {
            "metavar": "FOLDER",
            "help": "folder of real data, holding hawkes/ (default: PORTABLE_DATA, else simulated)",
        },
    ),
    (
        "report",
        "--out",
        {"metavar": "FILE", "default": "roofline-report.html", "help": "the page (default: %(default)s)"},
    ),
    _flag("report", "--all", "also what methods do beside: with it every kernel of the models is there"),
    ("report", "--only", {"metavar": "TEXT", "help": "the methods whose names contain this"}),
    _flag("report", "--quick", "tiny inputs: shows that everything runs, measures nothing of worth"),
    (
        "report",
        "--space",
        {
            "metavar": "NAMES",
            "help": "execution spaces, as in threads,cuda (default: threads, and cuda where there is one)",
        },
    ),
    ("show", "reports", {"metavar": "REPORT", "nargs": "+", "help": "written by report --json"}),
    _file("show diff", "--out", "also write the page"),
    _file("measured", "--out", "the page (default: docs/measured.md)"),
    _file("report show diff", "--svg", "also write the plots alone, for papers"),
    _file("report show diff", "--pdf", "the same as PDF (by svglib)"),
    _file("report", "--trace", "also write a time line of the launches, for ui.perfetto.dev"),
    _flag("ceilings", "--fresh", "measure anew, whatever was kept"),
    _flag("ceilings", "--quick", "tiny measurements: shows that everything runs"),
    ("compare", "case", {"choices": listed.COMPARED}),
    ("compare", "--n", {"type": positive, "help": "size (default: the case's own)"}),
    (
        "compare",
        "--rounds",
        {"type": positive, "help": "samples a side (default: 7, or 3 of slow ones)"},
    ),
    _flag("compare", "--quick", "tiny inputs: shows that everything runs"),
    (
        "compare",
        "--against",
        {
            "metavar": "REV",
            "help": "instead of peers, another commit, in its own process",
        },
    ),
    (
        "compare",
        "--minutes",
        {
            "type": positive_number,
            "help": f"with --against: no rounds after this long (default: {MINUTES:g})",
        },
    ),
    ("diff", "before", {"metavar": "BEFORE", "help": "written by report --json"}),
    ("diff", "after", {"metavar": "AFTER"}),
    _flag("diff", "--across", "the reports may be of different machines"),
    (
        "validate",
        "--seed",
        {"type": int, "help": "of the pairs' sizes and data (default: another each time)"},
    ),
    (
        "validate",
        "--only",
        {
            "metavar": "TEXT,...",
            "help": "the pairs whose name, or planted cause, contains one of these",
        },
    ),
    _flag("validate", "--quick", "tiny inputs: shows that everything runs, and judges nothing of worth"),
    (
        "scoreboard",
        "--minutes",
        {"type": positive_number, "help": "it ends by then (default: 6 on a GPU, 10 on a CPU)"},
    ),
    (
        "scoreboard compare",
        "--only",
        {"metavar": "TEXT,...", "help": "headlines or kernels whose names contain one of these"},
    ),
    _flag("scoreboard compare", "--record", "put what was seen on record"),
    (
        "scoreboard compare measured",
        "--records",
        {"metavar": "FOLDER", "help": "of records, or one's file (default: docs/records)"},
    ),
    (
        "scoreboard compare",
        "--commit",
        {"metavar": "HASH", "help": "of what is recorded, outside git"},
    ),
    ("scaleout", "--cores", {"type": positive, "help": "of this machine that workers share (default: all)"}),
    (
        "scaleout",
        "--faster",
        {
            "type": positive_number,
            "default": 100.0,
            "help": "how many times a core of this machine a place of the prediction is "
            "(default: %(default)g, an assumption)",
        },
    ),
    _flag("scaleout", "--quick", "tiny inputs, two workers at most: shows that everything runs"),
    (
        "ceilings compare scoreboard validate versus",
        "--space",
        {"metavar": "NAME", "help": "execution space (default: the layer's own choice)"},
    ),
    _file(
        "report ceilings compare scoreboard counters validate versus",
        "--json",
        "also write the numbers as JSON",
    ),
    _file("show", "--json", "also write them as one report"),
    _file("report show", "--csv", "also write the rows as CSV"),
    _file("report", "--baseline", "compare with the report that this file holds; made where it is not there"),
    (
        "report versus",
        "--wait",
        {
            "type": positive_number,
            "metavar": "SECONDS",
            "help": "wait so long at most until the machine is quiet",
        },
    ),
    ("versus", "old", {"metavar": "OLD.py", "help": "a program"}),
    ("versus", "new", {"metavar": "NEW.py", "help": "another version of it"}),
    ("versus", "arguments", {"nargs": argparse.REMAINDER, "help": "of both programs"}),
    ("versus", "--rounds", {"type": positive, "default": 7, "help": "runs of each (default: %(default)s)"}),
    (
        "versus",
        "--threshold",
        {
            "type": positive_number,
            "default": 1.05,
            "help": "times as long, from which the exit code is 1 (default: %(default)s)",
        },
    ),
)


def parser():
    """The parser of the command line; `command` of what it gives is the command's name."""
    made = argparse.ArgumentParser(
        prog="portable roofline", description="How fast the methods run here, and against what."
    )
    made.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND", dest="command")
    of = {name: commands.add_parser(name, help=told) for name, told in COMMANDS.items()}
    for names, option, how in OPTIONS:
        for name in names.split():
            of[name].add_argument(option, **how)
    return made
