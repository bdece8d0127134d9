"""From text to typed tree (reading), and from typed tree to LLVM IR (writing)."""
