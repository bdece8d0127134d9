"""Compile kernels: from source to typed tree (reading), and from typed tree to LLVM IR (writing)."""
