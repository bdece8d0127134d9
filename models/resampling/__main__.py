"""Command line: `python -m models.resampling experiment`, the paper's study on this machine."""

import argparse
import pathlib
import sys

import portable as pk
from portable.errors import PortableError

from .study import ROW, decisions, load, save, study, write


def main(argv=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m models.resampling")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    made = commands.add_parser("experiment", help="bias, error and time of every scheme; figures, and a table for method='auto'")
    made.add_argument("--space", action="append", metavar="NAME", help="where to run; may be repeated (default: all but serial)")
    made.add_argument("--largest", type=int, default=22, metavar="P", help="up to N = 2^P (default: %(default)s)")
    made.add_argument("--runs", type=int, default=16, metavar="K", help="replicates of a cell (default: %(default)s)")
    made.add_argument("--out", default="resampling-study", metavar="FOLDER", help="default: %(default)s; what its study.json holds is not computed again")
    made.add_argument("--quick", action="store_true", help="N = 2^4 to 2^8, three values of y: shows that everything runs")
    options = parser.parse_args(argv)
    if not 4 <= options.largest <= 30 or options.runs < 1:
        parser.error(f"--largest is {options.largest} and --runs {options.runs}; 4 to 30 and at least 1 are wanted")
    spaces = options.space or [s for s in ("threads", "cuda") if pk.unavailable_because(s) is None]
    sizes = [1 << p for p in range(4, (8 if options.quick else options.largest) + 1, 2)]
    ys = [0.0, 2.0, 4.0] if options.quick else [0.5 * k for k in range(9)]
    print("scheme       where         N    y     MSE/N bias/MSE    seconds")
    try:
        before = pathlib.Path(options.out) / "study.json"
        known = load(before) if before.exists() else []
        for cell in study(spaces, sizes, ys, options.runs, known):
            print(ROW.format(**cell), flush=True)
            if cell not in known:
                known.append(cell)
                save(known, options.out)
        for path in write(known, options.out):
            print(f"wrote {path}")
    except (PortableError, OSError, ImportError) as error:
        print(f"resampling: {error}", file=sys.stderr)
        return 1
    for kind, best in decisions(known).items():
        names = sorted(set(best.values()))
        print(f"fastest, {kind}: " + "; ".join(f"{name} in {list(best.values()).count(name)} of {len(best)} cells" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
