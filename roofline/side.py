"""One side of `compare --against`: a process that keeps a case's rows prepared, and times one of them on
request.

The same file runs on both sides, by its path, with the side's own tree first on the path: it imports
`portable` and `roofline` from there. Therefore it imports nothing of roofline at the top, and uses few names
of it, which exist since commit d29c9e6: `portable.use`, `portable.roofline.cases.load`,
`portable.roofline.peers.gather`, and of a duel `title`, `tolerance`, `host_only` and `ours` with `label`,
`call`, `sync` and `result`.

Each line of JSON on standard input is a request, answered by a line on standard output: {"answer": ...} or
{"error": "..."}. The first answer comes without a request: the rows. All other output goes to standard error.
The process ends at the end of its input.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path


def no_sync():
    """Do nothing: for calls that return when their work is done."""


def batch_seconds(fn, sync, calls, host_only=False):
    """Return seconds per call of one batch, which begins and ends with no work in flight.

    The result of a call with an attribute `tells_seconds` is the time that counts.
    """
    if getattr(fn, "tells_seconds", False):
        return sum(fn() for _ in range(calls)) / calls
    start = time.perf_counter()
    for _ in range(calls):
        fn()
    if not host_only:
        sync()
    end = time.perf_counter()
    if host_only:
        sync()
    return (end - start) / calls


def prepare(tree, case, space, n, quick, file=None, programs=None):
    """Return the duels of a case with the packages of a tree, without peers.

    Parameters
    ----------
    file, programs : str, optional
        The case is in this file, on both sides, and runs the programs of that folder.

    Raises
    ------
    ImportError
        A package is imported from another folder.
    """
    import portable

    try:
        from portable.roofline import cases, peers
    except ModuleNotFoundError:  # a revision in which these were separate packages
        from roofline import cases, peers

        for name in filter(importlib.util.find_spec, ("roofline", "models")):
            found = sys.modules[f"portable.{name}"] = importlib.import_module(name)
            setattr(portable, name, found)

    peers.gather = lambda *args, **options: ([], [])
    module = load(file, programs) if file else cases.load(case)
    for name in ("portable", "portable.roofline", "portable.models"):
        loaded = sys.modules.get(name)
        if loaded and not Path(loaded.__file__).resolve().is_relative_to(tree):
            raise ImportError(f"{name} is imported from '{Path(loaded.__file__).parent}' instead of '{tree}'")
    with portable.use(space) as resolved:
        return module.duels(str(resolved), n, quick)


def load(file, programs):
    """Return a case whose present version runs on both sides."""
    spec = importlib.util.spec_from_file_location("case_of_both", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.EXAMPLES = Path(programs)
    return module


def row(duel):
    """Return the facts of a duel for the other process."""
    return {
        "title": duel.title,
        "label": duel.ours.label,
        "tolerance": duel.tolerance,
        "host_only": duel.host_only,
        "has_result": duel.ours.result is not None,
    }


def answer_request(duels, space, request):
    """Return the answer to a request: seconds per call of one batch of a row, or the row's result."""
    import portable

    duel = duels[request["row"]]
    with portable.use(space):
        if request["do"] == "result":
            return float(duel.ours.result())
        return batch_seconds(duel.ours.call, duel.ours.sync or no_sync, request["calls"], duel.host_only)


def error_line(error):
    """Return an exception in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def serve(tree, **case):
    """Prepare the rows, report them, and answer requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of a case must not mix with the answers

    def reply(made):
        try:
            content = {"answer": made()}
        except Exception as error:  # noqa: BLE001 - the other process decides how to treat it
            content = {"error": error_line(error)}
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    duels = []

    def rows():
        duels.extend(prepare(Path(tree).resolve(), **case))
        return [row(duel) for duel in duels]

    reply(rows)
    for line in sys.stdin:
        reply(lambda asked=json.loads(line): answer_request(duels, case["space"], asked))


if __name__ == "__main__":
    serve(**json.loads(sys.argv[1]))
