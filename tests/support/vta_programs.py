"""Building VTA programs for tests: segments at fixed addresses, streams, and random programs."""

from dataclasses import dataclass, field

import numpy as np

from daedal.isa.vta.dump import VtaProgram, VtaSegment
from daedal.isa.vta.stream import (
    VtaInstruction,
    VtaMemory,
    VtaOpcode,
    decode_stream,
    encode_stream,
    encode_uop,
)
from tests.support.vta_interpreter import Interpreter

FINISH = VtaInstruction.of(VtaOpcode.FINISH)

_ADDRESSES = {
    VtaMemory.INP: 0x10000,
    VtaMemory.WGT: 0x40000,
    VtaMemory.ACC: 0x80000,
    VtaMemory.ACC_8BIT: 0xC0000,
    VtaMemory.OUT: 0xE0000,
    VtaMemory.UOP: 0xFF000,
}


_ELEMENTS = 64
_OUT_ELEMENTS = 352
"""Elements of the segments; UOP has as many as were loaded."""


@dataclass
class Builder:
    """A program under construction."""

    rng: np.random.Generator
    instructions: list[VtaInstruction] = field(default_factory=list)
    uops: list[bytes] = field(default_factory=list)

    def move(
        self, opcode: VtaOpcode, memory: VtaMemory, row: int, y: int, x: int, **more: int
    ) -> None:
        """LOAD or STORE at element `at` of the memory's segment."""
        at = more.pop("at", 0)
        more.setdefault("x_stride", x)
        dram = _ADDRESSES[memory] // memory.element_bytes + at
        self.instructions.append(
            VtaInstruction.of(
                opcode, memory=memory, sram_base=row, dram_base=dram, y_size=y, x_size=x, **more
            )
        )

    def load(self, memory: VtaMemory, row: int, y: int, x: int, **more: int) -> None:
        """A LOAD, see `move`."""
        self.move(VtaOpcode.LOAD, memory, row, y, x, **more)

    def store(self, row: int, y: int, x: int, **more: int) -> None:
        """A STORE, see `move`."""
        self.move(VtaOpcode.STORE, VtaMemory.OUT, row, y, x, **more)

    def load_uops(self, row: int, *uops: tuple[int, int, int]) -> None:
        """Add micro-ops to memory and load them."""
        self.load(VtaMemory.UOP, row, 1, len(uops), at=len(self.uops))
        self.uops += [encode_uop(*uop) for uop in uops]

    def loop(self, opcode: VtaOpcode, begin: int, end: int, **more: int) -> None:
        """GEMM or ALU over micro-ops [begin, end), both loops once unless told otherwise."""
        values = {"iter_out": 1, "iter_in": 1, **more}
        self.instructions.append(VtaInstruction.of(opcode, uop_begin=begin, uop_end=end, **values))

    def stream(self) -> bytes:
        """The encoded stream, FINISH included."""
        return encode_stream([*self.instructions, FINISH])

    def program(self, **more: object) -> VtaProgram:
        """The program, with the memory that the interpreter leaves as the expected contents."""
        contents = {}
        for memory in _ADDRESSES:
            count = _OUT_ELEMENTS if memory is VtaMemory.OUT else _ELEMENTS
            size = count * memory.element_bytes
            data = self.rng.integers(0, 256, size, dtype=np.uint8).tobytes()
            contents[memory] = b"".join(self.uops) if memory is VtaMemory.UOP else data
        image = {
            _ADDRESSES[memory] + k: byte
            for memory, data in contents.items()
            for k, byte in enumerate(data)
        }
        Interpreter(image).run(self.stream())
        segments = [
            VtaSegment(
                memory.name.lower(),
                address,
                contents[memory],
                bytes(image[address + k] for k in range(len(contents[memory]))),
            )
            for memory, address in _ADDRESSES.items()
        ]
        return VtaProgram(tuple(decode_stream(self.stream())), tuple(segments), **more)  # type: ignore[arg-type]


def random_vta_program(rng: np.random.Generator, length: int) -> VtaProgram:
    """`length` random instructions on few rows, so that they collide often; then all is stored."""
    builder = Builder(rng)
    rows = 24
    draw = lambda high: int(rng.integers(0, high))  # noqa: E731

    def uops(count: int) -> list[tuple[int, int, int]]:
        return [(draw(rows), draw(rows), draw(rows)) for _ in range(count)]

    builder.load_uops(0, *uops(32))
    # A program writes all that it reads; rows of loops reach beyond those of micro-ops.
    for memory in (VtaMemory.INP, VtaMemory.WGT, VtaMemory.ACC):
        builder.load(memory, 0, 1, _ELEMENTS)
    builder.load(VtaMemory.ACC, _ELEMENTS, 1, 72 - _ELEMENTS)
    for _ in range(length):
        kind = draw(8)
        if kind == 0:
            builder.load_uops(draw(24), *uops(1 + draw(8)))
        elif kind == 1:
            builder.store(draw(rows), draw(3), draw(6), at=draw(24), x_stride=draw(9))
        elif kind in (2, 3):
            memory = VtaMemory(int(rng.choice([1, 2, 3, 5])))
            pads = {name: draw(3) * draw(2) for name in _PADS}
            builder.load(
                memory, draw(rows), draw(3), draw(5), at=draw(32), x_stride=draw(9), **pads
            )
        else:
            begin = draw(32)
            loops = {name: draw(4) for name in ("dst_out", "dst_in", "src_out", "src_in")}
            loops |= {"iter_out": draw(4), "iter_in": draw(4)}
            end = min(32, begin + draw(5))
            if kind == 4:
                builder.loop(VtaOpcode.GEMM, begin, end, wgt_out=draw(3), wgt_in=draw(3), **loops)
            elif kind == 5:
                builder.loop(VtaOpcode.GEMM, begin, end, reset=1, **loops)
            else:
                _random_alu(builder, begin, end, loops)
    _store_accumulators(builder, rows=72)
    return builder.program()


_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


def _random_alu(builder: Builder, begin: int, end: int, loops: dict[str, int]) -> None:
    rng = builder.rng
    operation = int(rng.integers(0, 5))
    immediate = int(rng.choice([-32768, -129, -1, 0, 1, 127, 255, 32767, rng.integers(-999, 999)]))
    use_immediate = int(rng.integers(0, 2))
    if operation == 3:  # C++ leaves shifts beyond 31 undefined: amounts are immediates within
        use_immediate, immediate = 1, int(rng.integers(-31, 32))
    builder.loop(
        VtaOpcode.ALU,
        begin,
        end,
        operation=operation,
        use_immediate=use_immediate,
        immediate=immediate if use_immediate else 0,
        **loops,
    )


def _store_accumulators(builder: Builder, rows: int) -> None:
    """Store all four bytes of every accumulator, so that no bit escapes the comparison."""
    builder.load_uops(40, (0, 0, 0))
    for byte in range(4):
        builder.store(0, 1, rows, at=_OUT_ELEMENTS - (4 - byte) * rows)
        builder.loop(
            VtaOpcode.ALU, 40, 41, iter_in=rows, dst_in=1, operation=3, use_immediate=1, immediate=8
        )  # fmt: skip
