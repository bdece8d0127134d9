"""Counting builds: what a launch does, counted while it runs."""
