"""From a typed tree to LLVM IR."""
