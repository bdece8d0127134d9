"""Build a typed tree from a kernel's source."""
