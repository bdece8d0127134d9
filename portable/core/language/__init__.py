"""Kernels as they are written: text, words, types, reducers."""
