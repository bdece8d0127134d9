"""`python -m portable.roofline counters`: compare counts of executed operations with the GPU's hardware
counters.

NVIDIA's `ncu` reads the counters, if it is installed and the driver permits it; nothing else in this package
needs it.
"""

import csv
import glob
import io
import shutil
import subprocess
import sys
from dataclasses import dataclass

from portable.roofline.grid import grid

import portable as pk
from portable.errors import SpaceUnavailableError
from portable.roofline.cases import counters as workload
from portable.roofline import measuring
from portable.roofline.counting import count
from portable.roofline.counts import Counts
from portable.roofline.truth.traffic import SECTOR, predicted
from portable.roofline.units import scaled

_OPERATION = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
FLOPS = {
    _OPERATION.format(f"{kind}{name}"): each
    for kind in "df"
    for name, each in (("add", 1), ("mul", 1), ("fma", 2))
}
# requests of the first caches to L2, in sectors: loads that they do not hold, and stores; L2's own counter
# counts simultaneous requests for the same sector as one
_GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_"
SECTORS = f"{_GLOBAL}ld_lookup_miss.sum", f"{_GLOBAL}st.sum"
BYTES = {"L1": "l1tex__t_bytes.sum", "HBM": "dram__bytes.sum"}
NEAR = 0.15  # of the measured bytes: a closer prediction is right
SECONDS = 300  # far more than the whole run takes


@dataclass(frozen=True)
class Row:
    """Store one launch: Counts, and the measured flops and transferred bytes by memory level; for L2 and HBM
    also the bytes that the counts predict."""

    label: str
    counts: Counts
    flops: int
    bytes: dict
    predicted: dict

    @property
    def executed(self):
        """Counted executed flops, including those inside special functions."""
        totals = self.counts.executed_totals
        return sum(totals["flops"].values()) + sum(totals["inside_flops"].values())

    def as_dict(self):
        """Return the row as a JSON object."""
        hardware = {"flops": self.flops, "bytes": self.bytes, "provenance": "hardware counters"}
        return {
            "label": self.label,
            "predicted_bytes": self.predicted,
            "executed_flops": self.executed,
            "hardware": hardware,
            **self.counts.as_dict(),
        }


def rows():
    """Return each launch of the workload, counted and measured.

    Raises
    ------
    SpaceUnavailableError
        There is no GPU, no `ncu`, or it may not read the counters; the message names the reason and a remedy.
    """
    reason = pk.unavailable_because("cuda")
    if reason:
        raise SpaceUnavailableError(f"counters: hardware counters need a GPU, and there is none: {reason}")
    seen = parse(_ncu([sys.executable, "-m", workload.__name__]))
    planned = list(workload.launches("cuda"))
    if len(seen) != len(planned):
        raise SpaceUnavailableError(
            f"counters: ncu reported {len(seen)} kernels, {len(planned)} were launched"
        )
    found, second = [], capacity()
    for (label, policy, kernel, args, reducer), values in zip(planned, seen, strict=True):
        flops = sum(each * values[name] for name, each in FLOPS.items())
        moved = {level: values[name] for level, name in BYTES.items()}
        moved["L2"] = SECTOR * sum(values[name] for name in SECTORS)
        counts = count(policy, kernel, *args, reducer=reducer)
        told = predicted(policy, kernel, args, reducer, second)
        found.append(Row(label, counts, flops, moved, told))
    return found


def capacity():
    """Return the measured bytes of L2."""
    with pk.use("cuda") as space:
        return measuring.gpu_levels(space, quick=False)[0][1]


def _ncu(command):
    """Return the output of `ncu` on a command's kernels, as CSV."""
    tool = shutil.which("ncu") or next(
        iter(sorted(glob.glob("/usr/local/cuda*/bin/ncu"), reverse=True)), None
    )
    if tool is None:
        raise SpaceUnavailableError("counters: `ncu` is not installed; it is part of NVIDIA's CUDA toolkit")
    metrics = ",".join([*FLOPS, *BYTES.values(), *SECTORS])
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
    """Return {metric: number} of each kernel in ncu's CSV, in the order of their launches."""
    start = text.find('"ID"')
    if start < 0:
        raise SpaceUnavailableError("counters: ncu reported no kernel")
    found = {}
    for line in csv.DictReader(io.StringIO(text[start:])):
        value = float(line["Metric Value"].replace(",", ""))
        found.setdefault(int(line["ID"]), {})[line["Metric Name"]] = int(value)
    return [found[k] for k in sorted(found)]


def table(found):
    """Return the table for the terminal."""
    caption = (
        "executed: counted by the GPU's own code, special functions included; the GPU's: by ncu, for which"
        " some signs are additions, and a division or a root several operations"
    )
    rows = []
    for row in found:
        ratio = f"{row.executed / row.flops:.4f}" if row.flops else ""
        counted = f"{row.counts.flops:,}", f"{row.executed:,}", f"{row.flops:,}", ratio
        moved = [f"{row.predicted[level] / max(row.bytes[level], 1):.2f}" for level in ("L2", "HBM")]
        moved += [scaled(row.bytes[level], "B") for level in ("L1", "L2", "HBM")]
        rows.append((row.label, *counted, scaled(row.counts.compulsory, "B"), *moved))
    near = {
        level: sum(abs(row.predicted[level] - row.bytes[level]) <= NEAR * row.bytes[level] for row in found)
        for level in ("L2", "HBM")
    }
    caption += (
        f"; predicted within {NEAR:.0%} of what the GPU moved: L2 {near['L2']} and HBM {near['HBM']} of"
        f" {len(found)}"
    )
    columns = (
        "launch<|?flops of the text|?executed|?the GPU's|executed / GPU's|?compulsory|L2 predicted / seen|"
        "HBM predicted / seen|?L1|?L2|?HBM"
    )
    return grid("Counted and counted by hardware", columns, rows, caption)
