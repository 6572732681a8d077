"""`Target`: what runs a part of a network.

An operator of the graph lists the targets that run it (`OpDef.targets`), `partition` cuts a graph
into parts of one target each, and `compiler.pipeline` builds a part as its target requires.
"""

from dataclasses import dataclass

__all__ = ["ACCELERATOR", "CPU", "Target"]


@dataclass(frozen=True)
class Target:
    """What runs a part of a network. Data that parts of different targets exchange has a cost.

    Attributes
    ----------
    name : one word, in the names of parts.
    title : what it is, for listings.
    """

    name: str
    title: str

    def __str__(self) -> str:
        return self.name


ACCELERATOR = Target("accelerator", "the variant's machine: one program for each part")
"""Reads and writes integer tensors in blocked layouts."""

CPU = Target("cpu", "the processor that drives the accelerator: the part's nodes of the model")
"""Reads and writes plain tensors. It has the inputs of a network before any part runs."""
