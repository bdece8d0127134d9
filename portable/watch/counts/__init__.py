"""Counting builds: operations and accesses of a launch, counted while it runs."""
