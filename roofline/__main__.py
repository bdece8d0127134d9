"""Command line: `portable roofline {ceilings, report, show, compare, diff, versus, counters, validate,
scaleout, scoreboard, measured}`.

Exit codes: 0 all was measured; 1 some method failed, a value disagreed, something got slower (or could not be
shown not to be), or a file could not be written, and what was measured was kept; 2 the request cannot be met,
nothing was run; 130 interrupted, what was measured was kept.
"""

from __future__ import annotations

import contextlib
import io
import sys

import portable as pk
from portable.errors import InputError, SpaceError
from portable.roofline import comparisons, figure, files, reports, versus
from portable.roofline.options import parser
from portable.roofline.scoreboard.command import run_scoreboard

COMMANDS = {  # and those that are given the space that was asked for
    "report": reports.report,
    "show": reports.show,
    "diff": reports.compare_reports,
    "counters": comparisons.read_counters,
    "scaleout": comparisons.predict_scaleout,
    "measured": comparisons.write_measured,
}
ON_A_SPACE = {
    "ceilings": comparisons.show_ceilings,
    "compare": comparisons.compare_sides,
    "validate": comparisons.run_validate,
    "scoreboard": run_scoreboard,
    "versus": versus.run_versus,
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(argv)
    try:
        for option in ("out", "json", "csv", "svg", "pdf", "trace", "baseline"):
            if getattr(options, option, None):
                files.check_writable(f"--{option}", getattr(options, option))
        if getattr(options, "pdf", None):
            figure.check()
        with contextlib.redirect_stdout(io.StringIO()) if options.quiet else contextlib.nullcontext():
            if options.command in COMMANDS:
                return COMMANDS[options.command](options)
            with pk.use(options.space or pk.default_space()) as space:
                return ON_A_SPACE[options.command](options, str(space))
    except (InputError, SpaceError) as error:
        print(f"roofline: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
