"""Measure kernels on this machine, compare them with peers, and bound their speed.

`roofline.count` tells the operations of a launch, `roofline.ceilings` what the machine can do,
`roofline.profile` what launches took. `python -m portable.roofline report` times every method and holds it
against its roof, `python -m portable.roofline compare NAME` times ours against hand-written peers,
alternating in one run. What is timed lives in `portable.roofline.cases`, the only folder that knows the
models, and what it is compared with lives in `portable.roofline.peers`.
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
