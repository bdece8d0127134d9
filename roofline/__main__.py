"""Command line: `python -m portable.roofline {ceilings, report, show, compare, diff, counters, validate,
scaleout, scoreboard, measured}`.

Exit codes: 0 all was measured; 1 some method failed, a value disagreed, something got slower (or could not be
shown not to be), or a file could not be written, and what was measured was kept; 2 the request cannot be met,
nothing was run; 130 interrupted, what was measured was kept.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

import portable as pk
from portable.errors import InputError, SpaceError, printable
from portable.roofline import (
    against,
    ahead,
    ceiling,
    checks,
    compare,
    diff,
    figure,
    files,
    html,
    listed,
    machine,
    process,
    documents,
    reporting,
    revision,
    rows,
    script,
    tables,
    target,
    timeline,
    verdicts,
)
from portable.roofline.options import MINUTES, parser
from portable.roofline.scoreboard import measured, records, standing


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(argv)
    try:
        for option in ("out", "json", "svg", "pdf", "trace"):
            if getattr(options, option, None):
                files.check_writable(f"--{option}", getattr(options, option))
        if getattr(options, "pdf", None):
            figure.check()
        command = COMMANDS[options.command]
        if options.command in ("report", "show", "diff", "counters", "scaleout", "measured"):
            return command(options)
        with pk.use(options.space or pk.default_space()) as space:
            return command(options, str(space))
    except (InputError, SpaceError) as error:
        print(f"roofline: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _report(options):
    spaces = _spaces(options.space)
    parts, traced = {}, True

    def part(space):
        space = space or spaces[0]
        if space not in parts:
            parts[space] = reporting.Report(space, machine.facts(space), quick=options.quick)
        return parts[space]

    kernel = options.script and target.SEPARATOR in options.script
    if options.script and (options.all or options.only):
        raise InputError(
            f"--{'all' if options.all else 'only'} chooses among the methods; '{options.script}' is a program"
            " or a kernel."
        )
    if options.trace and (kernel or not options.script):
        raise InputError(
            "--trace writes the time line of a program: name one. Of a method roofline.profile() has one."
        )
    if options.script and not kernel:
        script.check(options.script)
        _warn_of_order(options)
    folder = files.data_folder(options.data)
    with pk.use(spaces[0]):
        _warn_if_busy(part(spaces[0]).machine)
    with _progress() as progress:
        task = progress.add_task("preparing inputs", total=None)

        def start(text, done):
            progress.update(task, description=text, completed=done)

        def roofs(name, special, again=False):
            known, again = parts[name].ceilings, again and not options.quick
            if known and not again and all(" ".join(function) in known.items for function in special):
                return known

            def measuring(what, done, total):
                if not done:
                    more = f" and {total - 1} more" if total > 1 else ""
                    _say(f"{name}: measuring ceilings, {what}{more}")
                progress.update(task, description=f"ceilings, {what}")

            return ceiling.ceilings(
                name, special=special, again=again, quick=options.quick, on_start=measuring
            )

        if options.script and not kernel:
            with pk.use(spaces[0]):
                known = None if spaces[0] == "checked" else roofs
                made = script.collect(options.script, options.arguments, part, known, start)
                traced = _keep(options.trace, options.trace and timeline.as_json(made))
        else:
            _collect(options, spaces, part, roofs, folder, kernel, progress, task, start)
    shown = [one for one in parts.values() if one.results or one.failures or one.interrupted]
    return _tell(options, documents.document(one.as_dict() for one in shown or parts.values())) or int(
        not traced
    )


def _say(text):
    """A line on the error stream: what a long command does."""
    print(text, file=sys.stderr, flush=True)


def _warn_of_order(options):
    """Say that what stands behind a program's name is the program's, where it looks like the report's."""
    behind = [
        a
        for a in options.arguments
        if a.split("=")[0] in ("--out", "--json", "--svg", "--pdf", "--space", "--data")
    ]
    if behind:
        print(
            f"roofline: {behind[0]} behind '{options.script}' is the program's own; the report's options"
            " stand before its name",
            file=sys.stderr,
        )


def _collect(options, spaces, part, roofs, folder, kernel, progress, task, start):
    """Time the methods, or a kernel, on each space in turn."""
    for name in spaces:
        with pk.use(name) as space:
            counts = {}
            if kernel:
                runs = [("kernel", run) for run in target.runs(options.script, options.arguments, space)]
            else:
                _say(f"{name}: preparing inputs")
                runs, counts = _prepared(options, name, folder, progress, task)
            progress.update(task, total=len(runs))
            held = None if name == "checked" else roofs
            say = functools.partial(_say_of, name)
            reporting.collect(part(name), runs, start, held, say, counts)
        if part(name).interrupted:
            return


def _say_of(space, text):
    _say(f"{space}: {text}")


def _prepared(options, space, folder, progress, task):
    """((case, Run) of the methods that were asked for, counts that are known of them): those of a device are
    made ahead, where they are many."""
    if not space.startswith("cuda") or options.quick or options.only:
        return _chosen(options, space, folder), {}

    def done(n, total):
        if not n:
            _say(f"{space}: counting {total} methods, several at a time")
        progress.update(task, description="counting", completed=n, total=total)

    with ahead.processes(space, _cases(options), folder) as count:
        runs = _chosen(options, space, folder)
        return runs, count(((case, run.method, run.source) for case, run in runs), done)


def _cases(options):
    return listed.ALL if options.all else listed.REPORTED


def _chosen(options, space, folder):
    """(case, Run) of the methods that were asked for."""
    runs = [
        (case, run)
        for case in _cases(options)
        for run in listed.load(case).prepare(space, folder, options.quick)
    ]
    found = [(case, run) for case, run in runs if (options.only or "").lower() in run.method.lower()]
    if not found:
        names = ", ".join(dict.fromkeys(run.method for _, run in runs))
        raise InputError(f"--only: no method's name contains '{options.only}'; there are: {names}.")
    return found


def _spaces(names):
    """The spaces asked for; else the CPU's, and the GPU beside it where there is one."""
    if names is None:
        default = str(pk.default_space())
        return ["threads", default] if default.startswith("cuda") else [default]
    found = []
    for name in names.split(","):
        with pk.use(name.strip()) as space:
            found.append(str(space))
    return list(dict.fromkeys(found))


def _show(options):
    saved = [diff.read(path) for path in options.reports]
    return _tell(
        options, documents.document(part for document in saved for part in document["parts"]), keep=False
    )


def _tell(options, document, keep=True):
    """Print and write a report; the exit code."""
    for table in tables.tables(document):
        _console().print(table)
    parts = rows.parts_of(document)
    for sentence in verdicts.standing(rows.rows_of(parts)):
        print(sentence)
    for part in parts:
        for sentence in part.caveats:
            print(f"roofline: {part.place}: {sentence}", file=sys.stderr)
    failures = [failure for part in document["parts"] for failure in part["failures"]]
    for failure in failures:
        print(f"not measured: {failure['method']}: {failure['message']}", file=sys.stderr)
    kept = any(part["results"] for part in document["parts"])
    if kept:
        kept = _keep(options.out, html.page(document))
    elif options.out:
        print(f"roofline: nothing was measured, so {printable(options.out)} is not written", file=sys.stderr)
    kept &= _keep(options.json, _as_json(document))
    kept &= _figures(options, figure.plots(document))
    interrupted = any(part["interrupted"] for part in document["parts"])
    return _code(interrupted, kept and not (keep and failures))


def _figures(options, shown):
    """Write the plots that were asked for; whether all is well."""
    if not (options.svg or options.pdf):
        return True
    drawing = figure.drawing(shown)
    if not drawing:
        print(
            "roofline: nothing to plot: no method with floating-point operations has a roof here",
            file=sys.stderr,
        )
        return False
    if options.pdf:
        figure.write_pdf(drawing, options.pdf)
        print(f"wrote {printable(options.pdf)}")
    return _keep(options.svg, drawing)


def _ceilings(options, space):
    _warn_if_busy(machine.facts(space))
    with _progress() as progress:
        task = progress.add_task("", total=None)

        def start(name, done, total):
            progress.update(task, description=name, completed=done, total=total)

        found = ceiling.ceilings(space, fresh=options.fresh, quick=options.quick, on_start=start)
    _console().print(found.table())
    return _code(False, _keep(options.json, _as_json(found.as_dict())))


def _compare(options, space):
    if options.against is not None:
        return _compare_against(options, space)
    if options.minutes:
        raise InputError("--minutes is for --against; peers take --rounds.")
    facts = machine.facts(space)
    _warn_if_busy(facts)
    case = listed.load(options.case)
    if hasattr(case, "command"):
        return case.command(options, space, facts)
    if options.only or options.record:
        raise InputError("--only, --record: say `compare kernels`.")
    duels = case.duels(space, options.n, options.quick)
    outcomes, interrupted = [], False
    try:
        with _progress() as progress:
            task = progress.add_task("preparing", total=sum(len(duel.peers) for duel in duels))
            for duel in duels:
                outcomes.append(compare.Outcome(duel))
                compare.run(
                    duel,
                    options.rounds,
                    outcomes[-1],
                    on_start=lambda label: progress.update(task, description=label, advance=1),
                    on_row=lambda row: _say(outcomes[-1].told_row(row)),
                )
                _tell_duel(outcomes[-1])
    except KeyboardInterrupt:
        interrupted = True
        if outcomes:
            _tell_duel(outcomes[-1])
    told = {"case": options.case, "space": space, "duels": [outcome.as_dict() for outcome in outcomes]}
    kept = _keep_json(options, compare.SCHEMA_VERSION, facts, interrupted=interrupted, **told)
    return _code(interrupted, kept and not any(outcome.problems for outcome in outcomes))


def _tell_duel(outcome):
    """Print a duel's table as soon as it is done: a run of many may be broken off."""
    _console().print(outcome.table())
    for peer, reason in outcome.absent:
        print(f"not here: {peer}: {reason}")
    for problem in outcome.problems:
        print(f"disagrees: {problem}", file=sys.stderr)
    sys.stdout.flush()


def _compare_against(options, space):
    if options.rounds:
        raise InputError("--rounds is for peers; say --minutes N with --against.")
    other = revision.find(options.against, options.case)
    facts, this, minutes = machine.facts(space), revision.current(), options.minutes or MINUTES
    _warn_if_busy(facts)
    outcome, failure, interrupted = against.Outcome(options.against), None, False
    with revision.unpacked(other) as tree, _progress() as progress:
        shared = {"file": listed.file(options.case), "programs": str(tree / "docs" / "examples")}
        task = progress.add_task("preparing", total=None)
        start = functools.partial(
            process.sitting,
            [("this revision", revision.HERE), (options.against, tree)],
            case=options.case,
            space=space,
            n=options.n,
            quick=options.quick,
            **(shared if options.case in listed.OF_PROCESSES else {}),
        )
        try:
            against.run(
                start, outcome, 60.0 * minutes, lambda row: progress.update(task, description=row.title)
            )
        except process.SideError as error:
            failure = str(error)
        except KeyboardInterrupt:
            interrupted = True
    _console().print(outcome.table())
    for where, titles in (("this revision", outcome.only_this), (options.against, outcome.only_other)):
        for title in titles:
            print(f"only in {where}: {title}")
    problems = [f"{row.title}: {row.problem}" for row in outcome.rows if row.problem] + (
        [failure] if failure else []
    )
    for problem in problems:
        print(f"roofline: {problem}", file=sys.stderr)
    print(f"{options.case} against {options.against}: {outcome.verdict}")
    told = {
        "case": options.case,
        "space": space,
        "this": this,
        "other": other.as_dict(),
        "limit_minutes": minutes,
    }
    told |= outcome.as_dict() | {"failure": failure, "interrupted": interrupted}
    kept = _keep_json(options, against.SCHEMA_VERSION, facts, schema="roofline-against", **told)
    return _code(interrupted, kept and outcome.passed and not failure)


def _scoreboard(options, space):
    told = standing.command(options, space, _warn_if_busy, _say)
    _console().print(told.table)
    print(told.summary)
    kept = _keep(options.record and not told.interrupted and told.path, told.records)
    kept &= _keep_json(options, standing.SCHEMA_VERSION, told.facts, **told.as_dict())
    return _code(told.interrupted, kept and told.passed)


def _measured(options):
    found = measured.documents(Path(options.records or records.FOLDER))
    return _code(False, _keep(options.out or measured.PAGE, measured.page(found)))


def _validate(options, space):
    validate = listed.beside("truth.validate")
    facts, seed = machine.facts(space), secrets.randbelow(10**6) if options.seed is None else options.seed
    _warn_if_busy(facts)
    rates = functools.cache(lambda: validate.rates(space, options.quick))

    def document(found):
        pairs = [judged.as_dict() for judged in found]
        return {"space": space, "seed": seed, "ceilings": rates(), "pairs": pairs}

    def keep(found):  # of a run that is broken off what was judged is there
        _say("; ".join(filter(None, validate.row(found[-1]))))
        if options.json:
            with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
                _keep_json(options, validate.SCHEMA_VERSION, facts, **document(found))

    with _progress() as progress:
        task = progress.add_task("ceilings", total=None)
        found = validate.run(
            space,
            seed,
            options.quick,
            options.only,
            lambda name: progress.update(task, description=name),
            keep,
        )
    _console().print(validate.table(found, space, seed))
    kept = _keep_json(options, validate.SCHEMA_VERSION, facts, **document(found))
    return _code(
        False,
        kept
        and (options.quick or all(judged.refused or judged.right and not judged.accused for judged in found)),
    )


def _diff(options):
    before, after = diff.read(options.before), diff.read(options.after)
    found = diff.changes(before, after, options.across)
    _console().print(diff.table(found))
    print(diff.lead(found))
    for change in found:
        for sentence in change.moved if change.verdict != "same" else ():
            print(f"{change.method}: {sentence}")
    kept = _keep(options.out, options.out and diff.page(before, after, found))
    kept &= _figures(options, diff.plots(found) if options.svg or options.pdf else [])
    return _code(False, kept and all(change.verdict != "slower" for change in found))


def _counters(options):
    counters = listed.beside("truth.counters")
    found = counters.rows()
    _console().print(counters.table(found))
    launches = [row.as_dict() for row in found]
    return _code(False, _keep_json(options, 1, machine.facts("cuda"), launches=launches))


def _warn_if_busy(facts):
    if (facts["busy_cores"] or 0) > checks.BUSY:
        print(
            f"roofline: other processes keep {facts['busy_cores']} of {facts['cores']} cores busy; "
            "times, and ratios of threads above all, will be about them too",
            file=sys.stderr,
        )


def _progress():
    """A bar on the error stream, gone at the end, so that the table can be piped."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _console():
    """Standard output; a file or a pipe gets whole lines instead of a narrow terminal's, and names are no
    markup."""
    return Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)


def _as_json(document):
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _keep_json(options, version, facts, **what):
    """Write what a command found as JSON, if that was asked for."""
    head = {"schema": f"roofline-{options.command}", "schema_version": version, "machine": facts}
    return _keep(options.json, _as_json(head | what))


def _keep(path, text):
    """Write a file if one was asked for; whether all is well."""
    if not path:
        return True
    try:
        files.write(path, text)
    except OSError as error:
        print(f"roofline: '{printable(path)}' could not be written: {error.strerror}", file=sys.stderr)
        return False
    print(f"wrote {printable(path)}")
    return True


def _code(interrupted, well):
    return 130 if interrupted else 0 if well else 1


def _scaleout(options):
    with _progress() as progress:
        task = progress.add_task("one process", total=None)
        found = listed.load("scaleout").tables(
            options.quick,
            options.cores or os.cpu_count(),
            options.faster,
            lambda text: progress.update(task, description=text),
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    for table in found:
        console.print(table)
    return 0


COMMANDS = {
    "report": _report,
    "show": _show,
    "ceilings": _ceilings,
    "compare": _compare,
    "diff": _diff,
    "counters": _counters,
    "validate": _validate,
    "scaleout": _scaleout,
    "scoreboard": _scoreboard,
    "measured": _measured,
}

if __name__ == "__main__":
    sys.exit(main())
