"""Derivatives of functions and kernels, by tangents that are put into the typed tree."""
