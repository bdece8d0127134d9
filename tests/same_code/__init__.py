"""Guard of changes to the compiler: compare the code of every kernel before and after (`python -m
tests.same_code`).
"""
