"""The commands that make, show and compare reports."""

from pathlib import Path

import portable as pk
from portable.errors import InputError, printable
from portable.roofline import (
    parallel_counts,
    ceiling,
    diff,
    documents,
    figure,
    files,
    html,
    case_list,
    machine,
)
from portable.roofline import reporting, rows, script, tables, target, timeline, verdicts
from portable.roofline.grid import as_dict
from portable.roofline.printing import (
    as_json,
    exit_code,
    show_tables,
    write_figures,
    write_file,
    progress,
    print_step,
    wait_for_quiet,
    warn_if_busy,
)


def report(options):
    """Time methods, a kernel, or the launches of a program, and show them with their roofs."""
    spaces = _spaces(options.space)
    program = bool(options.script) and target.SEPARATOR not in options.script
    _check(options, program)
    folder, parts, traced = files.data_folder(options.data), {}, True

    def part(space):
        space = space or spaces[0]
        if space not in parts:
            parts[space] = reporting.Report(space, machine.facts(space), quick=options.quick)
        return parts[space]

    wait_for_quiet(options.wait)
    with pk.use(spaces[0]):
        warn_if_busy(part(spaces[0]).machine)
    with progress("preparing inputs") as show:

        def start(text, done):
            show(description=text, completed=done)

        roofs = _roofs(options, part, lambda what: show(description=f"ceilings, {what}"))
        if program:
            with pk.use(spaces[0]):
                known = None if spaces[0] == "checked" else roofs
                made = script.collect(options.script, options.arguments, part, known, start)
                traced = write_file(options.trace, options.trace and timeline.as_json(made))
        else:
            _collect(options, spaces, part, roofs, folder, show, start)
    shown = [one for one in parts.values() if one.results or one.failures or one.interrupted]
    document = documents.document(one.as_dict() for one in shown or parts.values())
    told = _print_report(options, document) or int(not traced)
    return max(told, _against_baseline(options.baseline, document)) if options.baseline else told


def _check(options, program):
    """Refuse options that exclude each other, before anything runs."""
    if options.script and (options.all or options.only):
        raise InputError(
            f"--{'all' if options.all else 'only'} chooses among the methods; '{options.script}' is a program"
            " or a kernel."
        )
    if options.trace and not program:
        raise InputError(
            "--trace writes the time line of a program: name one. For a method use roofline.profile()."
        )
    if program:
        script.check(options.script)
        _warn_of_order(options)
    if options.baseline and Path(options.baseline).exists():
        diff.read(options.baseline)


def _roofs(options, part, on_start):
    """Return a function that measures the Ceilings of a space, special functions included: the `ceilings` of
    `reporting.collect`."""

    def roofs(name, special, again=False):
        known, again = part(name).ceilings, again and not options.quick
        if known and not again and all(" ".join(function) in known.items for function in special):
            return known

        def measuring(what, done, total):
            if not done:
                more = f" and {total - 1} more" if total > 1 else ""
                print_step(f"{name}: measuring ceilings, {what}{more}")
            on_start(what)

        return ceiling.ceilings(name, special=special, again=again, quick=options.quick, on_start=measuring)

    return roofs


def _against_baseline(path, document):
    """Compare a report with a file, or write the file if it does not exist; return the exit code."""
    if not Path(path).exists():
        return exit_code(False, write_file(path, as_json(document)))
    return _tell_changes(diff.changes(diff.read(path), document))


def _tell_changes(found):
    """Print the differences between two reports, and return the exit code."""
    show_tables(diff.table(found))
    print(diff.lead(found))
    for change in found:
        for sentence in change.moved if change.verdict != "same" else ():
            print(f"{change.method}: {sentence}")
    return exit_code(False, all(change.verdict != "slower" for change in found))


def _warn_of_order(options):
    """Warn that options behind a program's name are passed to the program, if they are names of the
    report's."""
    own = "--out --json --svg --pdf --space --data".split()
    if behind := [a for a in options.arguments if a.split("=")[0] in own]:
        print_step(
            f"roofline: {behind[0]} behind '{options.script}' is the program's own; the report's options"
            " stand before its name"
        )


def _collect(options, spaces, part, roofs, folder, show, start):
    """Time the methods, or a kernel, on one space after another."""
    for name in spaces:
        with pk.use(name) as space:
            counts = {}
            if options.script:
                runs = [("kernel", run) for run in target.runs(options.script, options.arguments, space)]
            else:
                print_step(f"{name}: preparing inputs")
                runs, counts = _prepared(options, name, folder, show)
            show(total=len(runs))
            held = None if name == "checked" else roofs
            reporting.collect(
                part(name), runs, start, held, lambda text, name=name: print_step(f"{name}: {text}"), counts
            )
        if part(name).interrupted:
            return


def _prepared(options, space, folder, show):
    """Return (list of (case, Run) of the requested methods, their known counts): many methods of a device are
    counted ahead."""
    if not space.startswith("cuda") or options.quick or options.only:
        return _chosen(options, space, folder), {}

    def done(n, total):
        if not n:
            print_step(f"{space}: counting {total} methods, several at a time")
        show(description="counting", completed=n, total=total)

    with parallel_counts.processes(space, _cases(options), folder) as count:
        runs = _chosen(options, space, folder)
        return runs, count(((case, run.method, run.source) for case, run in runs), done)


def _cases(options):
    return case_list.ALL if options.all else case_list.REPORTED


def _chosen(options, space, folder):
    """Return (case, Run) of each requested method."""
    runs = [
        (case, run)
        for case in _cases(options)
        for run in case_list.load(case).prepare(space, folder, options.quick)
    ]
    found = [(case, run) for case, run in runs if (options.only or "").lower() in run.method.lower()]
    if not found:
        names = ", ".join(dict.fromkeys(run.method for _, run in runs))
        raise InputError(f"--only: no method's name contains '{options.only}'; there are: {names}.")
    return found


def _spaces(names):
    """Return the requested spaces; by default the CPU's, and the GPU if the machine has one."""
    if names is None:
        default = str(pk.default_space())
        return ["threads", default] if default.startswith("cuda") else [default]
    found = []
    for name in names.split(","):
        with pk.use(name.strip()) as space:
            found.append(str(space))
    return list(dict.fromkeys(found))


def show(options):
    saved = [diff.read(path) for path in options.reports]
    return _print_report(
        options, documents.document(part for document in saved for part in document["parts"]), keep=False
    )


def _print_report(options, document, keep=True):
    """Print and write a report, and return the exit code."""
    show_tables(*tables.tables(document))
    parts = rows.parts_of(document)
    for sentence in verdicts.standing(rows.rows_of(parts)):
        print(sentence)
    for part in parts:
        for sentence in part.caveats:
            print_step(f"roofline: {part.place}: {sentence}")
    failures = [failure for part in document["parts"] for failure in part["failures"]]
    for failure in failures:
        print_step(f"not measured: {failure['method']}: {failure['message']}")
    kept = any(part["results"] for part in document["parts"])
    if kept:
        kept = write_file(options.out, html.page(document))
    elif options.out:
        print_step(f"roofline: nothing was measured, so {printable(options.out)} is not written")
    kept &= write_file(options.json, as_json(document))
    kept &= write_file(options.csv, options.csv and tables.csv_of(document))
    kept &= write_figures(options, figure.plots(document))
    interrupted = any(part["interrupted"] for part in document["parts"])
    return exit_code(interrupted, kept and not (keep and failures))


def compare_reports(options):
    """Show the differences between two saved reports."""
    before, after = diff.read(options.before), diff.read(options.after)
    found = diff.changes(before, after, options.across)
    told = _tell_changes(found)
    kept = write_file(options.out, options.out and diff.page(before, after, found))
    kept &= write_file(options.json, as_json(as_dict(diff.table(found))))
    kept &= write_figures(options, diff.plots(found) if options.svg or options.pdf else [])
    return told or exit_code(False, kept)
