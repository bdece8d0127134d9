"""Execution spaces and policies: where kernels run, and over what."""
