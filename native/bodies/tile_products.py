"""`with_tile_products`: the bodies of operations on tile registers for each processor.

A kernel's text calls, with the numbers of registers and shapes as ``ROWSxBYTES``, or
``ROWSxCOLUMNSxTERMS`` of a product::

    tile_begin.SHAPE.SHAPE...(ptr)              the shapes of all registers in use; all become 0
    tile_zero.tN(ptr)
    tile_load.tN.SHAPE(ptr, ptr, i64)           the first row in memory, and bytes between rows
    tile_multiply.tC.tA.tB.SHAPE(ptr)           c += a * b of uint8 and int8
    tile_store.tN.SHAPE(ptr, ptr, i64)
    tile_end(ptr)

The first operand is a place for all registers, eight of 1 KiB. Processors with AMX have registers
and an instruction for each operation. Others keep the registers there, which tests rely on: they
compute what AMX computes, and what it would fault on is refused here. Source: Intel 64 and IA-32
Architectures Software Developer's Manual, volume 1, "Programming with Intel AMX", and volume 2,
LDTILECFG, TDPBUSD, TILELOADD, TILESTORED.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.native.cpu import Cpu

__all__ = [
    "TILE_BYTES",
    "TILE_FEATURES",
    "TILE_REGISTERS",
    "TILE_ROWS",
    "TILE_ROW_BYTES",
    "has_tile_products",
    "with_tile_products",
]

TILE_FEATURES = frozenset(("amx-tile", "amx-int8"))
"""LLVM's names of the features that the instructions need."""

_DECLARED = re.compile(r"^declare void @tile_([\w.]+)\([^\n]*\n", re.MULTILINE)
_PALETTE, _CONFIG_BYTES, _FIRST_BYTES, _FIRST_ROWS = 1, 64, 16, 48
"""Of the operand of LDTILECFG: the palette is byte 0; 16 bits for the bytes of a row of each
register begin at byte 16, and a byte for the rows of each at byte 48."""
TILE_REGISTERS, TILE_ROWS, TILE_ROW_BYTES = 8, 16, 64
TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES
"""How many registers there are, and how large each is."""
_ROW, _SUMS = "<64 x i8>", "<16 x i32>"
_DOT = f"declare {_SUMS} @dot_quads.v16({_SUMS}, {_ROW}, {_ROW})\n"


def has_tile_products(text: str) -> bool:
    """Whether a kernel's text has such operations."""
    return _DECLARED.search(text) is not None


def with_tile_products(text: str, cpu: Cpu) -> str:
    """The text with definitions for `cpu` instead of its declarations; where these add products,
    they declare ``dot_quads.v16``."""
    has_tiles = cpu.triple.startswith("x86_64") and cpu.features >= TILE_FEATURES
    needed = set[str]()

    operations = {name: _Operation.of(name) for name in _DECLARED.findall(text)}
    _check(list(operations.values()))

    def defined(found: re.Match[str]) -> str:
        operation = operations[found[1]]
        make = _instructions if has_tiles else _emulated
        head, body, declared = make(operation)
        needed.update(declared)
        moves = ", ptr %place, i64 %step" if operation.name in ("load", "store") else ""
        kind = "alwaysinline" if has_tiles else "noinline"
        lines = "\n".join(f"  {line}" if not line.endswith(":") else line for line in body)
        return (
            f"{head}define internal void @tile_{found[1]}(ptr %tiles{moves}) {kind} {{\n"
            f"{lines}\n  ret void\n}}\n"
        )

    changed = _DECLARED.sub(defined, text)
    return "".join(sorted(item for item in needed if item not in changed)) + changed


@dataclass(frozen=True)
class _Operation:
    """What the name of a function says: registers, and shapes."""

    name: str
    registers: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(text: str) -> "_Operation":
        """The operation of a name, without what all begin with."""
        name, *rest = text.split(".")
        registers = tuple(int(item[1:]) for item in rest if item.startswith("t"))
        shapes = (item.split("x") for item in rest if not item.startswith("t"))
        return _Operation(name, registers, tuple(tuple(map(int, shape)) for shape in shapes))

    @property
    def used(self) -> dict[int, tuple[int, ...]]:
        """The shapes that registers must have."""
        if self.name != "multiply":
            return dict(zip(self.registers, self.shapes, strict=False))
        ((rows, columns, terms),) = self.shapes
        shapes = (rows, 4 * columns), (rows, 4 * terms), (terms, 4 * columns)
        return dict(zip(self.registers, shapes, strict=True))


def _check(operations: Sequence[_Operation]) -> None:
    """What the instructions fault on is a bug of the generator: shapes that are too large, or that
    a register was not given, and a product into one of its operands."""
    begins = [item for item in operations if item.name == "begin"]
    assert len(begins) == bool(operations), "registers get their shapes once"
    for begin in begins:
        known = {n: shape for n, shape in enumerate(begin.shapes) if shape != (0, 0)}
        assert len(begin.shapes) <= TILE_REGISTERS
        for rows, size in known.values():
            assert 1 <= rows <= TILE_ROWS and 1 <= size <= TILE_ROW_BYTES and size % 4 == 0
        for item in operations:
            assert len(set(item.registers)) == len(item.registers), item
            assert known.keys() >= set(item.registers), item
            assert all(known[number] == shape for number, shape in item.used.items()), item


_Made = tuple[str, list[str], list[str]]
"""What stands before a definition, its lines, and declarations."""


def _instructions(operation: _Operation) -> _Made:
    """One instruction of AMX."""
    numbers = operation.registers
    given, kinds = {
        "begin": ("ptr @tile_shapes", "ptr"),
        "end": ("", ""),
        "zero": (_registers(numbers), "i8"),
        "multiply": (_registers(numbers), "i8, i8, i8"),
        "load": (f"{_registers(numbers)}, ptr %place, i64 %step", "i8, ptr, i64"),
        "store": (f"{_registers(numbers)}, ptr %place, i64 %step", "i8, ptr, i64"),
    }[operation.name]
    name = {
        "begin": "ldtilecfg",
        "end": "tilerelease",
        "zero": "tilezero",
        "multiply": "tdpbusd",
        "load": "tileloadd64",
        "store": "tilestored64",
    }[operation.name]
    head = ""
    if operation.name == "begin":
        head = f"@tile_shapes = internal constant {_configuration(operation.shapes)}, align 64\n"
    declared = f"declare void @llvm.x86.{name}({kinds.replace('i8', 'i8 immarg')})\n"
    return head, [f"call void @llvm.x86.{name}({given})"], [declared]


def _registers(numbers: Sequence[int]) -> str:
    return ", ".join(f"i8 {number}" for number in numbers)


def _configuration(shapes: Sequence[tuple[int, ...]]) -> str:
    """The operand of LDTILECFG."""
    data = bytearray(_CONFIG_BYTES)
    data[0] = _PALETTE
    for number, (rows, size) in enumerate(shapes):
        data[_FIRST_BYTES + 2 * number] = size
        data[_FIRST_ROWS + number] = rows
    return f"[{_CONFIG_BYTES} x i8] [{', '.join(f'i8 {item}' for item in data)}]"


def _emulated(operation: _Operation) -> _Made:
    """The same in the memory of `tiles`."""
    name, numbers = operation.name, operation.registers
    if name == "multiply":
        return "", _product(numbers, *operation.shapes[0]), [_DOT]
    lines = list[str]()
    for number in range(TILE_REGISTERS) if name == "begin" else numbers:
        if name != "store":
            for row in range(TILE_ROWS):
                lines += _place(f"z{number}.{row}", number, row)
                lines.append(f"store {_ROW} zeroinitializer, ptr %z{number}.{row}, align 64")
        if name in ("load", "store"):
            lines += _moved(name, number, *operation.shapes[0])
    return "", lines, []


def _place(name: str, number: int, row: int) -> list[str]:
    """The place of a row of a register."""
    first = number * TILE_BYTES + row * TILE_ROW_BYTES
    return [f"%{name} = getelementptr i8, ptr %tiles, i64 {first}"]


def _moved(operation: str, number: int, rows: int, size: int) -> list[str]:
    """Rows from memory into a register, or the other way round."""
    lines = list[str]()
    for row in range(rows):
        lines += _place(f"r{row}", number, row)
        lines.append(f"%o{row} = mul i64 %step, {row}")
        lines.append(f"%m{row} = getelementptr i8, ptr %place, i64 %o{row}")
        ends = [f"ptr %m{row}, align 1", f"ptr %r{row}, align 64"]
        source, target = ends if operation == "load" else reversed(ends)
        lines.append(f"%v{row} = load <{size} x i8>, {source}")
        lines.append(f"store <{size} x i8> %v{row}, {target}")
    return lines


def _product(numbers: Sequence[int], rows: int, _columns: int, terms: int) -> list[str]:
    """What is beyond the columns of a register is 0."""
    c, a, b = (number * TILE_BYTES for number in numbers)
    return [
        "br label %rows",
        "rows:",
        "%m = phi i64 [ 0, %0 ], [ %m.next, %done ]",
        f"%row = mul i64 %m, {TILE_ROW_BYTES}",
        f"%c.number = add i64 %row, {c}",
        "%c = getelementptr i8, ptr %tiles, i64 %c.number",
        f"%a.number = add i64 %row, {a}",
        "%a = getelementptr i8, ptr %tiles, i64 %a.number",
        f"%before = load {_SUMS}, ptr %c, align 64",
        "br label %terms",
        "terms:",
        "%k = phi i64 [ 0, %rows ], [ %k.next, %terms ]",
        f"%sum = phi {_SUMS} [ %before, %rows ], [ %after, %terms ]",
        "%a.place = getelementptr i32, ptr %a, i64 %k",
        "%word = load i32, ptr %a.place, align 4",
        f"%one = insertelement {_SUMS} poison, i32 %word, i64 0",
        f"%words = shufflevector {_SUMS} %one, {_SUMS} poison, <16 x i32> zeroinitializer",
        f"%left = bitcast {_SUMS} %words to {_ROW}",
        f"%b.row = mul i64 %k, {TILE_ROW_BYTES}",
        f"%b.number = add i64 %b.row, {b}",
        "%b = getelementptr i8, ptr %tiles, i64 %b.number",
        f"%right = load {_ROW}, ptr %b, align 64",
        f"%after = call {_SUMS} @dot_quads.v16({_SUMS} %sum, {_ROW} %left, {_ROW} %right)",
        "%k.next = add i64 %k, 1",
        f"%more = icmp ult i64 %k.next, {terms}",
        "br i1 %more, label %terms, label %done",
        "done:",
        f"store {_SUMS} %after, ptr %c, align 64",
        "%m.next = add i64 %m, 1",
        f"%further = icmp ult i64 %m.next, {rows}",
        "br i1 %further, label %rows, label %end",
        "end:",
    ]
