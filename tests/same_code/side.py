"""One side of the comparison: a process with one revision's tree first on the path, started by __main__.py.

    side.py record FILE        run the tests that launch every kernel, and keep what each was compiled for
    side.py text FILE OUT MACHINES ONLY LIMIT
                               {(record, machine): (text or refusal, seconds)} of the records whose name holds
                               ONLY and whose lowering took LIMIT seconds at most when they were recorded
"""

import collections
import os
import pickle
import sys
import time
from pathlib import Path

import records
import seam

TESTS = ["tests/conformance", "tests/examples/test_more_examples.py", "tests/examples/test_worked.py"]


class Recorder:
    """Told of each lowering; keeps kernel, policy, types and reducers of those unlike all before."""

    def __init__(self):
        self.records, self.kernels, self.missed, self.kept = {}, {}, set(), []
        self.count = collections.Counter()

    def told(self, kernel, policy_kind, specs, reducers, seconds):
        name = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}".replace(".<locals>", "")
        try:
            if id(kernel) not in self.kernels:
                self.kernels[id(kernel)] = records.dumps(kernel)
            key = self.kernels[id(kernel)], policy_kind, repr(specs), tuple(map(id, reducers))
            if key not in self.records:
                self.records[key] = {"kernel": key[0], "policy": policy_kind, "seconds": seconds,
                                     "types": records.dumps((specs, reducers)),
                                     "name": f"{name} #{self.count[name] + 1} {policy_kind}"}
                self.count[name] += 1
            self.kept.append((kernel, reducers))  # so that nothing else gets their ids
        except Exception as error:  # noqa: BLE001 - what another process cannot have is left out
            self.missed.add(f"{name}: {type(error).__name__}: {error}")


def record(file):
    """Run the tests on the CPU, and keep what they have compiled."""
    os.environ["PORTABLE_TEST_SPACES"] = "serial"  # threads runs the same code
    recorder = Recorder()
    seam.watch(recorder.told)
    import pytest
    from tests.models import test_ptx

    start = time.perf_counter()
    for run in dict.fromkeys(run for run, _ in test_ptx.MODELS.values()):
        run()
        seconds = time.perf_counter() - start
        print(f"{run.__name__}: {len(recorder.records)} records after {seconds:.0f} s", flush=True)
    imported = "ignore::pytest.PytestAssertRewriteWarning"  # portable, before pytest
    failed = pytest.main(["-q", "-p", "no:cacheprovider", "-W", imported, *TESTS])
    Path(file).write_bytes(pickle.dumps(list(recorder.records.values())))
    print(f"{len(recorder.records)} records of {len(recorder.kernels)} kernels after "
          f"{time.perf_counter() - start:.0f} s; {len(recorder.missed)} kernels left out")
    print(*sorted(recorder.missed), sep="\n")
    return int(failed)


def text(file, out, machines, only="", limit="inf"):
    """Lower every record for every machine."""
    texts, start = {}, time.perf_counter()
    kernels = {}
    for r in pickle.loads(Path(file).read_bytes()):
        if only not in r["name"] or r["seconds"] > float(limit):
            continue
        for machine in machines.split(";"):
            begin = time.perf_counter()
            try:
                known = r["kernel"], machine == seam.ONE_LANE
                if known not in kernels:
                    kernels[known] = records.loads(r["kernel"])
                    kernels[known].packed &= machine != seam.ONE_LANE
                got = seam.text(machine, kernels[known], r["policy"], *records.loads(r["types"]))
            except Exception as error:  # noqa: BLE001 - a refusal, which both sides should word alike
                got = f"refused: {type(error).__name__}: {error}\n"
            texts[r["name"], machine] = got, time.perf_counter() - begin
    Path(out).write_bytes(pickle.dumps(texts))
    refused = sum(t.startswith("refused") for t, _ in texts.values())
    print(f"{len(texts)} texts of {len({name for name, _ in texts})} records, "
          f"{sum(t.count(chr(10)) for t, _ in texts.values()):,} lines, {refused} refused, "
          f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    sys.exit({"record": record, "text": text}[sys.argv[1]](*sys.argv[2:]))
