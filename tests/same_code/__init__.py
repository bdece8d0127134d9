"""Guard of changes to the compiler: is the code of every kernel the same (`python -m tests.same_code`)?"""
