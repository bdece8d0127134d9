"""Emit LLVM IR from a typed tree."""
