"""Sorts, segments, selection, and random numbers on the host: above launches."""
