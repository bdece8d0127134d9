"""`python -m tests.docs.first_result`: time the way from a clone of the repository to a user's own result.

Clones the repository, makes an environment, installs the methods, and fits a process to a user's table.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..platforms import own_data

STEPS = f"""git clone -q {Path(__file__).parents[2]} clone
{sys.executable} -m venv new
new/bin/pip install -q ./clone[methods]
new/bin/portable tmap fit runs.csv --orders 1,2"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        own_data.write_files(Path(folder))
        begin = time.perf_counter()
        for step in STEPS.splitlines():
            subprocess.run(step.split(), cwd=folder, check=True)
            print(f"{time.perf_counter() - begin:6.1f} s  {step}", flush=True)


if __name__ == "__main__":
    main()
