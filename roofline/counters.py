"""`python -m roofline counters`: executed operations as counted, beside those that the GPU's own counters
saw.

NVIDIA's `ncu` reads the counters, where it is installed and the driver lets it; nothing else in this package
needs it.
"""

import csv
import glob
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass

from roofline.grid import grid

import portable as pk
from portable.errors import SpaceUnavailableError
from roofline.cases import counters as workload
from roofline.counting import count
from roofline.counts import Counts
from roofline.units import scaled

_OPERATION = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
FLOPS = {
    _OPERATION.format(f"{kind}{name}"): each
    for kind in "df"
    for name, each in (("add", 1), ("mul", 1), ("fma", 2))
}
BYTES = {"L1": "l1tex__t_bytes.sum", "L2": "lts__t_bytes.sum", "HBM": "dram__bytes.sum"}
SECONDS = 300  # more than the whole takes by far


@dataclass(frozen=True)
class Row:
    """One launch: Counts, and what the hardware told: flops, and transferred bytes by memory level."""

    label: str
    counts: Counts
    flops: int
    bytes: dict

    @property
    def executed(self):
        """Executed flops as counted, those inside special functions among them."""
        totals = self.counts.executed_totals
        return sum(totals["flops"].values()) + sum(totals["inside_flops"].values())

    def as_dict(self):
        """The JSON object."""
        hardware = {"flops": self.flops, "bytes": self.bytes, "provenance": "hardware counters"}
        return {
            "label": self.label,
            "executed_flops": self.executed,
            "hardware": hardware,
            **self.counts.as_dict(),
        }


def rows():
    """Each launch of the workload, counted and measured.

    Raises
    ------
    SpaceUnavailableError
        There is no GPU, no `ncu`, or it may not read the counters; the message says which, and what to do.
    """
    reason = pk.unavailable_because("cuda")
    if reason:
        raise SpaceUnavailableError(
            f"counters: hardware counters are read on a GPU, and there is none: {reason}"
        )
    seen = parse(_ncu([sys.executable, "-m", workload.__name__]))
    planned = list(workload.launches("cuda"))
    if len(seen) != len(planned):
        raise SpaceUnavailableError(
            f"counters: ncu reported {len(seen)} kernels, {len(planned)} were launched"
        )
    found = []
    for (label, policy, kernel, args, reducer), values in zip(planned, seen, strict=True):
        flops = sum(each * values[name] for name, each in FLOPS.items())
        moved = {level: values[name] for level, name in BYTES.items()}
        found.append(Row(label, count(policy, kernel, *args, reducer=reducer), flops, moved))
    return found


def _ncu(command):
    """What `ncu` prints about a command's kernels, as CSV."""
    tool = shutil.which("ncu") or next(
        iter(sorted(glob.glob("/usr/local/cuda*/bin/ncu"), reverse=True)), None
    )
    if tool is None:
        raise SpaceUnavailableError("counters: `ncu` is not installed; it is part of NVIDIA's CUDA toolkit")
    metrics = ",".join([*FLOPS, *BYTES.values()])
    done = subprocess.run(
        [tool, "--csv", "--print-units", "base", "--metrics", metrics, *command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        raise SpaceUnavailableError(
            "counters: the driver keeps the GPU's counters from this user; an administrator can allow them "
            "(NVreg_RestrictProfilingToAdminUsers=0). Counts do not need them: roofline.count."
        )
    if done.returncode:
        last = (
            [line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["no message"]
        )[-1]
        raise SpaceUnavailableError(f"counters: ncu ended with code {done.returncode}: {last}")
    return done.stdout


def parse(text):
    """{metric: number} of each kernel in ncu's CSV, in the order of their launches."""
    start = text.find('"ID"')
    if start < 0:
        raise SpaceUnavailableError("counters: ncu reported no kernel")
    found = {}
    for line in csv.DictReader(io.StringIO(text[start:])):
        value = float(line["Metric Value"].replace(",", ""))
        found.setdefault(int(line["ID"]), {})[line["Metric Name"]] = int(value)
    return [found[k] for k in sorted(found)]


def table(found):
    """The terminal's table."""
    caption = (
        "executed: counted by the GPU's own code, those inside special functions among them; the GPU's: by"
        " ncu, for which a sign that no operand takes up is an addition, and a division or a root several"
        " operations"
    )
    rows = []
    for row in found:
        ratio = f"{row.executed / row.flops:.4f}" if row.flops else ""
        moved = (scaled(row.bytes[level], "B") for level in BYTES)
        counted = f"{row.counts.flops:,}", f"{row.executed:,}", f"{row.flops:,}", ratio
        rows.append((row.label, *counted, scaled(row.counts.compulsory, "B"), *moved))
    columns = "|".join(("launch<|flops of the text|executed|the GPU's|executed / GPU's|compulsory", *BYTES))
    return grid("Counted and counted by hardware", columns, rows, caption)
