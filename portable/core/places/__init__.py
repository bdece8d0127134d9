"""Execution spaces and policies: the places where kernels run, and the index sets over which they run."""
