"""What watches kernels: the checked space, debug builds, counts."""
