"""The command `python -m portable.roofline scoreboard`: show the records, time a run, and record it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import portable as pk
from portable.errors import InputError
from portable.roofline import files, case_list, machine, revision, scoreboard
from portable.roofline.printing import exit_code, print_step, show_tables, warn_if_busy, write_json
from portable.roofline.scoreboard import headlines, records

SCHEMA_VERSION = 1


def run_scoreboard(options: Any, space: str) -> int:
    """Time the headlines against their peers, show and write the results; return the exit code.

    Parameters
    ----------
    options : argparse.Namespace
    space : str
        The resolved space.

    Raises
    ------
    InputError
        A record is damaged or about another kind of machine, no headline has a requested name, the space is
        an interpreter, or the checkout to be recorded has no commit.
    """
    case_list.check_checkout("scoreboard")
    found = _chosen(options.only, space)
    facts = machine.facts(space)
    kind, on = records.kind(facts), _space(space)
    path, document = _opened(options.records, kind)
    commit = _commit(options) if options.record else ""
    if options.record:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.check_writable("--records", path)
    warn_if_busy(facts)
    limit, minutes = scoreboard.LIMITS[on == "cuda"], scoreboard.MINUTES[on == "cuda"]
    rows = [scoreboard.Row(h, records.find(document, on, h.name, records.host(facts)), limit) for h in found]
    interrupted = _timed(rows, space, 60.0 * (options.minutes or minutes), options.record)
    show_tables(scoreboard.table(rows, f"{kind}, {on}"))
    print(scoreboard.summary(rows))
    kept = True
    if options.record and not interrupted:
        fresh = [row.as_record(on, facts, commit) for row in rows if row.sittings and not row.problem]
        kept = records.write(path, records.merged(document, facts, fresh))
    wrong = set(scoreboard.WRONG)
    if options.record:  # a changed peer is then recorded with its new identity
        wrong.remove(scoreboard.PEER_CHANGED)
    told = {"kind": kind, "space": on, "interrupted": interrupted, "rows": [row.as_dict() for row in rows]}
    told["passed"] = not any(row.verdict in wrong for row in rows)
    kept &= write_json(options, SCHEMA_VERSION, facts, **told)
    return exit_code(interrupted, kept and told["passed"])


def _chosen(only, space):
    """Return the headlines of a space whose names contain one of the strings `only`."""
    if space == "checked":
        raise InputError("--space: 'checked' is an interpreter, which is not timed. Name another.")
    names, known = [name.strip() for name in (only or "").split(",")], headlines.headlines_of(space)
    found = [h for h in known if any(name.lower() in h.name.lower() for name in names)]
    if not found:
        there = ", ".join(h.name for h in known)
        raise InputError(f"--only: no headline's name contains '{only}'; there are: {there}.")
    return found


def _timed(rows, space, seconds, recorded):
    """Time the rows, and print each; return True if that was interrupted."""
    try:
        scoreboard.run(
            rows,
            space,
            max(seconds - scoreboard.SPARE, 0.5 * seconds),
            scoreboard.RECORDED if recorded else 1,
            lambda row: print_step("; ".join(filter(None, row.cells))),
        )
    except KeyboardInterrupt:
        return True
    return False


def _space(space):
    """Return the space as records name it: with its threads, and without the number of a GPU."""
    if space.startswith("cuda"):
        return "cuda"
    with pk.use(space) as resolved:
        return space if space == "serial" else f"{space.partition(':')[0]}:{resolved.n_threads}"


def _opened(named, kind):
    """Return (path, document) of the records in `named`, by default of the project's record."""
    place = Path(named) if named else records.FOLDER
    if place.is_dir() or not place.suffix:
        if named and not place.is_dir():
            raise InputError(f"--records: the folder '{place}' does not exist. Make it first.")
        place = records.path_of(kind, place)
    return place, records.read(place, kind) if place.exists() else records.empty(kind)


def _commit(options):
    """Return the commit to record, with a + if files were changed since."""
    if options.commit:
        return options.commit
    try:
        now = revision.current()
    except OSError:
        now = {"commit": ""}
    if not now["commit"]:
        raise InputError(
            "--record: these files are no git checkout. Name the commit they are of by --commit."
        )
    return now["commit"][:8] + "+" * now["changed"]
