"""Kernels as syntax trees, compiled, and launched on machines: the foundation of the other packages."""
