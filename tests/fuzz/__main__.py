"""python -m tests.fuzz: random programs on every space against their plain meaning."""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("PORTABLE_CACHE", "0")  # no program is drawn twice

from . import campaign, mutants  # noqa: E402  (the cache is decided when portable is imported)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--programs",
        type=int,
        help="how many, of all kinds together: 400, or for each change of the compiler at most 500",
    )
    parser.add_argument(
        "--kind", action="append", choices=list(campaign.KINDS), help="of this kind alone; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=1, help="equal seeds draw equal programs")
    parser.add_argument("--space", help="compare on this space alone: serial, threads, checked, cuda or ptx")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--files", type=Path, default=Path("fuzz_failures"), help="where files that replay a difference go"
    )
    parser.add_argument(
        "--mutate", action="store_true", help="change the compiler instead, and see that the programs notice"
    )
    parser.add_argument(
        "--derivatives",
        action="store_true",
        help="compare derivatives, on serial, threads:2 and --space, with differences in 60 digits",
    )
    parser.add_argument("--mutants", type=int, default=20, help="with --mutate: how many are drawn")
    parser.add_argument(
        "--part",
        default="1/1",
        help="with --mutate: K/N, the K-th change and every N-th after it; all if not given",
    )
    parser.add_argument("--until-first", metavar="HASHES", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.programs = options.programs or (500 if options.mutate else 400)
    if options.until_first is not None:
        return mutants.try_here(options.programs, options.seed, options.until_first)
    if options.derivatives:
        return derivatives(options)
    if options.mutate:
        part = [int(k) for k in options.part.split("/")]
        return mutants.main(options.seed, options.mutants, options.programs, options.processes, part)
    return report(options)


def derivatives(options):
    from . import derived

    spaces = "serial", "threads:2", options.space or "serial"
    said, differences = derived.campaign(options.programs, options.seed, spaces)
    for text in differences:
        print(f"DIFFERENCE {text}")
    print("; ".join(f"{what}: {n}" for what, n in said.items()), f"; differences: {len(differences)}")
    return 1 if differences or said["refused"] > 0.1 * options.programs else 0


def report(options):
    began, n_files = time.monotonic(), 0

    def say(outcome):
        nonlocal n_files
        for message, text in outcome.differences:
            options.files.mkdir(parents=True, exist_ok=True)
            n_files += 1
            path = options.files / f"seed{options.seed}_{outcome.kind}_{n_files}.py"
            path.write_text(text)
            print(f"DIFFERENCE ({outcome.kind}): {message}\n    python {path}", flush=True)

    totals = campaign.campaign(
        options.programs,
        options.seed,
        options.space,
        options.processes,
        say,
        kinds=options.kind or campaign.SHARES,
    )
    everything = campaign.Outcome("all")
    print(f"{'kind':12}{'programs':>10}{'comparisons':>13}{'undefined':>11}{'refused':>9}{'differences':>13}")
    for outcome in [*totals.values(), everything]:
        refused = sum(outcome.refused.values())
        tried = f"{outcome.kind:12}{outcome.programs:10}{outcome.comparisons:13}"
        print(f"{tried}{outcome.undefined:11}{refused:9}{len(outcome.differences):13}")
        if outcome is not everything:
            everything.add(outcome)
    for why, times in everything.refused.most_common():
        print(f"refused {times} times: {why}")
    print(
        f"spaces: {', '.join(b.name for b in campaign.builds_of(options.space))}; seed {options.seed}; "
        f"{time.monotonic() - began:.0f} s on {options.processes} processes"
    )
    many = sum(everything.refused.values()) > 0.01 * everything.programs
    return 1 if everything.differences or many else 0


if __name__ == "__main__":
    sys.exit(main())
