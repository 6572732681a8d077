"""`HostCode`: a model, or a part of one, as machine code for a processor.

All tensors lie in one block of memory: constants first, then what is computed. A step calls one
function of the object code, joins tensors, or has one ONNX node interpreted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.artifact.constants import HostConstant

__all__ = [
    "ALIGN",
    "BUFFER_BYTES",
    "LEVEL_MACHINES",
    "CodeCall",
    "HostBuffer",
    "HostCode",
    "InterpretedNode",
    "Join",
    "Step",
]

ALIGN = 64
"""Bytes between which tensors begin; compiled code may rely on it."""

BUFFER_BYTES = {
    "bool": 1,
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": bits // 8 for bits in (16, 32, 64)},
}
"""Dtypes that a tensor in memory can have, and the bytes of an element."""

LEVEL_MACHINES = {
    "x86-64": "x86_64",
    "x86-64-v3": "x86_64",
    "x86-64-v3-vnni": "x86_64",
    "x86-64-v4": "x86_64",
    "x86-64-v4-vnni": "x86_64",
    "x86-64-v4-amx": "x86_64",
    "aarch64": "aarch64",
    "aarch64-dotprod": "aarch64",
    "aarch64-i8mm": "aarch64",
}
"""The processor, in ELF's terms (`artifact.object_file`), of each level in `native.levels`."""


@dataclass(frozen=True)
class HostBuffer:
    """A tensor in the block of memory: its first byte, its numpy dtype and ONNX's shape."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class CodeCall:
    """A call of ``symbol(addresses of buffers, begin, end)`` for iterations 0 to `iterations`.

    Attributes
    ----------
    buffers : numbers of buffers, inputs first and then the result.
    iterations : of the parallel loop; any split of them may run at once.
    work : a guess of the nanoseconds that one thread needs for all iterations.
    rounds : equal parts of the iterations, one after the other, that read and write the same places
        of tensors in the same order, of other channels, or of other elements of transformed tiles;
        what differs most are the constants.
    computes : names of the model's tensors that it is for; none for a copy of what has no name.
    products : multiply-accumulates of all iterations; 0 where it sums no products.
    """

    symbol: str
    buffers: tuple[int, ...]
    iterations: int
    work: int
    rounds: int = 1
    computes: tuple[str, ...] = ()
    products: int = 0


@dataclass(frozen=True)
class InterpretedNode:
    """A node that `onnx.reference` runs: a serialized ONNX model of that node, and why.

    Its operands and results are tensors by name: buffers, or arrays without a static shape.
    """

    model: bytes
    op: str
    reason: str


@dataclass(frozen=True)
class Join:
    """Buffers of one dtype are copied one after the other along `axis` into the last of `buffers`:
    ONNX's Concat."""

    axis: int
    buffers: tuple[int, ...]


Step = CodeCall | InterpretedNode | Join


@dataclass(frozen=True)
class HostCode:
    """A part of a model that a processor runs.

    Attributes
    ----------
    buffers : all tensors in memory; those with a name by it in `names`.
    names : number of the buffer of each named tensor.
    inputs, outputs : names, in the model's order. An output without a buffer has no static shape.
    steps : in order.
    constants : they lie in the first bytes of the memory, `constant_bytes`.
    memory_bytes : size of the memory.
    objects : object code by level of the processor (`native.levels`), each with all symbols. All
        levels have the same steps and layouts; a part may have several codes.
    from_file : whether it was read from a file, so that somebody else may have written it.
    """

    buffers: tuple[HostBuffer, ...]
    names: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    constants: tuple[HostConstant, ...]
    memory_bytes: int
    objects: Mapping[str, tuple[bytes, ...]]
    from_file: bool = field(default=False, compare=False)

    @property
    def constant_bytes(self) -> int:
        """Before which all constants lie."""
        return max((item.end for item in self.constants), default=0)

    def put_constants(self, memory: npt.NDArray[np.uint8]) -> None:
        """Put all constants into a block of memory of zeros."""
        for item in self.constants:
            item.put(memory)

    def constant_data(self) -> bytes:
        """The first `constant_bytes` of the memory."""
        memory = np.zeros(self.constant_bytes, np.uint8)
        self.put_constants(memory)
        return memory.tobytes()

    def __repr__(self) -> str:
        levels = ", ".join(self.objects) or "no processor"
        return f"<HostCode of {len(self.steps)} steps, {self.memory_bytes:,} bytes, for {levels}>"

    @property
    def calls(self) -> tuple[CodeCall, ...]:
        """The steps that run compiled code."""
        return tuple(step for step in self.steps if isinstance(step, CodeCall))

    @property
    def interpreted(self) -> tuple[InterpretedNode, ...]:
        """The steps that are interpreted."""
        return tuple(step for step in self.steps if isinstance(step, InterpretedNode))
