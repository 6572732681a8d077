"""GEMM: blocks of inputs times blocks of weights into the accumulators."""
