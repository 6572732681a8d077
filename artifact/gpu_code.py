"""`GpuCode`: a model, or a part of one, as kernels for a GPU.

Tensors, memory and steps are those of a `HostCode`, whose calls are launches of kernels. The memory
is the device's. The processor interprets nodes, and runs kernels that GPUs have no code for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.artifact.host_code import HostCode

__all__ = [
    "CORE_BYTES",
    "CUBIN",
    "EMULATED",
    "MAP_ALIGN",
    "MAP_BYTES",
    "PRECISIONS",
    "SPIRV",
    "Extents",
    "GpuCode",
    "GpuKernel",
    "ProcessorKernel",
    "TensorMap",
]

Extents = tuple[int, int, int]
"""Along x, y and z."""

MAP_BYTES, MAP_ALIGN = 128, 64
"""Of a map as an argument. Source: CUDA Driver API 13.0, ``CUtensorMap``."""

PRECISIONS = ("float32", "float16", "bfloat16")
"""Of the operands of products of float32, the most exact first; the last one has the range of the
first."""

CORE_BYTES = {"int8": 1, "float16": 2, "bfloat16": 2}
"""Of an element of what tensor cores multiply, by its dtype."""

EMULATED = "emulated-"
"""Begins the architectures of object code for a processor, which an emulated GPU runs; the level of
the processor follows (`native.levels`)."""

SPIRV = "spirv"
"""The architecture of modules for OpenCL, with their shared memory in them. Other architectures are
NVIDIA's: sm_80, sm_90a."""


CUBIN = ".cubin"
"""Ends the names of machine code of NVIDIA's GPUs, after the architecture. It runs on GPUs of the
same generation alone; PTX of the same architecture is there as well, for later ones."""


@dataclass(frozen=True)
class TensorMap:
    """How a kernel has boxes of one of its arguments copied to shared memory, with zeros where they
    reach beyond the tensor. Lines of 128 bytes are swizzled there.

    Attributes
    ----------
    argument : its number.
    shape : of the tensor, in C order, without dimensions of one element.
    box : extents of a box along each dimension; 128 bytes along the last one.
    """

    argument: int
    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class GpuKernel:
    """A function that many threads run.

    Attributes
    ----------
    grid : blocks.
    block : threads of a block.
    shared_bytes : shared memory of a block.
    local_bytes : of the arrays of a thread, which are in registers: its part of fragments.
    cores : dtype of the products that tensor cores compute; empty for a kernel without these.
    maps : further arguments, after the addresses.
    """

    symbol: str
    grid: Extents
    block: Extents
    shared_bytes: int
    local_bytes: int = 0
    cores: str = ""
    maps: tuple[TensorMap, ...] = ()


@dataclass(frozen=True)
class ProcessorKernel:
    """A function that the processor runs between kernels, for GPUs have no code for it.

    Attributes
    ----------
    reason : why; a sentence.
    """

    symbol: str
    reason: str


@dataclass(frozen=True)
class GpuCode:
    """A part of a model that a GPU runs.

    Attributes
    ----------
    host : tensors, memory and steps; each `CodeCall` is of one of `kernels`, with the addresses of
        its buffers as arguments, or of one of `on_processor`, of which alone it has object code.
    kernels : each once.
    images : by architecture, what a device loads: object code, PTX, a cubin or a SPIR-V module; one
        for each kernel, or one for all. Cubins beside PTX have a name of their own (`CUBIN`).
    precision : of the operands of products of float32, one of `PRECISIONS`; who compiles the model
        again takes the same.
    """

    host: HostCode
    kernels: tuple[GpuKernel, ...]
    images: Mapping[str, tuple[bytes, ...]]
    on_processor: tuple[ProcessorKernel, ...] = ()
    precision: str = PRECISIONS[0]

    def __repr__(self) -> str:
        kernels, architectures = len(self.kernels), ", ".join(self.images)
        return f"<GpuCode of {kernels} kernels, for {architectures or 'no GPU'}: {self.host}>"

    @property
    def from_file(self) -> bool:
        """Whether it was read from a file, so that somebody else may have written it."""
        return self.host.from_file
