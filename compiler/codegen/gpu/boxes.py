"""`Boxes`: copies of boxes of a tensor to shared memory, which the device does for one thread.

Each map of a kernel (`artifact.gpu_code.TensorMap`) is an argument after its addresses. Source:
NVIDIA, PTX ISA 8.0, "cp.async.bulk.tensor", "mbarrier".
"""

import math
from collections.abc import Sequence

from daedal.artifact.gpu_code import TensorMap
from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.expressions import Expressions
from daedal.compiler.codegen.llvm.places import LINE_BYTES
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load
from daedal.compiler.tir.lower.boxes import Box
from daedal.compiler.tir.stmt import BeginArrivals, ExpectBoxes, WaitForBoxes

__all__ = ["Boxes"]

MAX_EXTENT, MAX_DIMENSIONS = 256, 5
"""Of a box. Source: CUDA Driver API 13.0, "cuTensorMapEncodeTiled"."""


class Boxes:
    """Writes copies of boxes, and what counts them, into the text of a kernel.

    Attributes
    ----------
    maps : of the copies so far, each once.
    """

    def __init__(self, at: Expressions, parameters: Sequence[Buffer]) -> None:
        self._at = at
        self._parameters = tuple(parameters)
        self._arrival = ""
        self.maps: list[TensorMap] = []

    def begin(self, stmt: BeginArrivals) -> None:
        """See `stmt.BeginArrivals`, by one thread."""
        place = self._place(stmt.arrivals, IntImm(0))
        count = stmt.arrivals.shape[0]
        self._at.text.line(f"call void @gpu.arrivals.begin(ptr %gpu, {place}, i32 {count})")

    def expect(self, stmt: ExpectBoxes) -> None:
        """See `stmt.ExpectBoxes`, by one thread; the copies that follow are counted there."""
        self._arrival = self._place(stmt.arrivals, stmt.stage)
        given = f"ptr %gpu, {self._arrival}, i32 {stmt.size}"
        self._at.text.line(f"call void @gpu.arrivals.expect({given})")

    def wait(self, stmt: WaitForBoxes) -> None:
        """See `stmt.WaitForBoxes`."""
        place = self._place(stmt.arrivals, stmt.stage)
        turn = self._narrow(stmt.turn % 2)
        self._at.text.line(f"call void @gpu.arrivals.wait(ptr %gpu, {place}, i32 {turn})")

    def copy(self, box: Box) -> None:
        """Begin the copies of a box, one for each line of 128 bytes along its last dimension.

        Raises UnsupportedError for a box that no copy brings.
        """
        at, buffer = self._at, box.buffer
        size = ELEMENT_BYTES[buffer.dtype]
        line = LINE_BYTES // size
        source = box.source
        shape = source.buffer.shape
        kept = [n for n, extent in enumerate(shape) if extent > 1] or [0]
        *others, last = (box.extents[n] for n in kept)
        rows = math.prod(others)
        lines = last // line
        row_bytes, panel = at.panels.get(buffer, (LINE_BYTES, rows))
        fits = last % line == 0 and (row_bytes, panel) == (lines * LINE_BYTES, rows)
        if not fits or len(kept) > MAX_DIMENSIONS or max(others, default=1) > MAX_EXTENT:
            raise UnsupportedError(
                f"copies of boxes must bring lines of 128 bytes, at most {MAX_EXTENT} along each "
                f"of {MAX_DIMENSIONS} dimensions, and that of {buffer.name!r} brings "
                f"{box.extents} elements; stage it without boxes"
            )
        extents = (*others, line)
        number = self._map(source.buffer, [shape[n] for n in kept], extents)
        target = at.address(buffer, at.place(Load(buffer, box.indices)))
        coordinates = [self._narrow(source.indices[n]) for n in kept[:-1]][::-1]
        for part in range(lines):
            first = self._narrow(source.indices[kept[-1]] + part * line)
            to = at.text.value(f"getelementptr i8, {target}, i64 {part * rows * LINE_BYTES}")
            given = ", ".join(f"i32 {item}" for item in (first, *coordinates))
            name = f"@gpu.box.copy.{len(extents)}d"
            places = f"ptr addrspace(3) {to}, ptr %m{number}, {self._arrival}"
            at.text.line(f"call void {name}(ptr %gpu, {places}, {given})")

    def _map(self, buffer: Buffer, shape: Sequence[int], box: tuple[int, ...]) -> int:
        argument = self._parameters.index(buffer)
        found = TensorMap(argument, buffer.dtype, tuple(shape), box)
        if found not in self.maps:
            self.maps.append(found)
        return self.maps.index(found)

    def _place(self, buffer: Buffer, index: Expr) -> str:
        return self._at.address(buffer, self._at.place(Load(buffer, (index,))))

    def _narrow(self, index: Expr) -> str:
        value = self._at.index(index)
        return self._at.text.value(f"trunc i64 {value.text} to i32")
