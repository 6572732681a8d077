"""Hardware loops of GEMM and ALU instructions as the arrays of `Loops`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.isa.instruction import Instruction
from daedal.isa.microcode import row_limits
from daedal.isa.scratchpad import UOP_BYTES, Memory, scratchpad
from daedal.isa.table import (
    INSTRUCTIONS,
    LOOPS,
    GemmMode,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
    micro_op_layout,
)
from daedal.sim.timing.alu import READS_TARGET
from daedal.sim.timing.columns import Columns, Ints
from daedal.sim.timing.expansion import Loops

__all__ = ["loops_of"]

Bytes = npt.NDArray[np.uint8]


def loops_of(columns: Columns, memory: Bytes, form: Ints) -> Loops:
    """Loop nests, and the memory that micro-ops are loaded from; `form` is that of `Plan`."""
    variant = columns.variant
    both = (Opcode.GEMM, Opcode.ALU)

    def three(name: str, *opcodes: Opcode) -> Ints:
        return np.stack([columns.get(f"{name}{k}", *opcodes) for k in range(LOOPS)], axis=1)

    def flat(*parts: Ints) -> Ints:
        return np.ascontiguousarray(sum(parts[1:], start=parts[0]).reshape(-1))

    loads = columns.opcode == Opcode.LOAD
    target = columns.get("memory", Opcode.LOAD)
    uop_memory = np.full(columns.count, -1, dtype=np.int64)
    uop_memory[loads & (target == LoadMemory.UOP_GEMM)] = Unit.GEMM
    uop_memory[loads & (target == LoadMemory.UOP_ALU)] = Unit.ALU
    acc, out = (scratchpad(variant, pad).depth_rows for pad in (Memory.ACC, Memory.OUT))
    row_limit = np.full(columns.count, acc, dtype=np.int64)
    reads_target = form & READS_TARGET > 0
    into_out = columns.get("destination", Opcode.ALU) == OutMemory.OUT
    row_limit[(columns.opcode == Opcode.ALU) & into_out] = out
    row_limit[(columns.opcode == Opcode.ALU) & into_out & reads_target] = min(acc, out)
    field: dict[str, Any] = {
        **micro_op_layout(variant, Unit.ALU),
        "acc": micro_op_layout(variant, Unit.GEMM)["acc"],
    }
    assert field["acc"].offset == 0, "banks are made of the lowest field"
    words = np.require(
        memory[: memory.size // UOP_BYTES * UOP_BYTES].view(np.uint64), requirements="W"
    )
    operands: dict[str, Any] = _operands(columns, three)
    return Loops(
        **operands,
        begin=columns.get("uop_begin", *both),
        end=columns.get("uop_end", *both),
        extents=flat(three("extent", *both)),
        row_base=columns.get("acc_base", Opcode.GEMM) + columns.get("dst_base", Opcode.ALU),
        row_factors=flat(three("acc_factor", Opcode.GEMM), three("dst_factor", Opcode.ALU)),
        source_base=columns.get("src_base", Opcode.ALU),
        source_factors=flat(three("src_factor", Opcode.ALU)),
        uop_memory=uop_memory,
        row_limit=row_limit,
        memory=words,
        bus_words=variant.bus_bytes // UOP_BYTES,
        row_mask=(1 << field["acc"].width) - 1,
        target_mask=(1 << field["dst"].width) - 1,
        target_shift=field["dst"].offset,
        source_mask=(1 << field["src"].width) - 1,
        source_shift=field["src"].offset,
        source_limit=acc,
    )


def _operands(columns: Columns, three: Callable[..., Ints]) -> dict[str, Any]:
    """Operands whose rows cost nothing but must exist: INP or OUT and WGT of GEMM, PAR of ALU."""
    variant, count = columns.variant, columns.count
    gemm, alu = columns.opcode == Opcode.GEMM, columns.opcode == Opcode.ALU
    names = ((Opcode.GEMM, "inp", 0), (Opcode.GEMM, "wgt", 1), (Opcode.ALU, "par", 0))
    base, shift, mask = (np.zeros((count, 2), dtype=np.int64) for _ in range(3))
    factors = np.zeros((count, 2, LOOPS), dtype=np.int64)
    limit = np.ones((count, 2), dtype=np.int64)
    for opcode, name, which in names:
        chosen = gemm if opcode is Opcode.GEMM else alu
        item = micro_op_layout(variant, INSTRUCTIONS[opcode].unit)[name]
        base[chosen, which] = columns.get(f"{name}_base", opcode)[chosen]
        factors[chosen, which] = three(f"{name}_factor", opcode)[chosen]
        shift[chosen, which], mask[chosen, which] = item.offset, (1 << item.width) - 1
    limit[alu, 0] = scratchpad(variant, Memory.PAR).depth_rows
    mode = columns.get("mode", Opcode.GEMM)
    for kind in GemmMode:
        chosen = gemm & (mode == kind)
        if chosen.any():
            of_kind = Instruction.of(Opcode.GEMM, mode=kind)
            limits = row_limits(variant, of_kind)
            limit[chosen] = limits["inp"], limits["wgt"]
    return {
        "operand_base": base.reshape(-1),
        "operand_factors": factors.reshape(-1),
        "operand_limit": limit.reshape(-1),
        "operand_shift": shift.reshape(-1),
        "operand_mask": mask.reshape(-1),
    }
