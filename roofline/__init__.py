"""How fast kernels run, on this machine, against what, and how fast they could run.

`roofline.count` tells the operations of a launch, `roofline.ceilings` what the machine can do,
`roofline.profile` what launches took. `python -m roofline report` times every method and holds it against its
roof, `python -m roofline compare NAME` times ours against hand-written peers, alternating in one run. What is
timed lives in `roofline.cases`, the only folder that knows the models, and what it is compared with lives in
`roofline.peers`.
"""

from roofline.ceiling import ceilings
from roofline.cost import cost
from roofline.counting import count
from roofline.documents import report
from roofline.profiling import profile, region

__all__ = ["ceilings", "cost", "count", "profile", "region", "report"]
