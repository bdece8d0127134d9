"""The layer's own functions, written in its own language."""
