"""docs/isa.md and the C header regs.h, generated from the tables (``python -m daedal.isa.docs``).

`isa_page` and `registers_header` are pure functions; a test compares the committed page with them.
"""

from collections.abc import Iterable
from pathlib import Path

from daedal.isa.files import write_atomically
from daedal.isa.registers import MARK_BYTES, MARK_FIELDS, REGISTERS, CycleClass, ErrorCode
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import (
    INSTRUCTIONS,
    MICRO_OPS,
    AluOp,
    BitField,
    GemmMode,
    LoadMemory,
    Unit,
    instruction_bits,
    instruction_layout,
    micro_op_layout,
)
from daedal.isa.variant import Variant, load_variant

__all__ = ["isa_page", "registers_header"]


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _bits(item: BitField) -> str:
    last = item.offset + item.width - 1
    return str(item.offset) if item.width == 1 else f"{last}:{item.offset}"


def _fields(layout: dict[str, BitField], skip: int = 0) -> str:
    rows = []
    for item in list(layout.values())[skip:]:
        meaning = item.field.doc
        if item.field.choices is not None:
            codes = ", ".join(f"{c.name} = {c.value}" for c in item.field.choices)
            meaning = f"{meaning}: {codes}"
        kind = "signed" if item.field.signed else ""
        rows.append((f"`{item.name}`", _bits(item), item.width, kind, meaning))
    return _table(("field", "bits", "width", "", "meaning"), rows)


def isa_page(variant: Variant) -> str:
    """The reference page of the instruction set, with the bit positions of `variant`."""
    parts = [
        "# Instruction set\n",
        "Generated from `isa/table.py`, `isa/alu_operations.py`, `isa/scratchpad.py` and "
        "`isa/registers.py` by `make docs`; do not edit.\n",
        f"Widths are those of variant `{variant.name}` (instructions of "
        f"{instruction_bits(variant)} bits); other variants derive theirs from the same table.\n",
        "## Units\n",
        "LOAD, GEMM, ALU and STORE run at the same time, each from an in-order queue that FETCH "
        "fills. An instruction first takes one token from each unit in `pop`, and gives one to "
        "each unit in `push` when it is done. Program order is itself a legal run.\n",
        _table(("unit", "number"), ((unit.name, int(unit)) for unit in Unit)),
        "## Scratchpads\n",
        _table(
            ("scratchpad", "row", "element bits", "rows", "row bytes in memory"),
            (
                (pad.memory.value, pad.shape, pad.element_bits, pad.depth_rows, pad.row_bytes)
                for pad in scratchpads(variant).values()
            ),
        ),
        "A parameter element holds, from bit 0 up, the bias "
        f"({variant.array.accumulator_bits} bits, signed), the multiplier "
        f"({variant.units.multiplier_bits} bits) and the shift (6 bits).\n",
        "## Common header\n",
    ]
    for number, (opcode, form) in enumerate(INSTRUCTIONS.items()):
        layout = instruction_layout(variant, opcode)
        header = len(layout) - len(form.fields)
        if number == 0:
            first = {name: layout[name] for name in list(layout)[:header]}
            parts += [_fields(first), "A unit's own bit in `pop` and `push` must be 0.\n"]
        parts += [f"## {opcode.name}\n", f"{form.doc}\n"]
        if form.fields:
            parts.append(_fields(layout, header))
    parts.append("## Micro-ops\n")
    parts.append(
        "One 64-bit word each in memory. Loops and micro-ops make row numbers: base + micro-op "
        "field + sum of loop index times factor, loop 0 outermost, micro-ops innermost.\n"
    )
    for unit in MICRO_OPS:
        parts += [f"### {unit.name}\n", _fields(micro_op_layout(variant, unit))]
    parts += [
        "## Modes and operations\n",
        *(_prose(kind) for kind in (LoadMemory, GemmMode, AluOp)),
        _table(
            ("operation", "code", "result"),
            ((op.name, op.value, op.meaning) for op in AluOp),
        ),
        "## Registers\n",
        _table(
            ("register", "offset", "access", "meaning"),
            (
                (f"`{r.name}`", f"0x{r.offset:03x}", "RW" if r.writable else "R", r.doc)
                for r in REGISTERS
            ),
        ),
        "## Error codes\n",
        _table(("code", "number"), ((code.name, int(code)) for code in ErrorCode)),
        "## Cycle classes\n",
        _prose(CycleClass),
        "## Mark records\n",
        f"{MARK_BYTES} bytes each; 32-bit words in order: "
        + ", ".join(f"`{name}`" for name in MARK_FIELDS)
        + ".\n",
    ]
    return "\n".join(parts)


def _prose(kind: type) -> str:
    lines = [line.strip() for line in (kind.__doc__ or "").strip().splitlines()]
    return f"**{kind.__name__}.** " + "\n".join(lines).strip() + "\n"


def registers_header() -> str:
    """The register map as a C header."""
    lines = [
        "/* Generated from isa/registers.py. */",
        "#ifndef DAEDAL_REGS_H",
        "#define DAEDAL_REGS_H",
    ]
    for item in REGISTERS:
        lines.append(f"#define DAEDAL_{item.name.upper()} 0x{item.offset:03x}u /* {item.doc} */")
    for code in ErrorCode:
        lines.append(f"#define DAEDAL_ERROR_{code.name} {int(code)}u")
    for kind in CycleClass:
        lines.append(f"#define DAEDAL_CLASS_{kind.name} {int(kind)}u")
    lines += [f"#define DAEDAL_MARK_BYTES {MARK_BYTES}u", "#endif"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write docs/isa.md of this source tree."""
    page = Path(__file__).resolve().parent.parent / "docs" / "isa.md"
    write_atomically(page, isa_page(load_variant("vta")))


if __name__ == "__main__":
    main()
