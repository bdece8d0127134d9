"""`python -m portable.roofline compare NAME`: time this project's version against its peers, alternating."""

from dataclasses import dataclass, field

from portable.roofline.grid import grid

from portable.roofline import timing
from portable.roofline.contract import Duel
from portable.roofline.timing import Samples
from portable.roofline.units import finite, in_words, one_line, picked, relative_difference, scaled

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Row:
    """Store the times of this project's version and of one peer, and peer time over our time of each
    round."""

    peer: str
    ours_seconds: Samples
    peer_seconds: Samples
    ratio: Samples
    difference: float | None

    @property
    def best(self):
        """The peer's best time over our best time."""
        return min(self.peer_seconds.values) / min(self.ours_seconds.values)

    def as_dict(self):
        """Return the row as a JSON object."""
        return {
            "peer": self.peer,
            "ours_seconds": self.ours_seconds.as_dict(),
            "peer_seconds": self.peer_seconds.as_dict(),
            "peer_over_ours": self.ratio.as_dict(),
            "best_over_best": self.best,
            "relative_difference": finite(self.difference),
        }


@dataclass
class Outcome:
    """Collect a duel's rows, and the peers without a result, each with its reason."""

    duel: Duel
    rows: list[Row] = field(default_factory=list)
    alone: Samples | None = None  # our seconds, if no peer could run
    ceiling: float | None = None
    told: str | None = None
    absent: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self):
        """Return the duel as a JSON object."""
        return {
            **picked(self.duel, "title tolerance bytes flops"),
            **picked(self, "ceiling told problems"),
            "ours": self.duel.ours.label,
            "alone_seconds": self.alone.as_dict() if self.alone else None,
            "rows": [row.as_dict() for row in self.rows],
            "absent": [{"peer": peer, "reason": reason} for peer, reason in self.absent],
        }

    def rate(self, work):
        """Return our work per second, by the best of the medians; None if the duel states no work."""
        medians = [row.ours_seconds.median for row in self.rows] + ([self.alone.median] if self.alone else [])
        return work / min(medians) if work and medians else None

    def told_row(self, row):
        """Return one line on a row, to be shown before the table is complete."""
        times = f"ours {scaled(row.ours_seconds.median, 's')}, peer {scaled(row.peer_seconds.median, 's')}"
        return f"{self.duel.title}: {row.peer}: {times}, peer / ours {row.ratio.median:.3g}"

    def table(self):
        """Return the table for the terminal."""
        caption = "times: median (quartiles); peer / ours: above 1, ours is faster"
        if rate := self.rate(self.duel.bytes):
            caption += f"; ours moves {scaled(rate, 'B/s')}"
        if rate := self.rate(self.duel.flops):
            caption += f"; ours does {scaled(rate, 'FLOP/s')}"
            if self.ceiling:
                share = rate / self.ceiling
                caption += f", {share:.0%} of the ceiling of {scaled(self.ceiling, 'FLOP/s')}"
        if self.told:
            caption += f"\n{self.told}"
        rows = []
        for row in self.rows:
            ratios = [f"{row.ratio.median:.3g} ({row.ratio.lower:.3g} to {row.ratio.upper:.3g})"]
            ratios += [f"{row.best:.3g}"] if self.duel.best else []
            difference = "" if row.difference is None else f"{row.difference:.1e}"
            rows.append(
                (row.peer, in_words(row.ours_seconds), in_words(row.peer_seconds), *ratios, difference)
            )
        if self.alone:
            rows.append(("none here", in_words(self.alone)))
        best = "|best / best" if self.duel.best else ""
        columns = f"peer<|ours: {self.duel.ours.label}|the peer|peer / ours{best}|difference"
        return grid(self.duel.title, columns, rows, caption)


def run(
    duel: Duel, rounds: int | None, outcome: Outcome, on_start=lambda label: None, on_row=lambda row: None
):
    """Time ours against each peer in turn: ours, peer, ours, peer, ...

    A peer that raises is listed as absent with its error; one whose result disagrees beyond the duel's
    tolerance is a problem, because its time is meaningless.

    Parameters
    ----------
    duel : Duel
    rounds : int or None
        As in `timing.alternate`.
    outcome : Outcome
        Filled in place, so that an interruption loses nothing.
    on_start : callable of str
        Called with each peer before it starts.
    on_row : callable of Row
        Called with each row when it is complete.
    """
    outcome.absent += duel.absent
    rounds = rounds or duel.rounds
    try:
        if duel.peers:
            duel.ours.call()
        else:
            outcome.alone = _timed(duel, rounds)["ours"]
    except Exception as error:  # noqa: BLE001 - a failed duel must not prevent the other duels
        outcome.problems.append(f"ours, {duel.ours.label}: {one_line(error)}")
        return
    for peer in duel.peers:
        on_start(peer.label)
        try:
            times = _timed(duel, rounds, peer=peer)
        except Exception as error:  # noqa: BLE001 - a foreign tool may raise any exception
            outcome.absent.append((peer.label, one_line(error)))
            continue
        difference = _difference(duel, peer, outcome.problems)
        ours, theirs = times["ours"], times["peer"]
        outcome.rows.append(Row(peer.label, ours, theirs, timing.ratio(theirs, ours), difference))
        on_row(outcome.rows[-1])
    if duel.peers and not outcome.rows:
        outcome.alone = _timed(duel, rounds)["ours"]
    if outcome.alone and duel.ours.result:
        duel.ours.result()
    outcome.ceiling = duel.ceiling() if duel.ceiling else None
    outcome.told = duel.told(outcome.rows) if duel.told else None


def _timed(duel, rounds, **peer):
    """Return {name: Samples} of our side, and of a peer in turn with it."""
    sides = {"ours": duel.ours, **peer}
    calls = {name: side.call for name, side in sides.items()}
    waits = {name: side.sync for name, side in sides.items() if side.sync}
    return timing.alternate(calls, rounds, host_only=duel.host_only, sync=waits)


def _difference(duel, peer, problems):
    """Return the relative difference of both results, or None; one beyond the tolerance is a problem."""
    if not (duel.ours.result and peer.result):
        return None
    ours, theirs = duel.ours.result(), peer.result()
    difference = relative_difference(theirs, ours)
    if not difference <= duel.tolerance:  # also where it is NaN
        problems.append(
            f"{peer.label} gave {theirs!r}, ours {ours!r}: they differ by {difference:.1e}, beyond "
            f"{duel.tolerance:.0e}"
        )
    return difference
