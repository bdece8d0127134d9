"""The command `python -m portable.roofline scoreboard`: what is on record, a run, and what goes on record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import portable as pk
from portable.errors import InputError
from portable.roofline import files, machine, revision, scoreboard
from portable.roofline.scoreboard import headlines, records
from portable.roofline.units import picked

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Standing:
    """Result of a run.

    Parameters
    ----------
    kind : str
        The kind of machine.
    space : str
    facts : dict
    path : Path
        Of the records.
    records : str
        What stands there once it was recorded.
    rows : list of Row
    interrupted : bool
    recording : bool
        A peer that changed is then what is recorded.
    """

    kind: str
    space: str
    facts: dict[str, Any]
    path: Path
    records: str
    rows: list[scoreboard.Row]
    interrupted: bool
    recording: bool

    @property
    def passed(self) -> bool:
        """Return True if no row is slower, failed or stands beside another peer than the record's."""
        wrong = set(scoreboard.WRONG) - ({scoreboard.PEER_CHANGED} if self.recording else set())
        return not any(row.verdict in wrong for row in self.rows)

    @property
    def table(self):
        """The terminal's table."""
        return scoreboard.table(self.rows, f"{self.kind}, {self.space}")

    @property
    def summary(self) -> str:
        """The whole in a sentence."""
        return scoreboard.summary(self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        rows = [row.as_dict() for row in self.rows]
        return picked(self, "kind space interrupted passed") | {"rows": rows}


def command(options: Any, space: str, warn: Callable[[dict], None], say: Callable[[str], None]) -> Standing:
    """Run the scoreboard.

    Parameters
    ----------
    options : argparse.Namespace
    space : str
        The resolved space.
    warn : callable of facts
        Told the machine's facts before anything is timed.
    say : callable of str
        Told a line on each row.

    Raises
    ------
    InputError
        A record is damaged or about another kind of machine, no headline has such a name, the space is an
        interpreter, or what is recorded has no commit.
    """
    if space == "checked":
        raise InputError(
            "--space: 'checked' is an interpreter, which is compared with nothing. Name another."
        )
    names = [name.strip() for name in (options.only or "").split(",")]
    found = [h for h in headlines.of(space) if any(name.lower() in h.name.lower() for name in names)]
    if not found:
        known = ", ".join(h.name for h in headlines.of(space))
        raise InputError(f"--only: no headline's name contains '{options.only}'; there are: {known}.")
    facts = machine.facts(space)
    kind, on = records.kind(facts), _space(space)
    path, document = _opened(options.records, kind)
    commit = _commit(options) if options.record else ""
    if options.record:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.check_writable("--records", path)
    warn(facts)
    limit, minutes = scoreboard.LIMITS[on == "cuda"], scoreboard.MINUTES[on == "cuda"]
    rows = [scoreboard.Row(h, records.find(document, on, h.name, records.host(facts)), limit) for h in found]
    seconds = 60.0 * (options.minutes or minutes)
    passes, interrupted = scoreboard.RECORDED if options.record else 1, False
    try:
        scoreboard.run(
            rows,
            space,
            max(seconds - scoreboard.SPARE, 0.5 * seconds),
            passes,
            lambda row: say("; ".join(filter(None, row.cells))),
        )
    except KeyboardInterrupt:
        interrupted = True
    fresh = [row.as_record(on, facts, commit) for row in rows if row.sittings and not row.problem]
    text = json.dumps(records.merged(document, facts, fresh), indent=1, allow_nan=False, ensure_ascii=False)
    return Standing(kind, on, facts, path, text + "\n", rows, interrupted, bool(options.record))


def _space(space):
    """Return the space as it stands on record: with its threads, and any GPU of the machine as the
    other."""
    if space.startswith("cuda"):
        return "cuda"
    with pk.use(space) as resolved:
        return space if space == "serial" else f"{space.partition(':')[0]}:{resolved.n_threads}"


def _opened(named, kind):
    """(path, document) of the records that were named, of the project's own otherwise."""
    place = Path(named) if named else records.FOLDER
    if place.is_dir() or not place.suffix:
        if named and not place.is_dir():
            raise InputError(f"--records: the folder '{place}' does not exist. Make it first.")
        place = records.path_of(kind, place)
    return place, records.read(place, kind) if place.exists() else records.empty(kind)


def _commit(options):
    """Return the commit that is recorded, with a + where files were changed since."""
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
