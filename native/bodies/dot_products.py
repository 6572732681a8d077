"""`with_dot_products`: the bodies of two vector operations for each processor.

A kernel's text calls ``dot_pairs.vN``, which multiplies 2 N int16 and adds them in pairs to N
int32, and ``dot_quads.vN``, which multiplies 4 N uint8 by int8 and adds each four products to an
int32. Processors of x86 do the former in one instruction (pmaddwd; with the sum around it vpdpwssd
where they have it), the latter where they have VNNI (vpdpbusd). The names depend on the width of
their vectors. LLVM finds these instructions in plain products only where these are used once.

AArch64 does the latter in one instruction where it has FEAT_I8MM (usdot), or, where it has
FEAT_DotProd (sdot), with what the second factors sum up to: u v = (u - 128) v + 128 v.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.native.cpu import Cpu

__all__ = ["with_dot_products"]

_DECLARED = re.compile(r"^declare [^@\n]*@(dot_pairs|dot_quads)\.v(\d+)\([^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class _Instruction:
    """LLVM's name of an instruction, and the lanes of its result.

    `words`: whether LLVM's operands are vectors of int32 that hold the bytes.
    """

    name: str
    width: int
    words: bool = False


@dataclass(frozen=True)
class _Operation:
    """How many products become one sum, LLVM's type of the factors, how each is extended, whether
    sums begin at an operand, and the instruction by the feature that it needs, the best first."""

    group: int
    element: str
    extensions: tuple[str, str]
    adds: bool
    instructions: tuple[tuple[str, _Instruction], ...]


_OPERATIONS = {
    "dot_pairs": _Operation(
        2,
        "i16",
        ("sext", "sext"),
        False,
        (
            ("avx512bw", _Instruction("avx512.pmaddw.d.512", 16)),
            ("avx2", _Instruction("avx2.pmadd.wd", 8)),
            ("", _Instruction("sse2.pmadd.wd", 4)),
        ),
    ),
    "dot_quads": _Operation(
        4,
        "i8",
        ("zext", "sext"),
        True,
        (
            ("avx512vnni", _Instruction("avx512.vpdpbusd.512", 16, words=True)),
            ("avxvnni", _Instruction("avx512.vpdpbusd.256", 8, words=True)),
        ),
    ),
}


def with_dot_products(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations."""
    needed: set[str] = set()

    def defined(found: re.Match[str]) -> str:
        name, lanes = found[1], int(found[2])
        operation = _OPERATIONS[name]
        instruction, bodies = _instruction(operation, cpu), _arm_bodies(operation, cpu)
        if instruction is not None:
            needed.add(_declaration(operation, instruction))
            body = _split(operation, lanes, instruction)
        elif bodies and lanes >= _ARM_LANES and lanes.bit_count() == 1:
            needed.add(_ARM_DECLARATIONS[bodies])
            body = _arm_body(bodies, lanes)
        else:
            body = _plain(operation, lanes)
        return _definition(f"{name}.v{lanes}", operation, lanes, body)

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(needed)) + changed


def _instruction(operation: _Operation, cpu: Cpu) -> _Instruction | None:
    """An instruction of x86."""
    if not cpu.triple.startswith("x86_64"):
        return None
    found = (
        item for feature, item in operation.instructions if not feature or feature in cpu.features
    )
    return next(found, None)


def _operands(operation: _Operation, lanes: int) -> list[tuple[str, str]]:
    """LLVM's type and the name of each operand."""
    sums = [(f"<{lanes} x i32>", "c")] if operation.adds else []
    return sums + [(f"<{operation.group * lanes} x {operation.element}>", name) for name in "ab"]


def _declaration(operation: _Operation, instruction: _Instruction) -> str:
    width = instruction.width
    words = [f"<{width} x i32>"] * (2 + operation.adds)
    kinds = words if instruction.words else [kind for kind, _ in _operands(operation, width)]
    return f"declare <{width} x i32> @llvm.x86.{instruction.name}({', '.join(kinds)})\n"


def _definition(name: str, operation: _Operation, lanes: int, body: Sequence[str]) -> str:
    operands = ", ".join(f"{kind} %{name}" for kind, name in _operands(operation, lanes))
    lines = "\n".join(f"  {line}" for line in body)
    return f"define internal <{lanes} x i32> @{name}({operands}) alwaysinline {{\n{lines}\n}}\n"


def _mask(numbers: Sequence[int], limit: int) -> str:
    """Which lanes are taken; poison where there are no more than `limit`."""
    items = ", ".join(f"i32 {number}" if number < limit else "i32 poison" for number in numbers)
    return f"<{len(numbers)} x i32> <{items}>"


def _split(operation: _Operation, lanes: int, instruction: _Instruction) -> list[str]:
    """Calls of the instruction for its width of sums at a time, joined one by one."""
    width, joined = instruction.width, ""
    lines = list[str]()
    for number in range(-(-lanes // width)):
        first = number * width
        given = []
        for kind, operand in _operands(operation, lanes):
            each = 1 if operand == "c" else operation.group
            part = _mask(range(each * first, each * (first + width)), each * lanes)
            name = f"%{operand}{number}"
            lines.append(f"{name} = shufflevector {kind} %{operand}, {kind} poison, {part}")
            own = f"<{each * width} x {'i32' if operand == 'c' else operation.element}>"
            if instruction.words and operand != "c":
                lines.append(f"{name}w = bitcast {own} {name} to <{width} x i32>")
                own, name = f"<{width} x i32>", f"{name}w"
            given.append(f"{own} {name}")
        call = f"call <{width} x i32> @llvm.x86.{instruction.name}({', '.join(given)})"
        lines.append(f"%p{number} = {call}")
        narrow = f"<{width} x i32>"
        whole = _mask(range(lanes), width)
        lines.append(f"%w{number} = shufflevector {narrow} %p{number}, {narrow} poison, {whole}")
        if number == 0:
            joined = "%w0"
            continue
        chosen = [lane if lane < first else lanes + lane - first for lane in range(lanes)]
        result = f"<{lanes} x i32>"
        mask = _mask(chosen, 2 * lanes)
        lines.append(f"%j{number} = shufflevector {result} {joined}, {result} %w{number}, {mask}")
        joined = f"%j{number}"
    return [*lines, f"ret <{lanes} x i32> {joined}"]


def _plain(operation: _Operation, lanes: int) -> list[str]:
    """Products of all first elements of the groups, of all second ones, and so on."""
    group = operation.group
    kind = f"<{group * lanes} x {operation.element}>"
    wide, total = f"<{lanes} x i32>", "%c" if operation.adds else ""
    lines = list[str]()
    for number in range(group):
        for operand, extension in zip("ab", operation.extensions, strict=True):
            name, mask = f"{operand}{number}", _mask(range(number, group * lanes, group), 1 << 30)
            lines.append(f"%n{name} = shufflevector {kind} %{operand}, {kind} poison, {mask}")
            lines.append(
                f"%{name} = {extension} <{lanes} x {operation.element}> %n{name} to {wide}"
            )
        lines.append(f"%p{number} = mul {wide} %a{number}, %b{number}")
        if total:
            lines.append(f"%s{number} = add {wide} {total}, %p{number}")
        total = f"%s{number}" if total else f"%p{number}"
    return [*lines, f"ret {wide} {total}"]


_ARM_LANES = 4
_SUMS, _BYTES = "<4 x i32>", "<16 x i8>"
_ARM_DECLARATIONS = {
    name: f"declare {_SUMS} @llvm.aarch64.neon.{name}.v4i32.v16i8({_SUMS}, {_BYTES}, {_BYTES})\n"
    for name in ("usdot", "sdot")
}


def _arm_bodies(operation: _Operation, cpu: Cpu) -> str | None:
    """The instruction of AArch64 that adds products to a sum."""
    if not cpu.triple.startswith("aarch64") or not operation.adds:
        return None
    if "i8mm" in cpu.features:
        return "usdot"
    return "sdot" if "dotprod" in cpu.features else None


def _arm_body(name: str, lanes: int) -> list[str]:
    """Four sums at a time."""
    lines, parts = list[str](), list[str]()
    call = f"call {_SUMS} @llvm.aarch64.neon.{name}.v4i32.v16i8"
    for number in range(lanes // _ARM_LANES):
        for operand, each, kind in (("c", 1, "i32"), ("a", 4, "i8"), ("b", 4, "i8")):
            mask = _mask(range(each * 4 * number, each * 4 * (number + 1)), each * lanes)
            given = f"<{each * lanes} x {kind}>"
            lines.append(
                f"%{operand}{number} = shufflevector {given} %{operand}, {given} poison, {mask}"
            )
        factors = f"{_BYTES} %a{number}, {_BYTES} %b{number}"
        if name == "usdot":
            lines.append(f"%p{number} = {call}({_SUMS} %c{number}, {factors})")
        else:
            # Twice 64 times the second factors; these sums are the same for all first factors.
            half = f"{_BYTES} splat (i8 64), {_BYTES} %b{number}"
            moved = f"{_BYTES} %f{number}, {_BYTES} %b{number}"
            lines += [
                f"%h{number} = {call}({_SUMS} zeroinitializer, {half})",
                f"%e{number} = {call}({_SUMS} %h{number}, {half})",
                f"%f{number} = xor {_BYTES} %a{number}, splat (i8 -128)",
                f"%q{number} = {call}({_SUMS} %c{number}, {moved})",
                f"%p{number} = add {_SUMS} %q{number}, %e{number}",
            ]
        parts.append(f"%p{number}")
    width, step = _ARM_LANES, 0
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        kind, mask = f"<{width} x i32>", _mask(range(2 * width), 1 << 30)
        joined = []
        for first, second in pairs:
            joined.append(f"%j{step}")
            lines.append(f"{joined[-1]} = shufflevector {kind} {first}, {kind} {second}, {mask}")
            step += 1
        parts, width = joined, 2 * width
    return [*lines, f"ret <{lanes} x i32> {parts[0]}"]
