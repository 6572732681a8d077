"""The bodies of the operations that kernels call, as LLVM's text.

Coordinates and addresses are read from the thread's row; what waits says so in it, and goes to the
scheduler; accesses and asynchronous copies are calls of kernels (`races`, `copies`).
"""

from daedal.native.calls import kernel_symbol
from daedal.native.kernel import Kernel
from daedal.sim.gpu.boxes import begin_arrivals, begin_box, expect_boxes
from daedal.sim.gpu.copies import begin_copy, wait_for_copies
from daedal.sim.gpu.groups import Argument, Elements
from daedal.sim.gpu.races import access
from daedal.sim.gpu.thread import ARGUMENT_WORDS, RESULT_WORD, Slot, State, Waiting

__all__ = ["ROOTS", "operations_text"]

ROOTS: tuple[Kernel, ...] = (
    access,
    begin_copy,
    wait_for_copies,
    begin_arrivals,
    expect_boxes,
    begin_box,
)
"""Kernels that operations call."""

_COORDINATES = {
    "thread.x": Slot.THREAD_X,
    "thread.y": Slot.THREAD_Y,
    "thread.z": Slot.THREAD_Z,
    "block.x": Slot.BLOCK_X,
    "block.y": Slot.BLOCK_Y,
    "block.z": Slot.BLOCK_Z,
}

_FUNCTIONS = {
    1: "exp exp2 log log2 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf",
    2: "pow",
}
"""Functions of the C library by their number of operands."""


def _field(slot: Slot, kind: str = "i64") -> str:
    """Reads a slot of the row."""
    name = f"%{slot.name.lower()}"
    return (
        f"  {name}.at = getelementptr i64, ptr %gpu, i64 {slot:d}\n"
        f"  {name} = load {kind}, ptr {name}.at, align 8\n"
    )


def _coordinates() -> str:
    return "".join(
        f"define i64 @gpu.{name}(ptr %gpu) {{\n{_field(slot)}  ret i64 %{slot.name.lower()}\n}}\n"
        for name, slot in _COORDINATES.items()
    )


def _shared() -> str:
    return (
        f"define ptr addrspace(3) @gpu.shared(ptr %gpu) {{\n{_field(Slot.SHARED)}"
        "  %base = inttoptr i64 %shared to ptr addrspace(3)\n"
        "  ret ptr addrspace(3) %base\n}\n"
    )


def _barrier() -> str:
    return (
        "define void @gpu.barrier(ptr %gpu, i32 %place) {\n"
        f"  %site.at = getelementptr i64, ptr %gpu, i64 {Slot.SITE:d}\n"
        "  %wide = sext i32 %place to i64\n"
        "  store i64 %wide, ptr %site.at, align 8\n"
        f"  call void @gpu.leave(ptr %gpu, i64 {State.BARRIER:d})\n"
        "  ret void\n}\n"
    )


def checked_call(kernel: Kernel, arguments: str) -> str:
    """Calls a kernel with the launch and the thread; leaves for good where it gives False."""
    return (
        f"{_field(Slot.LAUNCH, 'ptr')}{_field(Slot.NUMBER)}"
        f"  %fine = call i1 {kernel_symbol(kernel)}(ptr %launch, i64 %number{arguments})\n"
        "  br i1 %fine, label %done, label %stop\n"
        "stop:\n"
        f"  call void @gpu.leave(ptr %gpu, i64 {State.ENDED:d})\n"
        "  unreachable\n"
        "done:\n"
    )


def _access(name: str, is_write: bool) -> str:
    flag = "true" if is_write else "false"
    return (
        f"define void @gpu.{name}(ptr %gpu, ptr %address, i32 %bytes, i32 %place) {{\n"
        "  %from = ptrtoint ptr %address to i64\n"
        "  %count = zext i32 %bytes to i64\n"
        "  %wide = sext i32 %place to i64\n"
        f"{checked_call(access, f', i64 %from, i64 %count, i64 %wide, i1 {flag}')}"
        "  ret void\n}\n"
    )


def _copies() -> str:
    given = ", i64 %target, i64 %source, i64 %size, i64 %valid"
    return (
        "define void @gpu.copy(\n"
        "    ptr %gpu, ptr addrspace(3) %to, ptr %from, i32 %bytes, i32 %valid_bytes) {\n"
        "  %target = ptrtoint ptr addrspace(3) %to to i64\n"
        "  %source = ptrtoint ptr %from to i64\n"
        "  %size = sext i32 %bytes to i64\n"
        "  %valid = sext i32 %valid_bytes to i64\n"
        f"{checked_call(begin_copy, given)}"
        "  ret void\n}\n"
        f"define void @gpu.commit(ptr %gpu) {{\n{_field(Slot.GROUPS)}"
        "  %more = add i64 %groups, 1\n"
        "  store i64 %more, ptr %groups.at, align 8\n"
        "  ret void\n}\n"
        "define void @gpu.wait(ptr %gpu, i32 %newest) {\n"
        f"{_field(Slot.LAUNCH, 'ptr')}{_field(Slot.NUMBER)}"
        "  %wide = sext i32 %newest to i64\n"
        f"  call void {kernel_symbol(wait_for_copies)}(ptr %launch, i64 %number, i64 %wide)\n"
        "  ret void\n}\n"
    )


def _matrix() -> str:
    """A descriptor as `groups.matrix_byte` reads it, from the begin of the shared memory on."""
    return (
        "define i64 @gpu.matrix(ptr %gpu, ptr addrspace(3) %at, i64 %leading, i64 %stride) {\n"
        f"{_field(Slot.SHARED)}"
        "  %from = ptrtoint ptr addrspace(3) %at to i64\n"
        "  %offset = sub i64 %from, %shared\n"
        "  %unit = lshr i64 %offset, 4\n"
        "  %first = shl i64 %leading, 12\n"
        "  %second = shl i64 %stride, 28\n"
        "  %steps = or i64 %first, %second\n"
        "  %all = or i64 %unit, %steps\n"
        "  ret i64 %all\n}\n"
        f"define void @gpu.fence.copies(ptr %gpu) {{\n{_field(Slot.FENCES)}"
        "  %more = add i64 %fences, 1\n"
        "  store i64 %more, ptr %fences.at, align 8\n"
        "  ret void\n}\n"
    )


def _boxes() -> str:
    at = "  %place = ptrtoint ptr addrspace(3) %at to i64\n"
    counted = "  %wide = sext i32 %count to i64\n"
    parts = [
        f"define void @gpu.arrivals.{name}(ptr %gpu, ptr addrspace(3) %at, i32 %count) {{\n"
        f"{at}{counted}{checked_call(called, ', i64 %place, i64 %wide')}  ret void\n}}\n"
        for name, called in (("begin", begin_arrivals), ("expect", expect_boxes))
    ]
    parts.append(
        "define void @gpu.arrivals.wait(ptr %gpu, ptr addrspace(3) %at, i32 %count) {\n"
        f"{at}{counted}"
        f"  %first = getelementptr i64, ptr %gpu, i64 {Slot.EXCHANGE:d}\n"
        f"  %second = getelementptr i64, ptr %gpu, i64 {Slot.EXCHANGE + 1:d}\n"
        "  store i64 %place, ptr %first, align 8\n"
        "  store i64 %wide, ptr %second, align 8\n"
        f"  call void @gpu.leave(ptr %gpu, i64 {State.ARRIVAL:d})\n"
        "  ret void\n}\n"
    )
    for rank in range(1, 6):
        given = "".join(f", i32 %c{number}" for number in range(rank))
        wide = "".join(f"  %w{n} = sext i32 %c{n} to i64\n" for n in range(rank))
        words = "".join(f", i64 {f'%w{n}' if n < rank else 0}" for n in range(5))
        parts.append(
            f"define void @gpu.box.copy.{rank}d(\n"
            f"    ptr %gpu, ptr addrspace(3) %to, ptr %map, ptr addrspace(3) %at{given}) {{\n"
            f"{at}{wide}"
            "  %target = ptrtoint ptr addrspace(3) %to to i64\n"
            "  %tensor = ptrtoint ptr %map to i64\n"
            f"{checked_call(begin_box, f', i64 %target, i64 %tensor, i64 %place{words}')}"
            "  ret void\n}\n"
        )
    return "".join(parts)


_GROUP_WORDS = len(Argument)
_OF_SUMS = "ptr %sums, i64 %row, i64 %column"


def _of_groups() -> str:
    parts = [
        _of_group("wgmma.commit", "", Waiting.GROUP_COMMIT, []),
        _of_group("wgmma.wait", "i32 %newest", Waiting.GROUP_WAIT, ["%newest"]),
    ]
    for columns in (64, 128, 256):
        for kind in ("f32", "i32"):
            name = f"n{columns}.{kind}"
            parts.append(_of_group(f"wgmma.fence.{name}", _OF_SUMS, Waiting.GROUP_FENCE, []))
            parts.append(_of_group(f"wgmma.finish.{name}", _OF_SUMS, Waiting.GROUP_WAIT, ["0"]))
        for shape, elements, majors in (
            ("k16.f16", Elements.HALF, ("kk", "km", "mk", "mm")),
            ("k16.bf16", Elements.BFLOAT16, ("kk", "km", "mk", "mm")),
            ("k32.s8", Elements.INTEGER, ("kk",)),
        ):
            for major in majors:
                along = [str(int(letter == "m")) for letter in major]
                words = [
                    "%a",
                    "%b",
                    "%sums",
                    "%row",
                    "%column",
                    str(columns),
                    str(int(elements)),
                    *along,
                ]
                name = f"wgmma.m64n{columns}{shape}.{major}"
                given = f"i64 %a, i64 %b, {_OF_SUMS}"
                parts.append(_of_group(name, given, Waiting.GROUP_PRODUCT, words))
    return "".join(parts)


def _of_group(name: str, parameters: str, waiting: Waiting, words: list[str]) -> str:
    """Leaves its operands in the row, and goes on when its group has been served."""
    given = ", ".join(item for item in ("ptr %gpu", parameters) if item)
    lines = [
        f"define void @gpu.{name}({given}) {{",
        f"  %waiting = getelementptr i64, ptr %gpu, i64 {Slot.WAITING:d}",
        f"  store i64 {waiting:d}, ptr %waiting, align 8",
    ]
    for at in range(_GROUP_WORDS):
        word = words[at] if at < len(words) else "0"
        if word in ("%sums", "%newest"):
            convert = "ptrtoint ptr" if word == "%sums" else "sext i32"
            lines.append(f"  %w{at} = {convert} {word} to i64")
            word = f"%w{at}"
        lines.append(f"  %p{at} = getelementptr i64, ptr %gpu, i64 {Slot.EXCHANGE + at}")
        lines.append(f"  store i64 {word}, ptr %p{at}, align 8")
    lines.append(f"  call void @gpu.leave(ptr %gpu, i64 {State.GROUP:d})")
    return "\n".join([*lines, "  ret void", "}\n"])


_FOUR_I32 = "{i32, i32, i32, i32}"
_TWO_I32 = "{i32, i32}"
_FOUR_FLOATS = "{float, float, float, float}"
_FACTORS = "i32 " * 6

_OF_WARPS = {
    Waiting.SHUFFLE_XOR: ("shuffle.xor.f32", "float i32", "float"),
    Waiting.LDMATRIX: ("ldmatrix.x4", "shared", _FOUR_I32),
    Waiting.LDMATRIX_TRANS: ("ldmatrix.x4.trans", "shared", _FOUR_I32),
    Waiting.LDMATRIX2: ("ldmatrix.x2", "shared", _TWO_I32),
    Waiting.LDMATRIX2_TRANS: ("ldmatrix.x2.trans", "shared", _TWO_I32),
    Waiting.MMA_F16: ("mma.m16n8k16.f16", _FACTORS + "float " * 4, _FOUR_FLOATS),
    Waiting.MMA_BF16: ("mma.m16n8k16.bf16", _FACTORS + "float " * 4, _FOUR_FLOATS),
    Waiting.MMA_S8: ("mma.m16n8k32.s8", _FACTORS + "i32 " * 4, _FOUR_I32),
}
"""Names, types of operands and of results; `shared` is an address in shared memory."""


def _of_warps() -> str:
    return "".join(_of_warp(waiting, *row) for waiting, row in _OF_WARPS.items())


def _of_warp(waiting: Waiting, name: str, operands: str, result: str) -> str:
    """Leaves its operands in the row, and finds the results there when its warp has been served."""
    kinds = operands.replace("shared", "ptr,addrspace(3)").split()
    given = ", ".join(f"{kind.replace(',', ' ')} %a{at}" for at, kind in enumerate(kinds))
    lines = [
        f"define {result} @gpu.{name}(ptr %gpu, {given}) {{",
        f"  %waiting = getelementptr i64, ptr %gpu, i64 {Slot.WAITING:d}",
        f"  store i64 {waiting:d}, ptr %waiting, align 8",
    ]
    for at, kind in enumerate(kinds):
        lines.append(f"  %p{at} = getelementptr i32, ptr %gpu, i64 {ARGUMENT_WORDS + at}")
        if kind.startswith("ptr"):
            lines.append(f"  %w{at} = ptrtoint ptr addrspace(3) %a{at} to i64")
            lines.append(f"  store i64 %w{at}, ptr %p{at}, align 8")
        else:
            lines.append(f"  store {kind} %a{at}, ptr %p{at}, align 4")
    lines.append(f"  call void @gpu.leave(ptr %gpu, i64 {State.WARP:d})")
    lines += _results(result)
    return "\n".join([*lines, "}\n"])


def _results(result: str) -> list[str]:
    kinds = result.strip("{}").split(", ")
    lines = []
    for at, kind in enumerate(kinds):
        lines.append(f"  %q{at} = getelementptr i32, ptr %gpu, i64 {RESULT_WORD + at}")
        lines.append(f"  %r{at} = load {kind}, ptr %q{at}, align 4")
    if len(kinds) == 1:
        return [*lines, f"  ret {result} %r0"]
    whole = "poison"
    for at, kind in enumerate(kinds):
        lines.append(f"  %s{at} = insertvalue {result} {whole}, {kind} %r{at}, {at}")
        whole = f"%s{at}"
    return [*lines, f"  ret {result} {whole}"]


def _functions() -> str:
    lines = []
    for count, names in _FUNCTIONS.items():
        for name in names.split():
            for kind, suffix, end in (("float", "f32", "f"), ("double", "f64", "")):
                given = ", ".join(f"{kind} %a{number}" for number in range(count))
                kinds = ", ".join([kind] * count)
                lines.append(
                    f"declare {kind} @{name}{end}({kinds})\n"
                    f"define {kind} @gpu.{name}.{suffix}({given}) {{\n"
                    f"  %r = call {kind} @{name}{end}({given})\n  ret {kind} %r\n}}\n"
                )
    return "".join(lines)


def operations_text() -> str:
    """Definitions of all operations; they call `ROOTS` and what `fibers.fiber_text` defines."""
    parts = [_coordinates(), _shared(), _barrier(), _access("read", False), _access("write", True)]
    return "".join(
        [*parts, _copies(), _of_warps(), _matrix(), _of_groups(), _boxes(), _functions()]
    )
