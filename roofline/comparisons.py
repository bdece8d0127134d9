"""The commands that measure this machine, and those that time sides in turn, which need a checkout."""

import contextlib
import functools
import secrets
from pathlib import Path

from portable.errors import InputError
from portable.roofline import compare_revisions, ceiling, compare, case_list, machine, process, revision
from portable.roofline.grid import as_dict
from portable.roofline.printing import (
    as_json,
    exit_code,
    show_tables,
    write_file,
    write_json,
    progress,
    print_step,
    warn_if_busy,
)
from portable.roofline.scoreboard import measured, records

MINUTES = 10.0  # at most, of a comparison of revisions


def show_ceilings(options, space):
    warn_if_busy(machine.facts(space))
    with progress() as show:

        def start(name, done, total):
            show(description=name, completed=done, total=total)

        found = ceiling.ceilings(space, fresh=options.fresh, quick=options.quick, on_start=start)
    show_tables(found.table())
    return exit_code(False, write_file(options.json, as_json(found.as_dict())))


def compare_sides(options, space):
    case_list.check_checkout("compare")
    if options.against is not None:
        return _compare_against(options, space)
    if options.minutes:
        raise InputError("--minutes is for --against; peers take --rounds.")
    facts = machine.facts(space)
    warn_if_busy(facts)
    case = case_list.load(options.case)
    if hasattr(case, "command"):
        return case.command(options, space, facts)
    if options.only or options.record:
        raise InputError("--only and --record need `compare kernels`.")
    duels = case.duels(space, options.n, options.quick)
    outcomes, interrupted = [], False
    try:
        with progress("preparing", sum(len(duel.peers) for duel in duels)) as show:
            for duel in duels:
                outcomes.append(compare.Outcome(duel))
                compare.run(
                    duel,
                    options.rounds,
                    outcomes[-1],
                    on_start=lambda label: show(description=label, advance=1),
                    on_row=lambda row: print_step(outcomes[-1].told_row(row)),
                )
                _tell_duel(outcomes[-1])
    except KeyboardInterrupt:
        interrupted = True
        if outcomes:
            _tell_duel(outcomes[-1])
    told = {"case": options.case, "space": space, "duels": [outcome.as_dict() for outcome in outcomes]}
    kept = write_json(options, compare.SCHEMA_VERSION, facts, interrupted=interrupted, **told)
    return exit_code(interrupted, kept and not any(outcome.problems for outcome in outcomes))


def _tell_duel(outcome):
    """Print a duel's table at once, because a run of many duels may be interrupted."""
    show_tables(outcome.table())
    for peer, reason in outcome.absent:
        print(f"not here: {peer}: {reason}", flush=True)
    for problem in outcome.problems:
        print_step(f"disagrees: {problem}")


def _compare_against(options, space):
    if options.rounds:
        raise InputError("--rounds is for peers; use --minutes N with --against.")
    other = revision.find(options.against, options.case)
    facts, this, minutes = machine.facts(space), revision.current(), options.minutes or MINUTES
    warn_if_busy(facts)
    outcome, failure, interrupted = compare_revisions.Outcome(options.against), None, False
    with revision.unpacked(other) as tree, progress("preparing") as show:
        shared = {"file": case_list.file(options.case), "programs": str(tree / "docs" / "examples")}
        start = functools.partial(
            process.sitting,
            [("this revision", revision.HERE), (options.against, tree)],
            case=options.case,
            space=space,
            n=options.n,
            quick=options.quick,
            **(shared if options.case in case_list.OF_PROCESSES else {}),
        )
        try:
            compare_revisions.run(start, outcome, 60.0 * minutes, lambda row: show(description=row.title))
        except process.SideError as error:
            failure = str(error)
        except KeyboardInterrupt:
            interrupted = True
    show_tables(outcome.table())
    for where, titles in (("this revision", outcome.only_this), (options.against, outcome.only_other)):
        for title in titles:
            print(f"only in {where}: {title}")
    problems = [f"{row.title}: {row.problem}" for row in outcome.rows if row.problem]
    for problem in filter(None, [*problems, failure]):
        print_step(f"roofline: {problem}")
    print(f"{options.case} against {options.against}: {outcome.verdict}")
    told = {"case": options.case, "space": space, "this": this, "other": vars(other)} | outcome.as_dict()
    told |= {"limit_minutes": minutes, "failure": failure, "interrupted": interrupted}
    kept = write_json(options, compare_revisions.SCHEMA_VERSION, facts, schema="roofline-against", **told)
    return exit_code(interrupted, kept and outcome.passed and not failure)


def write_measured(options):
    found = measured.documents(Path(options.records or records.FOLDER))
    return exit_code(False, write_file(options.out or measured.PAGE, measured.page(found)))


def run_validate(options, space):
    validate = case_list.import_optional("truth.validate")
    facts, seed = machine.facts(space), secrets.randbelow(10**6) if options.seed is None else options.seed
    warn_if_busy(facts)
    rates = functools.cache(lambda: validate.rates(space, options.quick))

    def document(found):
        pairs = [judged.as_dict() for judged in found]
        return {"space": space, "seed": seed, "ceilings": rates(), "pairs": pairs}

    def keep(found):  # called after each pair, so that an interrupted run keeps its verdicts
        print_step("; ".join(filter(None, validate.row(found[-1]))))
        if options.json:
            with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
                write_json(options, validate.SCHEMA_VERSION, facts, **document(found))

    with progress("ceilings") as show:
        told = functools.partial(validate.run, space, seed, options.quick, options.only)
        found = told(lambda name: show(description=name), keep)
    show_tables(validate.table(found, space, seed))
    kept = write_json(options, validate.SCHEMA_VERSION, facts, **document(found))
    right = all(judged.refused or judged.right and not judged.accused for judged in found)
    return exit_code(False, kept and (options.quick or right))


def read_counters(options):
    counters = case_list.import_optional("truth.counters")
    found = counters.rows()
    show_tables(counters.table(found))
    launches = [row.as_dict() for row in found]
    return exit_code(False, write_json(options, 1, machine.facts("cuda"), launches=launches))


def predict_scaleout(options):
    with progress("one process") as show:
        measure = case_list.load("scaleout").tables
        found = measure(options.quick, lambda text: show(description=text))
    kept = write_json(options, 1, machine.facts("serial"), tables=as_dict(*found))
    show_tables(*found)
    return exit_code(False, kept)
