"""Pieces of kernels in LLVM's text: accesses that are announced, of shared and of global memory."""

__all__ = ["load", "place", "shared_place", "store"]


def shared_place(name: str, index: str, size: int = 4) -> str:
    """``%name``: the address of element `index` of shared memory, ``%name.g`` for generic use."""
    return (
        f"  %{name}.b = call ptr addrspace(3) @gpu.shared(ptr %gpu)\n"
        f"  %{name}.o = mul i64 {index}, {size}\n"
        f"  %{name} = getelementptr i8, ptr addrspace(3) %{name}.b, i64 %{name}.o\n"
        f"  %{name}.g = addrspacecast ptr addrspace(3) %{name} to ptr\n"
    )


def place(name: str, base: str, index: str, size: int = 4) -> str:
    """The same for an element of a parameter."""
    return (
        f"  %{name}.o = mul i64 {index}, {size}\n"
        f"  %{name}.g = getelementptr i8, ptr {base}, i64 %{name}.o\n"
    )


def load(value: str, name: str, site: int, kind: str = "float", size: int = 4) -> str:
    """``%value`` from ``%name.g``, announced."""
    return (
        f"  call void @gpu.read(ptr %gpu, ptr %{name}.g, i32 {size}, i32 {site})\n"
        f"  %{value} = load {kind}, ptr %{name}.g, align {size}\n"
    )


def store(value: str, name: str, site: int, kind: str = "float", size: int = 4) -> str:
    """The operand `value` to ``%name.g``, announced."""
    return (
        f"  call void @gpu.write(ptr %gpu, ptr %{name}.g, i32 {size}, i32 {site})\n"
        f"  store {kind} {value}, ptr %{name}.g, align {size}\n"
    )
