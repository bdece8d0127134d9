"""Typical kernels, written directly from their formulas, against compiled C and numba on a CPU and CUDA C++
on a GPU.

Most are of the kinds that RAJAPerf collects (its groups stream, basic, lcals, polybench, apps, algorithm);
the others are from typical programs. Their sources in the other languages are in
`portable.roofline.peers.kernels_text`.
"""

import functools
import json
import math
import statistics
import sys
from pathlib import Path

import numpy as np

import portable as pk
from portable.roofline import peers, revision, timing
from portable.roofline.cases import kernels_loops, kernels_programs
from portable.roofline.cases.kernels_rows import ROWS, SIZES, WHOLE
from portable.roofline.contract import Contender, Duel
from portable.roofline.digest import digest
from portable.roofline.printing import write_file
from portable.roofline.scoreboard import records
from portable.roofline.side import no_sync
from portable.roofline.units import one_line, picked, scaled, times

FEW = {"checked": 16, "quick": 40}  # approximate maximum of any extent
TOLERANCE = {"float64": 1e-10, "float32": 5e-4, "int32": 0.0}  # of the largest value: orders of sums differ

THREE = "median lower upper"
FILES = kernels_loops, kernels_programs  # importing these fills ROWS


def tasks(space, n, quick, only=None):
    """Yield the kernels with inputs, one after the other. `n` is the maximum of any extent; `only` selects
    kernels, by parts of their names separated by commas."""
    gpu, most = space.startswith("cuda"), FEW.get(space) or n or (FEW["quick"] if quick else math.inf)
    sizes = {}
    for letter, both in SIZES.items():
        step = WHOLE.get(letter, 1)
        sizes[letter] = step * math.ceil(min(both[gpu], most) / step)
    for name, found in ROWS.items():
        if any(part.strip() in name for part in (only or "").split(",")):
            for dtype in found.dtypes.split():
                yield found.task(dtype, sizes)


def duels(space, n, quick):
    """Return only our side, for comparisons of revisions; see `portable.roofline.cases.Case`."""
    found = []
    for task in tasks(space, n, quick):
        call, values = bound(space, task)
        sync = functools.partial(pk.fence, space)
        ours = Contender(
            f"portable, {space}", call, sync, lambda values=values: math.fsum(map(digest, values()))
        )
        found.append(Duel(f"{task.name}, {task.dtype}", ours, [], tolerance=TOLERANCE[task.dtype]))
    return found


def command(options, space, facts):
    """Run `compare kernels`.

    Parameters
    ----------
    options : argparse.Namespace
    space : str
    facts : dict
        The facts of the machine.

    Returns
    -------
    int
        The exit status.
    """
    commit = options.commit or revision.current()["commit"][:8] if options.record else ""
    folder = Path(options.records or records.FOLDER)
    about = {"space": space, "date": facts["date"][:10], "commit": commit, "busy_cores": facts["busy_cores"]}
    found, problems = [], []
    try:
        for task in tasks(space, options.n, options.quick, options.only):
            for row in compared(space, task, options.rounds, problems):
                found.append(row | about)
                print(*_cells(row), sep="  ", flush=True)
        code = int(bool(problems))
    except KeyboardInterrupt:
        code = 130
    print(*problems, sep="\n", file=sys.stderr)
    print("\n".join(summary(found, folder, records.kind(facts))))
    write_file(options.json, json.dumps({"machine": facts, "kernels": found}, indent=1))
    if options.record:
        path = records.path_of(records.kind(facts), folder)
        document = records.read(path) if path.exists() else records.empty(records.kind(facts))
        known = {_key(row): row for row in [*document.get("kernels", []), *found]}
        records.write(path, document | {"kernels": [known[key] for key in sorted(known)]})
    return code


def _key(row):
    return row["name"], row["dtype"], row["space"], row["peer"]


def compared(space, task, rounds, problems):
    """Yield a row for each peer of a kernel: values are compared, and if they agree both sides are timed in
    turn."""
    gpu = space.startswith("cuda")
    rivals, absent = peers.gather("kernels", space, task, tools=("cupy",) if gpu else ("gcc", "numba"))
    problems += [f"{task.name}, {peer}: {why}" for peer, why in absent if "no such word" not in why]
    call, values = bound(space, task)
    for peer in rivals:
        try:
            theirs, mine = peer.result(), values()
        except Exception as error:  # noqa: BLE001 - a foreign tool may raise any exception
            problems.append(f"{task.name}, {peer.label}: {one_line(error)}")
            continue
        off = max(map(_difference, theirs, mine))
        if not off <= TOLERANCE[task.dtype]:
            problems.append(f"{task.name}, {task.dtype}, {peer.label}: values differ by {off:.1e}")
            continue
        seconds = timing.alternate(
            {"ours": call, "peer": peer.call},
            rounds,
            sync={"ours": functools.partial(pk.fence, space), "peer": peer.sync or no_sync},
            **{"min_time": 0.005, "pause": 0.0} if gpu else {},
        )
        parts = {f"{side}_seconds": picked(samples, THREE) for side, samples in seconds.items()}
        yield {
            "name": task.name,
            "dtype": task.dtype,
            "peer": peer.label,
            "ratio": picked(timing.ratio(seconds["peer"], seconds["ours"]), THREE),
            **parts,
            "source": peer.source,
        }


def _cells(row):
    ours, peer = (scaled(row[f"{side}_seconds"]["median"], "s") for side in ("ours", "peer"))
    spread = " to ".join(times(row["ratio"][name]) for name in ("lower", "upper"))
    return row["name"], row["dtype"], row["peer"], ours, peer, times(row["ratio"]["median"]), f"({spread})"


def of_machine(rows):
    """Return {(name, dtype): the fastest peer's time over ours} of the rows of a machine."""
    found = {}
    for row in rows:
        key = row["name"], row["dtype"]
        found[key] = min(found.get(key, math.inf), row["ratio"]["median"])
    return found


def portability(machines):
    """Return {(name, dtype): harmonic mean over the machines with this row}, from results of `of_machine`."""
    keys = {key for ratios in machines for key in ratios}
    return {key: statistics.harmonic_mean([r[key] for r in machines if key in r]) for key in sorted(keys)}


def on_record(folder):
    """Return {kind of machine: its rows} of the records in a folder."""
    documents = [records.read(path) for path in sorted(Path(folder).glob("*.json"))]
    return {d["machine"]["kind"]: d["kernels"] for d in documents if d.get("kernels")}


def summary(found, folder, kind):
    """Return the lines below the rows: each kernel's harmonic mean over machines, their mean, and the worst
    five."""
    if not found:
        return ["nothing was timed"]
    here, known = of_machine(found), on_record(folder)
    whole = portability([here, *(of_machine(rows) for other, rows in known.items() if other != kind)])
    lines = [f"{name}, {dtype}: {times(whole[name, dtype])} over all machines" for name, dtype in here]
    worst = sorted(here, key=here.get)[:5]
    for peer in sorted({row["peer"] for row in found}):
        ratios = [row["ratio"]["median"] for row in found if row["peer"] == peer]
        lines.append(f"harmonic mean beside {peer}: {times(statistics.harmonic_mean(ratios))}")
    lines.append(
        f"mean over kernels of the harmonic means over machines: {times(statistics.mean(whole.values()))}"
    )
    return lines + [f"worst: {', '.join(key)}: {times(here[key])}: {reason(key[0])}" for key in worst]


# known causes in the code
REASONS = {
    "daxpy_atomic scatter fem nodal_sum": "an atomic a lane",
    "gemm": "an index per element, where C goes by rows",
    "mat_mat_shared": "sums in scratch, not in registers",
    "nbody nbody_tiled": "rsqrt is rounded correctly",
    "spmv": "a team is a block",
    "life heat_3d vol3d": "addresses of 64 bits",
    "softmax": "a row is written, read and written again",
    "pi_reduce": "its launch",
    "pagerank": "gathers and a division in packs",
}


def reason(name):
    """Return the known cause of a kernel's rank."""
    return next((why for names, why in REASONS.items() if name in names.split()), "not looked into")


def _difference(theirs, ours):
    """Return the largest difference, relative to the largest value; arrays of a GPU stay there."""
    theirs, ours = theirs.astype(float), ours.astype(float)
    return float(abs(theirs - ours).max() / (abs(ours).max() or 1.0))


def bound(space, task):
    """Return our call, and a function that returns the outputs of one call on fresh inputs."""
    views = {
        name: value
        if not isinstance(value, np.ndarray)
        else pk.copy_of(value, space)
        if space.startswith("cuda") or name in task.written
        else pk.asview(value, space=space)
        for name, value in task.arguments.items()
    }

    def policy(step):
        ranges = task.ranges(step)
        if task.form.startswith("team"):
            return pk.TeamPolicy(ranges[0][1], *map(int, task.form.split()[1:]), space=space)
        if len(ranges) == 1:
            return pk.RangePolicy(*ranges[0], space=space)
        return pk.MDRangePolicy(*zip(*ranges, strict=True), space=space)

    there = pk.View.to_numpy
    if space.startswith("cuda"):
        import cupy  # its peers' arrays are on the device as well

        there = cupy.asarray
    total = pk.zeros((1,), task.dtype, space)
    run = pk.parallel_for
    if task.form == "sum":
        run = functools.partial(pk.parallel_reduce, out=total)
    steps = range(task.number(task.steps or "1"))
    policies = [policy(step) for step in steps]  # before the timing, as in peers' launches
    if not task.steps:
        call = functools.partial(run, policies[0], task.kernel, *views.values())
    else:
        same = policies.count(policies[0]) == len(policies)
        with pk.capture(space) as graph:  # as in docs/performance.md: of one step, or of all
            for views["step"] in steps[: 1 if same else None]:
                run(policies[views["step"]], task.kernel, *views.values())
        call = graph.replay
    if task.steps and same:

        def call():
            for step in steps:
                graph(step=step)

    def values():
        for name in task.written:
            pk.deep_copy(views[name], task.arguments[name])
        call()
        pk.fence(space)
        arrays = [total] if task.form == "sum" else map(views.get, task.written)
        return [there(a) for a in arrays]

    return call, values
