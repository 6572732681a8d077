"""Which values tensors take over the samples, and the ranges that follow."""
