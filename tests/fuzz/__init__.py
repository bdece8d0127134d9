"""Random programs: results by an interpreter on NumPy's numbers, compared with those of every space.

    python -m tests.fuzz --programs 400 --seed 1

| file | what it holds |
|---|---|
| `meaning.py` | what an operation on two numbers means (docs/kernels.md, 'what every operation means') |
| `oracle.py`, `expressions.py`, `words.py`, `types.py` | a kernel's text as closures of that meaning |
| `reducing.py`, `members.py` | reducers, and launches of indices and teams, by that meaning |
| `program.py` | a program: text, launch and arguments; how it becomes a file that replays it |
| `grammar.py` | typed expressions and statements, drawn by Hypothesis |
| `ranges.py`, `teams.py`, `edges.py` | one kind of program each |
| `effects.py`, `launches.py`, `reductions.py` | three kinds more |
| `comparing.py` | a program on every space and width, against the oracle |
| `campaign.py` | many programs on several processes, and what came of them |
| `mutants.py`, `mends.py` | changes of the compiler that the programs must notice |
"""
