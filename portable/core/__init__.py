"""Kernels as text, compiled, launched on machines: all that the rooms beside it stand on."""
