"""One process of the scoreboard: time some headlines of a case one after the other against their peers.

Each result is a line of JSON on standard output; all output of cases and peers goes to standard error. The
layout of a process's memory changes its times by some per cent for its whole life, so a headline that seems
slower is timed again in another process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace

import portable as pk
from portable.roofline import cases, compare, machine
from portable.roofline.scoreboard import headlines, identity
from portable.roofline.units import one_line


def serve(space: str, names: list[str], rounds: int | None) -> None:
    """Time headlines of one group and report each.

    Parameters
    ----------
    space : str
    names : list of str
    rounds : int or None
        As in `portable.roofline.timing.alternate`.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with pk.use(space) as resolved:
        duels, then = None, (time.perf_counter(), machine.seconds_of_others())
        for headline in headlines.headlines_of(str(resolved)):
            if headline.name not in names:
                continue
            try:
                if duels is None:
                    duels = cases.load(headline.case).duels(str(resolved), headline.n, headline.quick)
                told = timed(headline, duels, rounds)
            except Exception as error:  # noqa: BLE001 - a failing case must not prevent reports of the others
                told = {"problem": one_line(error)}
            now = time.perf_counter(), machine.seconds_of_others()
            seconds, taken = (new - old for new, old in zip(now, then))
            told |= {"name": headline.name, "seconds": seconds, "busy_cores": taken / seconds}
            then = now
            replies.write(json.dumps(told) + "\n")
            replies.flush()


def timed(headline: headlines.Headline, duels: list, rounds: int | None) -> dict:
    """Return the result of a headline: times of both sides, or "absent" or "problem" with the reason."""
    whole = headline.find(duels)
    outcome = compare.Outcome(whole)
    told = {"title": whole.title, "ours": whole.ours.label}
    if not whole.peers:
        return told | {"absent": "; ".join(f"{peer}: {why}" for peer, why in whole.absent) or "no peer here"}
    compare.run(replace(whole, absent=[], told=None, ceiling=None), rounds, outcome)
    if outcome.problems:
        return told | {"problem": outcome.problems[0]}
    if not outcome.rows:
        return told | {"absent": "; ".join(why for _, why in outcome.absent)}
    (row,) = outcome.rows
    return told | {
        "peer": row.peer,
        "identity": identity.identity_of(whole.peers[0].file),
        "ours_seconds": row.ours_seconds.values,
        "peer_seconds": row.peer_seconds.values,
    }


if __name__ == "__main__":
    serve(**json.loads(sys.argv[1]))
    os._exit(0)  # a peer's own processes are ended by the parent and need no shutdown
