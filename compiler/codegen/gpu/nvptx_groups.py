"""`GROUP_OPERATIONS`: the bodies of products of groups of warps, which GPUs of sm_90a have.

The products are in no intrinsic of LLVM's back end. They go on after their instruction, and their
registers must not be touched in the meantime: fences and waits therefore name all of them, too, as
operands that they may change. Source: NVIDIA, PTX ISA 8.0, "wgmma.mma_async", "wgmma.fence",
"wgmma.wait_group", "Matrix Descriptor Format", "membar/fence".
"""

from daedal.compiler.codegen.gpu.nvptx_operations import operation_body
from daedal.compiler.tir.warp_products import COLUMNS, GROUP_PRODUCTS, WarpProduct

__all__ = ["GROUP_OPERATIONS"]

_SHARED = "ptr addrspace(3)"
_KINDS = {"float32": ("float", "f", "f32"), "int32": ("i32", "r", "i32")}
"""Of sums: in LLVM, as an operand of an instruction, and in names."""
_TYPES = {"float16": "f32.f16.f16", "bfloat16": "f32.bf16.bf16", "int8": "s32.s8.s8"}
"""Of sums and operands, in PTX."""
_GIVEN = ("ptr %sums", "i64 %row", "i64 %column")
"""The sums of a thread, and the distances of rows and columns."""
_ADDRESS_BITS, _UNIT_BITS = 18, 4
_SWIZZLE_128 = 1 << 62


def _sums(dtype: str, columns: int, instruction: str, more: str = "") -> list[str]:
    """An instruction that may change all sums of a thread; `more` are operands after them."""
    kind, letter, _ = _KINDS[dtype]
    count = columns // 2
    result = "{" + ", ".join([kind] * count) + "}"
    lines = ["%lower = getelementptr " + kind + ", ptr %sums, i64 %row"]
    for number in range(count):
        base = "%lower" if number % 4 // 2 else "%sums"
        place = number // 4 * COLUMNS + number % 2
        lines.append(f"%o{number} = mul i64 %column, {place}")
        lines.append(f"%p{number} = getelementptr {kind}, ptr {base}, i64 %o{number}")
        lines.append(f"%v{number} = load {kind}, ptr %p{number}")
    constraints = [f"={letter}"] * count + ["l"] * more.count("i64") + [*map(str, range(count))]
    given = [*([more] if more else []), *(f"{kind} %v{number}" for number in range(count))]
    lines.append(
        f'%r = call {result} asm sideeffect "{instruction}", '
        f'"{",".join((*constraints, "~{memory}"))}"({", ".join(given)})'
    )
    for number in range(count):
        lines.append(f"%e{number} = extractvalue {result} %r, {number}")
        lines.append(f"store {kind} %e{number}, ptr %p{number}")
    return [*lines, "ret void"]


def _product(product: WarpProduct, majors: str) -> str:
    count = product.columns // 2
    registers = ", ".join(f"${number}" for number in range(count))
    shape = f"m64n{product.columns}k{product.depth}"
    # Added to what the sums are; operands of 16 bits: not negated, and how they lie.
    scales = "1"
    if product.dtype != "int8":
        scales += ", 1, 1, " + ", ".join("01"[letter == "m"] for letter in majors)
    instruction = (
        f"wgmma.mma_async.sync.aligned.{shape}.{_TYPES[product.dtype]} "
        f"{{{registers}}}, ${count}, ${count + 1}, {scales};"
    )
    lines = _sums(product.sums, product.columns, instruction, "i64 %a, i64 %b")
    given = ("i64 %a", "i64 %b", *_GIVEN)
    return operation_body(f"{product.name}.{majors}", "void", given, lines, "convergent ")


def _of_sums(name: str, dtype: str, columns: int, instruction: str) -> tuple[str, str]:
    full = f"wgmma.{name}.n{columns}.{_KINDS[dtype][2]}"
    lines = _sums(dtype, columns, instruction)
    return f"gpu.{full}", operation_body(full, "void", _GIVEN, lines, "convergent ")


def _matrix() -> str:
    """The descriptor of a matrix: its address, the distances of panels and of eight lines, all in
    units of 16 bytes, and the swizzle of 128 bytes."""
    lines = (
        f"%whole = ptrtoint {_SHARED} %at to i32",
        f"%address = and i32 %whole, {(1 << _ADDRESS_BITS) - 1}",
        f"%unit = lshr i32 %address, {_UNIT_BITS}",
        "%low = zext i32 %unit to i64",
        f"%first = shl i64 %leading, {16 - _UNIT_BITS}",
        f"%second = shl i64 %stride, {32 - _UNIT_BITS}",
        "%steps = or i64 %first, %second",
        "%all = or i64 %low, %steps",
        f"%result = or i64 %all, {_SWIZZLE_128}",
        "ret i64 %result",
    )
    given = (f"{_SHARED} %at", "i64 %leading", "i64 %stride")
    return operation_body("matrix", "i64", given, lines)


def _wait() -> str:
    """The instruction has the number in it."""
    lines = ["switch i32 %newest, label %wait0 [ i32 1, label %wait1 ]"]
    for number in range(2):
        text = f'"wgmma.wait_group.sync.aligned {number};", "~{{memory}}"'
        lines += [f"wait{number}:", f"call void asm sideeffect {text}()", "ret void"]
    return operation_body("wgmma.wait", "void", ("i32 %newest",), lines, "convergent ")


def _alone(name: str, instruction: str) -> str:
    lines = (f'call void asm sideeffect "{instruction}", "~{{memory}}"()', "ret void")
    return operation_body(name, "void", (), lines, "convergent ")


def _begin_arrivals() -> str:
    """One arrival ends each phase: that of the thread which expects bytes. Copies are told."""
    lines = (
        "br label %loop",
        "loop:",
        "%number = phi i32 [ 0, %0 ], [ %more, %loop ]",
        f"%place = getelementptr i64, {_SHARED} %at, i32 %number",
        f'call void asm sideeffect "mbarrier.init.shared::cta.b64 [$0], 1;", "r,~{{memory}}"'
        f"({_SHARED} %place)",
        "%more = add i32 %number, 1",
        "%again = icmp ult i32 %more, %count",
        "br i1 %again, label %loop, label %done",
        "done:",
        'call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()',
        "ret void",
    )
    return operation_body("arrivals.begin", "void", (f"{_SHARED} %at", "i32 %count"), lines)


def _expect() -> str:
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    lines = (
        f'call void asm sideeffect "{text}", "r,r,~{{memory}}"({_SHARED} %at, i32 %bytes)',
        "ret void",
    )
    return operation_body("arrivals.expect", "void", (f"{_SHARED} %at", "i32 %bytes"), lines)


def _wait_for_arrival() -> str:
    text = (
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; "
        "selp.b32 $0, 1, 0, p; }"
    )
    lines = (
        "br label %loop",
        "loop:",
        f'%done = call i32 asm sideeffect "{text}", "=r,r,r,~{{memory}}"'
        f"({_SHARED} %at, i32 %parity)",
        "%is.done = icmp ne i32 %done, 0",
        "br i1 %is.done, label %end, label %loop",
        "end:",
        "ret void",
    )
    given = (f"{_SHARED} %at", "i32 %parity")
    return operation_body("arrivals.wait", "void", given, lines)


def _box_copy(rank: int) -> str:
    numbers = range(rank)
    coordinates = ", ".join(f"${number + 3}" for number in numbers)
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[$0], [$1, {{{coordinates}}}], [$2];"
    )
    given = (f"{_SHARED} %to", "ptr %map", f"{_SHARED} %at", *(f"i32 %c{n}" for n in numbers))
    constraints = ",".join(("r", "l", "r", *["r"] * rank, "~{memory}"))
    lines = (f'call void asm sideeffect "{text}", "{constraints}"({", ".join(given)})', "ret void")
    return operation_body(f"box.copy.{rank}d", "void", given, lines)


GROUP_OPERATIONS: dict[str, str] = {
    "gpu.matrix": _matrix(),
    "gpu.fence.copies": _alone("fence.copies", "fence.proxy.async.shared::cta;"),
    "gpu.wgmma.commit": _alone("wgmma.commit", "wgmma.commit_group.sync.aligned;"),
    "gpu.wgmma.wait": _wait(),
    "gpu.arrivals.begin": _begin_arrivals(),
    "gpu.arrivals.expect": _expect(),
    "gpu.arrivals.wait": _wait_for_arrival(),
    **{f"gpu.box.copy.{rank}d": _box_copy(rank) for rank in range(1, 6)},
    **{
        f"gpu.{product.name}.{majors}": _product(product, majors)
        for product in GROUP_PRODUCTS.values()
        for majors in (("kk", "km", "mk", "mm") if product.dtype != "int8" else ("kk",))
    },
    **dict(
        _of_sums(name, dtype, columns, instruction)
        for dtype, columns in {(item.sums, item.columns): 0 for item in GROUP_PRODUCTS.values()}
        for name, instruction in (
            ("fence", "wgmma.fence.sync.aligned;"),
            ("finish", "wgmma.wait_group.sync.aligned 0;"),
        )
    ),
}
"""By name."""
