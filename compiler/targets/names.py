"""Names of the targets that the kit has."""

__all__ = ["ACCELERATOR", "CPU", "GPU"]

ACCELERATOR = "accelerator"
"""The variant's machine. It reads and writes integer tensors in blocked layouts."""

CPU = "cpu"
"""The processor that drives the accelerator. It reads and writes plain tensors, and has the inputs
of a network before any part runs."""

GPU = "gpu"
"""A GPU, which runs whole models, or parts that the processor would run otherwise."""
