"""`Operations`: calls of ``@gpu.*``, which every target gives a body.

Source of their meaning: NVIDIA, PTX ISA 8.0, "Special Registers", "bar.sync", "cp.async".
"""

from daedal.compiler.codegen.llvm.intrinsics import by_lanes
from daedal.compiler.codegen.llvm.scalars import Value, suffix
from daedal.compiler.tir.expr import Buffer
from daedal.native.function_text import FunctionText

__all__ = ["Operations", "function"]


class Operations:
    """Writes operations into the text of a kernel; `site` numbers the places in it."""

    def __init__(self, text: FunctionText) -> None:
        self._text = text
        self._sites = 0

    def coordinate(self, axis: str) -> str:
        """The coordinate of this thread in its block, or of its block in the grid."""
        return self._text.value(f"call i64 @gpu.{axis}(ptr %gpu)")

    def barrier(self) -> None:
        """All threads of the block wait for each other."""
        self._text.line(f"call void @gpu.barrier(ptr %gpu, i32 {self._site()})")

    def shared(self, first: int) -> str:
        """The address of a byte of the block's shared memory, with its type."""
        kind = "ptr addrspace(3)"
        base = self._text.value(f"call {kind} @gpu.shared(ptr %gpu)")
        return f"{kind} {self._text.value(f'getelementptr i8, {kind} {base}, i64 {first}')}"

    def copy(self, to: str, source: str, size: int, valid: str) -> None:
        """Begin a copy of `size` bytes to shared memory, of which `valid` are read and the others
        are zeros; addresses have their types."""
        given = f"ptr %gpu, {to}, {source}, i32 {size}, i32 {valid}"
        self._text.line(f"call void @gpu.copy({given})")

    def commit(self) -> None:
        """The copies that were begun since the last commit become a group."""
        self._text.line("call void @gpu.commit(ptr %gpu)")

    def wait(self, newest: int) -> None:
        """All groups of this thread land, but for the newest ones."""
        self._text.line(f"call void @gpu.wait(ptr %gpu, i32 {newest})")

    def fence_copies(self) -> None:
        """What this thread has written to shared memory is there for products of groups of warps
        that begin behind the next barrier."""
        self._text.line("call void @gpu.fence.copies(ptr %gpu)")

    def commit_products(self) -> None:
        """The products of this group of warps since the last commit become a group."""
        self._text.line("call void @gpu.wgmma.commit(ptr %gpu)")

    def announce(self, buffer: Buffer, address: str, size: int, is_store: bool) -> None:
        """Tell the race detector of an access of `size` bytes; `address` has its type."""
        if buffer.scope == "local":
            return
        if "addrspace" in address:
            address = f"ptr {self._text.value(f'addrspacecast {address} to ptr')}"
        name = "write" if is_store else "read"
        given = f"ptr %gpu, {address}, i32 {size}, i32 {self._site()}"
        self._text.line(f"call void @gpu.{name}({given})")

    def _site(self) -> int:
        self._sites += 1
        return self._sites - 1


def function(text: FunctionText, name: str, arguments: list[Value]) -> Value:
    """A function of floats, which targets have each in their own way."""
    return by_lanes(text, f"gpu.{name}{suffix(arguments[0].dtype, 0)}", arguments)
