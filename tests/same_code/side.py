"""One side of the comparison: a process with one revision's tree first on the path, started by __main__.py.

    side.py record FILE                        run the tests that launch every kernel, and keep what each was compiled for
    side.py text FILE OUT MACHINES ONLY LIMIT  {(record, machine): (text or refusal, seconds)} of records whose name holds ONLY
"""

import os
import pickle
import sys
import time
from pathlib import Path

import records
import seam

TESTS = ["tests/conformance", "tests/examples/test_more_examples.py", "tests/examples/test_worked.py"]


def record(file):
    """Run the tests on the CPU; write a list of records: name, kernel, what it was compiled for, and how long that took."""
    found, blobs, missed = {}, {}, set()

    def told(kernel, policy_kind, specs, reducers, seconds):
        try:
            if id(kernel) not in blobs:
                blobs[id(kernel)] = records.dumps(kernel), kernel  # which so keeps its id
            key = blobs[id(kernel)][0], policy_kind, repr(specs), tuple(r if r in vars(sys.modules["portable"]).values() else id(r) for r in reducers)
            if key not in found:
                name = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}".replace(".<locals>", "")
                found[key] = {"name": name, "kernel": key[0], "policy": policy_kind, "rest": records.dumps((specs, reducers)), "seconds": seconds,
                              "kept": reducers}
        except Exception as error:  # noqa: BLE001 - a kernel that another process cannot have is told of, and left out
            missed.add(f"{kernel.fn.__module__}.{kernel.fn.__qualname__}: {type(error).__name__}: {error}")

    seam.watch(told)
    os.environ["PORTABLE_TEST_SPACES"] = "serial"
    import pytest
    from tests.models import test_ptx

    start = time.perf_counter()
    for run in dict.fromkeys(run for run, _ in test_ptx.MODELS.values()):
        run()
        print(f"{run.__name__}: {len(found)} records after {time.perf_counter() - start:.0f} s", flush=True)
    failed = pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", *TESTS])
    made, count = [], {}
    for r in found.values():
        count[r["name"]] = count.get(r["name"], 0) + 1
        made.append({**r, "name": f"{r['name']} #{count[r['name']]} {r['policy']}"} | {"kept": None})
    Path(file).write_bytes(pickle.dumps(made))
    print(f"{len(made)} records of {len(blobs)} kernels after {time.perf_counter() - start:.0f} s; {len(missed)} kernels left out")
    print(*sorted(missed), sep="\n")
    return int(failed)


def text(file, out, machines, only="", limit="inf"):
    """Lower every record for every machine."""
    texts, kernels, start = {}, {}, time.perf_counter()
    for r in pickle.loads(Path(file).read_bytes()):
        if only not in r["name"] or r["seconds"] > float(limit):
            continue
        for machine in machines.split(";"):
            begin = time.perf_counter()
            try:
                kernel = kernels.get((r["kernel"], machine == "cpu, one lane"))
                if kernel is None:
                    kernel = records.loads(r["kernel"])
                    kernel.packed = kernel.packed and machine != "cpu, one lane"
                    kernels[r["kernel"], machine == "cpu, one lane"] = kernel
                got = seam.text(machine, kernel, r["policy"], *records.loads(r["rest"]))
            except Exception as error:  # noqa: BLE001 - a refusal, which both sides should word alike
                got = f"; {type(error).__name__}: {error}\n"
            texts[r["name"], machine] = got, time.perf_counter() - begin
    Path(out).write_bytes(pickle.dumps(texts))
    refused = sum(t.startswith("; ") and "ModuleID" not in t[:20] for t, _ in texts.values())
    print(f"{len(texts)} texts of {len({n for n, _ in texts})} records, {sum(t.count(chr(10)) for t, _ in texts.values()):,} lines, "
          f"{refused} refused, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    sys.exit({"record": record, "text": text}[sys.argv[1]](*sys.argv[2:]))
