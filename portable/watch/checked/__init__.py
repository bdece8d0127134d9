"""The checked space: a kernel's typed tree in Python, one index after the other, each access noted and looked
into.

    space.py        the backend; for teams of each size a tree of its own
    code.py         the tree as the text of a Python function; arithmetic.py: its numbers; reducing.py: the
                    steps of reducers
    access.py       loads, stores and atomics; memory.py: cells, bounds, what nobody has written
    team.py         what members meet at; schedule.py: who goes on
    interpreter.py  a launch; races.py: what its trace shows; findings.py, trials.py, sizes.py: reports

Everything here is pure Python and slow. It types kernels by the compiler's rules, and shares no other step
with it.
"""
