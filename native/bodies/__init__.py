"""Bodies of the vector operations that kernels call, for each processor."""
