"""Define the layer's own functions, written in the kernel language."""
