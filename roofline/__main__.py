"""Command line: `portable roofline {ceilings, report, show, compare, diff, versus, counters, validate,
scaleout, scoreboard, measured}`.

Exit codes: 0 everything was measured; 1 a method failed, a value disagreed, a time became slower (or could
not be shown not to be), or a file could not be written, and the measurements so far were kept; 2 the request
cannot be met and nothing was run; 130 interrupted, and the measurements so far were kept.
"""

from __future__ import annotations

import contextlib
import io
import sys

import portable as pk
from portable.errors import InputError, SpaceError
from portable.roofline import comparisons, figure, files, reports, compare_programs
from portable.roofline.options import parser
from portable.roofline.scoreboard.command import run_scoreboard

COMMANDS = {  # commands without a space, and, in ON_A_SPACE, those that are called with the requested one
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
    "versus": compare_programs.run_versus,
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
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
