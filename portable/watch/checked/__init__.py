"""The checked space: a kernel's typed tree in Python, one index after the other, each access recorded and
checked.

    space.py        the backend; a separate tree for teams of each size
    code.py         the tree as the text of a Python function; arithmetic.py: its numbers; reducing.py: the
                    steps of reducers
    access.py       loads, stores and atomics; memory.py: cells, bounds, unwritten memory
    team.py         barriers and collectives; schedule.py: the order of members
    interpreter.py  a launch; races.py: analysis of its trace; findings.py, trials.py, sizes.py: reports

Everything here is pure Python and slow. It types kernels by the compiler's rules, and shares no other step
with it.
"""
