"""How fast the project's methods run, on this machine, against what.

`python -m roofline report` times every method and writes one offline page; `python -m roofline compare NAME` times ours
against hand-written peers, alternating in one run. The package times and tells; what it times lives in
`roofline.cases`, the only folder that knows the models, and what it is compared with lives in `roofline.peers`.
"""
