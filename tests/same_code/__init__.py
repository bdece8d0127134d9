"""The guard of a change to the compiler: what two revisions make of every kernel that the tests know (`python -m tests.same_code`)."""
