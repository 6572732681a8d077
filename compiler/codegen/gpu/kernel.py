"""`kernel_text`: a scheduled function as a kernel.

Loops bound to the axes of the grid become coordinates. A block of loop IR that is under no loop of
some thread axis is executed by the first thread of that axis alone. Buffers in shared memory lie
one after the other; `local` ones are in registers.
"""

from collections.abc import Iterator

from daedal.artifact.gpu_code import TensorMap
from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.boxes import Boxes
from daedal.compiler.codegen.gpu.group_products import GroupProducts
from daedal.compiler.codegen.gpu.kernel_text import (
    GROUP_ALIGN,
    PARAMETER_ALIGN,
    SHARED_ALIGN,
    KernelText,
)
from daedal.compiler.codegen.gpu.operations import Operations, function
from daedal.compiler.codegen.gpu.warp_products import write_product
from daedal.compiler.codegen.llvm.function import declarations
from daedal.compiler.codegen.llvm.places import LINE_BYTES
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.codegen.llvm.statements import Statements
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.lower import lower_kernel
from daedal.compiler.tir.lower.boxes import BOX, box_of
from daedal.compiler.tir.lower.chunks import ASYNCHRONOUS, chunk_of
from daedal.compiler.tir.lower.threads import THREAD_AXES, has_threads
from daedal.compiler.tir.stmt import (
    GPU_AXES,
    Allocate,
    Barrier,
    BeginArrivals,
    BufferStore,
    CommitCopies,
    CommitProducts,
    ExpectBoxes,
    FenceSums,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)
from daedal.compiler.tir.visit import free_vars
from daedal.compiler.tir.warp_products import WARP_THREADS, WarpProduct, product_at

__all__ = ["MAX_LOCAL_BYTES", "RESIDENT", "kernel_text"]

SWIZZLE, PANELS = "swizzle", "panels"
"""Annotations of an allocation in shared memory: see `Schedule.swizzle`."""
RESIDENT = "resident"
"""The annotation of a loop of blocks: see `KernelText`."""
BLOCK_AXES = ("block.x", "block.y", "block.z")
MOST_REGISTERS, COPY_REGISTERS, PRODUCT_REGISTERS = 64, 16, 4
"""Of what iterations of a loop that run together compute; of a copy: two addresses, their parts,
and an element; of a thread's sums of a product of matrices."""
MAX_LOCAL_BYTES = 1 << 12
"""Of one thread: more can be in no registers."""


def kernel_text(func: PrimFunc, symbol: str, *, checked: bool = False) -> KernelText:
    """The kernel `symbol` of a function whose loops are bound to the axes of a GPU.

    Parameters
    ----------
    checked : whether each access of memory that threads share is announced (``@gpu.read``,
        ``@gpu.write``), for the emulator's race detector.

    Raises UnsupportedError for what has no code, and where threads would race.
    """
    lowered = lower_kernel(func)
    writer = _Kernel(lowered, checked)
    body = writer.written()
    parameters = "".join(
        f", ptr noalias align {PARAMETER_ALIGN} "
        f"{'' if buffer in func.outputs else 'readonly '}%a{number}"
        for number, buffer in enumerate(func.params)
    )
    parameters += "".join(f", ptr readonly %m{number}" for number in range(len(writer.maps)))
    text = (
        f"define internal void @body(ptr %gpu{parameters}) #0 {{\n{body}\n}}\n\n"
        f"attributes #0 = {{ alwaysinline nounwind }}\n{writer.metadata}"
    )
    extents = _extents(lowered)
    x, y, z = (extents.get(axis, 1) for axis in BLOCK_AXES)
    block = tuple(extents.get(axis, 1) for axis in THREAD_AXES)
    return KernelText(
        symbol,
        declarations(text) + text,
        (x, y, z),
        (block[0], block[1], block[2]),
        writer.shared_bytes,
        len(func.params),
        writer.local_bytes,
        max((int(loop.annotations.get(RESIDENT, 0)) for loop in _loops(lowered.body)), default=0),
        writer.maps,
    )


def _extents(func: PrimFunc) -> dict[str, int]:
    """Of the axes of the grid that loops are bound to."""
    found: dict[str, int] = {}
    for loop in _loops(func.body):
        if loop.kind in GPU_AXES and found.setdefault(loop.kind, loop.extent) != loop.extent:
            raise UnsupportedError(
                f"loops along an axis of the grid must have one extent, and those along {loop.kind}"
                f" have {found[loop.kind]} and {loop.extent}; split them alike"
            )
    return found


def _loops(stmt: Stmt) -> Iterator[For]:
    match stmt:
        case Seq(body):
            for part in body:
                yield from _loops(part)
        case For(_, _, body):
            yield stmt
            yield from _loops(body)
        case Allocate(_, body) | If(_, body):
            yield from _loops(body)


class _Kernel(Statements):
    """Writes a kernel.

    Attributes
    ----------
    shared_bytes : of the shared buffers so far.
    local_bytes : of the local ones.
    """

    def __init__(self, func: PrimFunc, checked: bool) -> None:
        pointers = {buffer: f"ptr %a{number}" for number, buffer in enumerate(func.params)}
        super().__init__(func.name, pointers)
        self._operations = Operations(self.text)
        self.at.library = function
        if checked:
            self.at.announce = self._operations.announce
        self._body = func.body
        with self.text.at(self.at.places[0]):
            self._coordinates = {
                axis: self._operations.coordinate(axis)
                for axis, extent in _extents(func).items()
                if extent > 1
            }
        self._bound: set[str] = set()
        self._lane: Var | None = None
        self._warp: Var | None = None
        self._groups = GroupProducts(self.at)
        self._boxes = Boxes(self.at, func.params)
        products = map(product_at, _loops(func.body))
        self._has_groups = any(item is not None and item.warps > 1 for item in products)
        self._metadata: list[int] = []
        self._num_steps = 0
        self.local_bytes = 0
        self.shared_bytes = 0

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        """Of the copies of boxes."""
        return tuple(self._boxes.maps)

    def written(self) -> str:
        """The body of the kernel."""
        self.write(self._body)
        self.text.leave("ret void")
        return self.text.body()

    def write(self, stmt: Stmt) -> None:
        """See `Statements.write`."""
        match stmt:
            case Allocate(allocations):
                for item in allocations:
                    if SWIZZLE in item.annotations:
                        self.at.swizzles[item.buffer] = int(item.annotations[SWIZZLE])
                    if PANELS in item.annotations:
                        self.at.panels[item.buffer] = _panels(item.buffer)
                super().write(stmt)
            case Barrier():
                self._operations.barrier()
            case CommitCopies():
                self._operations.commit()
            case WaitForCopies(newest, _, fenced):
                self._operations.wait(newest)
                if fenced:
                    self._operations.fence_copies()
            case WaitForBoxes():
                self._boxes.wait(stmt)
            case FenceSums(sums):
                self._groups.fence(sums)
            case CommitProducts():
                self._operations.commit_products()
            case WaitForProducts(newest, sums):
                self._groups.wait(newest, sums)
            case For() if stmt.kind in GPU_AXES:
                self._bind(stmt)
            case _ if not has_threads(stmt) and (missing := self._missing()):
                self._first_alone(stmt, missing)
            case BeginArrivals():
                self._boxes.begin(stmt)
            case ExpectBoxes():
                self._boxes.expect(stmt)
            case For() if BOX in stmt.annotations:
                box = box_of(stmt)
                assert box is not None
                self._boxes.copy(box)
            case For() if ASYNCHRONOUS in stmt.annotations:
                self._copy(stmt)
            case For() if (product := product_at(stmt)) is not None:
                self._product(product, stmt)
            case For(kind="serial") if _synchronizes(stmt.body):
                self._num_steps += 1
                super().write(stmt)
                self._num_steps -= 1
            case _:
                super().write(stmt)

    def loop_notes(self, loop: For) -> str:
        """See `Statements.loop_notes`; loops of steps stay loops, and of a step, few iterations run
        together: ptxas loads for as many as there are, and registers do not suffice."""
        if _synchronizes(loop.body):
            return self._note(1)
        each = _registers(loop.body)
        is_long = each * loop.extent > MOST_REGISTERS
        if self._num_steps and is_long and not _is_element(loop.var, loop.body):
            return self._note(max(1, MOST_REGISTERS // each))
        return ""

    def _note(self, count: int) -> str:
        """That `count` iterations of a loop become one, and no more."""
        self._metadata.append(count)
        return f", !llvm.loop !{2 * len(self._metadata) - 1}"  # 0 is for the entry

    @property
    def metadata(self) -> str:
        """What the notes refer to."""
        text = ""
        for number, count in enumerate(self._metadata):
            n = 1 + 2 * number
            note = '"llvm.loop.unroll.count"' + f", i32 {count}"
            if count == 1:
                note = '"llvm.loop.unroll.disable"'
            text += f"!{n} = distinct !{{!{n}, !{n + 1}}}\n!{n + 1} = !{{!{note}}}\n"
        return text

    def _bind(self, loop: For) -> None:
        """The iteration that the thread or its block runs."""
        self.at.extents[loop.var] = loop.extent
        self.at.values[loop.var] = self._coordinates.get(loop.kind, 0)
        bound, self._bound = self._bound, self._bound | {loop.kind}
        lane, warp = self._lane, self._warp
        if loop.kind == THREAD_AXES[0]:
            self._lane = loop.var
        if loop.kind == THREAD_AXES[1]:
            self._warp = loop.var
        self.write(loop.body)
        self._bound, self._lane, self._warp = bound, lane, warp
        del self.at.values[loop.var]

    def _product(self, product: WarpProduct, nest: For) -> None:
        """A product of matrices, by whole warps or groups of these."""
        lane = self._lane
        assert lane is not None and self.at.extents[lane] == WARP_THREADS, nest
        if product.warps > 1:
            assert self._warp is not None, nest
            self._groups.write(product, nest, lane, self._warp)
            return
        write_product(self.at, product, nest, lane)

    def _copy(self, loop: For) -> None:
        """One asynchronous copy."""
        at, chunk = self.at, chunk_of(loop)
        assert chunk is not None, loop
        valid = str(chunk.size)
        if chunk.condition is not None:
            inside = at.scalar(chunk.condition)
            valid = self.text.value(f"select {inside}, i32 {chunk.size}, i32 0")
        to, source = (at.address(item.buffer, at.place(item)) for item in (chunk, chunk.source))
        self._operations.copy(to, source, chunk.size, valid)

    def _missing(self) -> list[str]:
        """Thread axes of the kernel that no loop around is bound to."""
        axes = (axis for axis in self._coordinates if axis in THREAD_AXES)
        return [axis for axis in axes if axis not in self._bound]

    def _first_alone(self, stmt: Stmt, missing: list[str]) -> None:
        text, after = self.text, self.text.label()
        for axis in missing:
            first, inside = text.value(f"icmp eq i64 {self._coordinates[axis]}, 0"), text.label()
            text.branch(first, inside, after)
            text.start(inside)
        bound, self._bound = self._bound, self._bound | set(missing)
        self.write(stmt)
        self._bound = bound
        text.start(after)

    def allocate(self, buffer: Buffer) -> None:
        """See `Statements.allocate`; shared memory for buffers of that scope."""
        if buffer.scope == "shared":
            self._share(buffer)
            return
        if buffer.scope != "local":
            raise UnsupportedError(
                "buffers inside a kernel must be in scope shared, local or fragment, and "
                f"{buffer.name!r} is in {buffer.scope!r}; set its scope"
            )
        self.local_bytes += buffer_bytes(buffer)
        if self.local_bytes > MAX_LOCAL_BYTES:
            raise UnsupportedError(
                f"buffers of one thread must have at most {MAX_LOCAL_BYTES} bytes, not "
                f"{self.local_bytes} ({buffer.name!r}); schedule smaller tiles"
            )
        super().allocate(buffer)

    def _share(self, buffer: Buffer) -> None:
        align = GROUP_ALIGN if self._has_groups and buffer in self.at.swizzles else SHARED_ALIGN
        first = -(-self.shared_bytes // align) * align
        size = buffer_bytes(buffer)
        if buffer in self.at.swizzles:  # which permutes whole lines
            size = -(-size // SHARED_ALIGN) * SHARED_ALIGN
        self.shared_bytes = first + size
        with self.text.at(self.at.places[0]):
            self.at.pointers[buffer] = self._operations.shared(first)


def _panels(buffer: Buffer) -> tuple[int, int]:
    """Bytes of a row, and rows, of a buffer whose rows are cut into lines."""
    extents = [extent for extent in buffer.shape if extent > 1] or [1]
    row_bytes, rows = extents[-1] * ELEMENT_BYTES[buffer.dtype], extents[-2:][0]
    if row_bytes < LINE_BYTES or any(size & (size - 1) for size in (row_bytes, rows)):
        raise UnsupportedError(
            f"rows in panels must be whole lines, and powers of two, and those of {buffer.name!r} "
            f"are {rows} of {row_bytes} bytes; leave the panels out"
        )
    return row_bytes, rows


def _synchronizes(stmt: Stmt) -> bool:
    """Whether a statement has barriers, or groups of asynchronous copies end in it."""
    match stmt:
        case CommitCopies() | Barrier() | CommitProducts():
            return True
        case Seq(body):
            return any(map(_synchronizes, body))
        case For(_, _, body) | Allocate(_, body) | If(_, body):
            return _synchronizes(body)
    return False


def _is_element(var: Var, stmt: Stmt) -> bool:
    """Whether a loop is along a buffer in registers, whose elements must then have numbers."""
    match stmt:
        case Seq(body):
            return any(_is_element(var, part) for part in body)
        case For(_, _, body) | Allocate(_, body) | If(_, body):
            return _is_element(var, body)
        case BufferStore(buffer, indices):
            return buffer.scope == "local" and any(var in free_vars(index) for index in indices)
    return False


def _registers(stmt: Stmt) -> int:
    """About how many the iterations of a loop in a step have for themselves: of elements that they
    store in registers, and of copies to shared memory."""
    match stmt:
        case Seq(body):
            return sum(map(_registers, body))
        case For(_, _, body) if stmt.kind in GPU_AXES:
            return _registers(body)
        case For() if product_at(stmt) is not None:
            return PRODUCT_REGISTERS
        case For() if ASYNCHRONOUS in stmt.annotations:
            return COPY_REGISTERS
        case For(_, _, BufferStore(buffer), "vectorize") if buffer.scope == "shared":
            return COPY_REGISTERS
        case For(_, extent, body):
            return _registers(body) * extent
        case Allocate(_, body) | If(_, body):
            return _registers(body)
        case BufferStore(buffer):
            return {"local": 1, "shared": COPY_REGISTERS}.get(buffer.scope, 0)
    return 0


def buffer_bytes(buffer: Buffer) -> int:
    """The size of a buffer in memory."""
    count = ELEMENT_BYTES[buffer.dtype]
    for extent in buffer.shape:
        count *= extent
    return count
