"""CPU features and native code: LLVM text to object code to a callable; kernels in Python."""
