"""Run one side of the comparison: a process with one revision's tree first on the path, started by
__main__.py.

side.py record FILE        run the tests that launch every kernel, and keep what each was compiled for
side.py text FILE OUT MACHINES ONLY LIMIT
                           {(record, machine): text or refusal} of the records whose name holds ONLY and
                           whose lowering took LIMIT seconds at most when they were recorded; what OUT
                           holds already is not made again
side.py code TEXTS OUT KEYS
                           {(record, machine): (assembly or PTX, seconds that LLVM took of one core)}
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
    """Receive each lowering; keep kernel, policy, types and reducers if they are new."""

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
                self.records[key] = {
                    "kernel": key[0],
                    "policy": policy_kind,
                    "seconds": seconds,
                    "types": records.dumps((specs, reducers)),
                    "name": f"{name} #{self.count[name] + 1} {policy_kind}",
                }
                self.count[name] += 1
            self.kept.append((kernel, reducers))  # so that no other object gets their ids
        except Exception as error:  # noqa: BLE001 - what another process cannot have is left out
            self.missed.add(f"{name}: {type(error).__name__}: {error}")


def record(file):
    """Run the tests on the CPU, and store the kernels that they have compiled."""
    os.environ["PORTABLE_TEST_SPACES"] = "serial"  # threads runs the same code
    recorder = Recorder()
    seam.watch(recorder.told)
    import pytest
    from tests.models import test_ptx

    start = time.perf_counter()
    for run in dict.fromkeys(run for run, _ in test_ptx.MODELS.values()):
        run(list)
        seconds = time.perf_counter() - start
        print(f"{run.__name__}: {len(recorder.records)} records after {seconds:.0f} s", flush=True)
    imported = "ignore::pytest.PytestAssertRewriteWarning"  # portable, before pytest
    failed = pytest.main(["-q", "-p", "no:cacheprovider", "-W", imported, *TESTS])
    Path(file).write_bytes(pickle.dumps(list(recorder.records.values())))
    print(
        f"{len(recorder.records)} records of {len(recorder.kernels)} kernels after "
        f"{time.perf_counter() - start:.0f} s; {len(recorder.missed)} kernels left out"
    )
    print(*sorted(recorder.missed), sep="\n")
    return int(failed)


def text(file, out, machines, only, limit):
    """Lower every record for every machine."""
    start, kernels = time.perf_counter(), {}
    texts = pickle.loads(Path(out).read_bytes()) if Path(out).exists() else {}
    for r in pickle.loads(Path(file).read_bytes()):
        if only not in r["name"] or r["seconds"] > float(limit):
            continue
        for machine in machines.split(";"):
            if (r["name"], machine) in texts:
                continue
            try:
                known = r["kernel"], machine == seam.ONE_LANE
                if known not in kernels:
                    kernels[known] = pickle.loads(r["kernel"])
                    kernels[known].packed &= machine != seam.ONE_LANE
                got = seam.text(machine, kernels[known], r["policy"], *pickle.loads(r["types"]))
            except Exception as error:  # noqa: BLE001 - a refusal, which both sides should word alike
                got = f"refused: {type(error).__name__}: {error}\n"
            texts[r["name"], machine] = got
    Path(out).write_bytes(pickle.dumps(texts))
    refused = sum(text.startswith("refused") for text in texts.values())
    print(
        f"{len(texts)} texts, {refused} of them refusals, in {time.perf_counter() - start:.0f} s", flush=True
    )


def code(file, out, wanted):
    """Compile the IR of some keys."""
    texts, codes = pickle.loads(Path(file).read_bytes()), {}
    for key in sorted(pickle.loads(Path(wanted).read_bytes()) & texts.keys()):
        text, begin = texts[key], time.process_time()
        made = text if text.startswith("refused") else seam.code(key[1], text, key[0])
        codes[key] = made, time.process_time() - begin
    Path(out).write_bytes(pickle.dumps(codes))


if __name__ == "__main__":
    sys.exit({"record": record, "text": text, "code": code}[sys.argv[1]](*sys.argv[2:]))
