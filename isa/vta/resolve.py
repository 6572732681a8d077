"""Converts VTA instructions to operations: checks tokens, evaluates micro-op loads, drops NOPs.

A VTA program loads and replaces micro-ops as it runs. Their values must be known here, so they may
come only from memory that the program does not write.
"""

from collections.abc import Callable

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.numerics import IntArray
from daedal.isa.table import AluOp
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.memory_map import MemoryMap
from daedal.isa.vta.operations import Move, Multiply, Nest, Operation, Vector
from daedal.isa.vta.stream import (
    VtaAluOp,
    VtaInstruction,
    VtaMemory,
    VtaOpcode,
    VtaQueue,
    decode_uop,
)

__all__ = ["resolve"]

_SHIFT_LIMIT = 63
"""Largest shift amount of our ALU; a shift by more than 31 leaves only the sign or zero."""

_OPERATIONS = {
    VtaAluOp.MIN: AluOp.MIN,
    VtaAluOp.MAX: AluOp.MAX,
    VtaAluOp.ADD: AluOp.ADD,
    VtaAluOp.SHR: AluOp.SHR,
    VtaAluOp.MUL: AluOp.MUL,
}

_DEPTHS = {
    "acc": VtaMemory.ACC.depth,
    "dst": VtaMemory.ACC.depth,
    "src": VtaMemory.ACC.depth,
    "inp": VtaMemory.INP.depth,
    "wgt": VtaMemory.WGT.depth,
}


def resolve(program: VtaProgram, memory: MemoryMap) -> list[Operation]:
    """Operations of a program in the order of its stream, up to FINISH.

    Raises
    ------
    ProgramError
        Program order is not an order in which VTA could run it, micro-ops are not known, or a row
        or address does not exist; the message names the instruction.
    """
    resolver = _Resolver(program, memory)
    for index, instruction in enumerate(program.instructions):
        try:
            resolver.take_tokens(instruction)
            if instruction.opcode is VtaOpcode.FINISH:
                return resolver.operations
            resolver.execute(instruction)
            resolver.give_tokens(instruction)
        except ProgramError as error:
            raise ProgramError(
                f"VTA instruction {index} ({instruction.opcode.name}): {error}"
            ) from None
    raise ProgramError("a VTA program must end with FINISH; this one does not")


class _Resolver:
    def __init__(self, program: VtaProgram, memory: MemoryMap) -> None:
        self.operations: list[Operation] = []
        self._memory = memory
        self._tokens = dict(program.initial_tokens)
        self._uops = np.zeros(VtaMemory.UOP.depth, dtype=np.uint32)
        self._known = np.zeros(VtaMemory.UOP.depth, dtype=bool)
        self._stored: set[int] = set()

    def take_tokens(self, instruction: VtaInstruction) -> None:
        for giver, flag in _neighbours(instruction, instruction.pop_prev, instruction.pop_next):
            pair = (giver, instruction.queue)
            if flag and self._tokens.get(pair, 0) == 0:
                raise ProgramError(
                    "program order must satisfy every pop; this one finds no token from "
                    f"{giver.name}, so give the tokens that an earlier run left"
                )
            self._tokens[pair] = self._tokens.get(pair, 0) - flag

    def give_tokens(self, instruction: VtaInstruction) -> None:
        for taker, flag in _neighbours(instruction, instruction.push_prev, instruction.push_next):
            pair = (instruction.queue, taker)
            self._tokens[pair] = self._tokens.get(pair, 0) + flag

    def execute(self, instruction: VtaInstruction) -> None:
        run: Callable[[VtaInstruction], None] = {
            VtaOpcode.LOAD: self._move,
            VtaOpcode.STORE: self._move,
            VtaOpcode.GEMM: self._gemm,
            VtaOpcode.ALU: self._alu,
        }[instruction.opcode]
        run(instruction)

    def _move(self, instruction: VtaInstruction) -> None:
        if instruction.x_size == 0:
            return
        memory = VtaMemory(instruction.memory)
        store = instruction.opcode is VtaOpcode.STORE
        pads = (
            instruction.y_pad_0,
            instruction.y_pad_1,
            instruction.x_pad_0,
            instruction.x_pad_1,
        )
        move = Move(
            store=store,
            memory=memory,
            row=instruction.sram_base,
            y=instruction.y_size,
            x=instruction.x_size,
            stride=instruction.x_stride,
            address=instruction.dram_base * memory.element_bytes,
            pads=pads,
        )
        if store and (memory is not VtaMemory.OUT or any(pads)):
            raise ProgramError("it must move OUT, without pads")
        if not store and memory is VtaMemory.OUT:
            raise ProgramError("OUT cannot be loaded")
        if move.row + move.num_rows > memory.depth:
            raise ProgramError(
                f"it must stay below {memory.depth} elements of {memory.name}, not reach "
                f"{move.row + move.num_rows - 1}"
            )
        if move.num_rows == 0:
            return
        segment = self._memory.find(move.address, move.end) if move.y else None
        if memory is VtaMemory.UOP:
            self._load_uops(move, segment)
            return
        if store and segment is not None:
            self._stored.add(segment)
        self.operations.append(move)

    def _load_uops(self, move: Move, segment: int | None) -> None:
        if segment in self._stored:
            raise ProgramError("micro-ops must not come from memory that the program stores to")
        top, bottom, left, _ = move.pads
        block = np.zeros((move.y + top + bottom, move.width), dtype=np.uint32)
        for y in range(move.y):
            size = move.memory.element_bytes
            data = self._memory.read(move.address + y * move.stride * size, move.x * size)
            block[top + y, left : left + move.x] = np.frombuffer(data, dtype="<u4")
        place = slice(move.row, move.row + move.num_rows)
        self._uops[place] = block.reshape(-1)
        self._known[place] = True

    def _gemm(self, instruction: VtaInstruction) -> None:
        columns = {"acc": "dst"} if instruction.reset else _PRODUCT
        nest = self._nest(instruction, columns)
        if nest is None:
            return
        if not instruction.reset:
            self.operations.append(Multiply(nest))
            return
        rows, factors = nest.uops["acc"], nest.factors["acc"]
        zero = np.zeros_like(rows)
        nest = Nest(nest.extents, {"dst": factors, "src": (0, 0)}, {"dst": rows, "src": zero})
        self.operations.append(Vector(AluOp.MOV, nest, 0))

    def _alu(self, instruction: VtaInstruction) -> None:
        immediate = instruction.immediate if instruction.use_immediate else None
        operation = _OPERATIONS[VtaAluOp(instruction.operation)]
        if operation is AluOp.SHR and immediate is not None:
            immediate = max(-_SHIFT_LIMIT, min(_SHIFT_LIMIT, immediate))
        # Our immediate form reads its first operand from src.
        columns = {"dst": "dst", "src": "src" if immediate is None else "dst"}
        nest = self._nest(instruction, columns)
        if nest is not None:
            self.operations.append(Vector(operation, nest, immediate))

    def _nest(self, instruction: VtaInstruction, columns: dict[str, str]) -> Nest | None:
        """The loops of a GEMM or ALU; `columns` names the VTA field of each of our row numbers."""
        extents = (instruction.iter_out, instruction.iter_in)
        begin, end = instruction.uop_begin, instruction.uop_end
        if begin >= end or 0 in extents:
            return None
        if end > len(self._uops):
            raise ProgramError(f"uop_end must be at most {len(self._uops)}, not {end}")
        if not self._known[begin:end].all():
            missing = begin + int(np.argmin(self._known[begin:end]))
            raise ProgramError(f"micro-op {missing} must be loaded before it is used")
        fields = decode_uop(self._uops[begin:end])
        nest = Nest(
            extents,
            {
                ours: (getattr(instruction, f"{theirs}_out"), getattr(instruction, f"{theirs}_in"))
                for ours, theirs in columns.items()
            },
            {ours: fields[theirs] for ours, theirs in columns.items()},
        )
        _check_rows(nest)
        return nest


_PRODUCT = {"acc": "dst", "inp": "src", "wgt": "wgt"}


def _check_rows(nest: Nest) -> None:
    for name, column in nest.uops.items():
        last: IntArray = column.max()
        for extent, factor in zip(nest.extents, nest.factors[name], strict=True):
            last = last + (extent - 1) * factor
        if last >= _DEPTHS[name]:
            raise ProgramError(f"row {name} must stay below {_DEPTHS[name]}, not reach {last}")


def _neighbours(
    instruction: VtaInstruction, previous: int, following: int
) -> list[tuple[VtaQueue, int]]:
    """The units before and after the instruction's in the chain, each with its flag."""
    place = instruction.queue.value
    result = []
    for step, flag in ((-1, previous), (1, following)):
        if 0 <= place + step < len(VtaQueue):
            result.append((VtaQueue(place + step), flag))
        elif flag:
            raise ProgramError(f"{instruction.queue.name} has no neighbour on that side")
    return result
