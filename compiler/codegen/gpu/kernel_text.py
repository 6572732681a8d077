"""`KernelText`: a kernel in LLVM's text, before a target gives its operations bodies."""

from dataclasses import dataclass

from daedal.artifact.gpu_code import Extents, TensorMap

__all__ = ["GROUP_ALIGN", "PARAMETER_ALIGN", "SHARED_ALIGN", "KernelText"]

PARAMETER_ALIGN = 16
"""Bytes: parameters begin at multiples of it; plans of memory give more (`artifact.host_code`)."""
SHARED_ALIGN = 128
"""Bytes: a row of the banks of shared memory."""
GROUP_ALIGN = 1024
"""Bytes: eight such rows, for operands of products of groups of warps."""


@dataclass(frozen=True)
class KernelText:
    """A kernel.

    Attributes
    ----------
    symbol : its name in machine code; the text does not have it.
    text : defines ``void @body(ptr %gpu, ptr %a0, ptr %a1, ...)``, with a pointer for each
        parameter in global memory, and declares what that calls. Operations of the GPU are
        functions ``@gpu.*``, which take ``%gpu`` first, but for functions of numbers.
    grid, block : extents along x, y and z.
    shared_bytes : of a block's shared memory.
    parameters : how many.
    local_bytes : of the arrays of a thread, which are in registers.
    resident : blocks for which the registers of a multiprocessor must suffice; 0: the assembler
        decides.
    maps : further parameters, ``ptr %m0`` and so on, after the others.
    """

    symbol: str
    text: str
    grid: Extents
    block: Extents
    shared_bytes: int
    parameters: int
    local_bytes: int = 0
    resident: int = 0
    maps: tuple[TensorMap, ...] = ()
