"""Measure kernels on this machine, compare them with peers, and bound their speed.

`roofline.count` counts the operations of a launch, `roofline.ceilings` measures the machine's peak rates,
`roofline.profile` records the times of launches. `python -m portable.roofline report` times every method and
compares it with its roof; `python -m portable.roofline compare NAME` times this project's version against
hand-written peers, alternating in one run. The timed cases are in `portable.roofline.cases`, the only folder
that imports the models; their peers are in `portable.roofline.peers`.
"""

import sys

if __name__ == "roofline":  # its former name
    raise (SystemExit if sys.argv[:1] == ["-m"] else ImportError)(
        "the measuring tool is portable.roofline (from portable import roofline; python -m portable.roofline)"
    )

from portable.roofline.ceiling import ceilings  # noqa: E402
from portable.roofline.cost import cost  # noqa: E402
from portable.roofline.counting import count  # noqa: E402
from portable.roofline.documents import report  # noqa: E402
from portable.roofline.profiling import profile, region  # noqa: E402

__all__ = ["ceilings", "cost", "count", "profile", "region", "report"]
