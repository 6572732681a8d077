"""Tensors live while layers that have them in memory are running."""

from daedal.compiler.link.placement.lifetimes import Life, lifetimes
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.table import Opcode


def moves(text: str) -> list[PlacedInstruction]:
    """Of "0<x 0>y": layer 0 loads x and stores y; "0" alone multiplies."""
    opcodes = {"<": Opcode.LOAD, ">": Opcode.STORE, "": Opcode.GEMM}
    return [
        PlacedInstruction(Instruction.of(opcodes[word[1:2]]), int(word[0]), (), word[2:] or None)
        for word in text.split()
    ]


def test_layers_one_after_the_other() -> None:
    """Layer 1 reads rows of b on chip, so b does not live for long."""
    assert lifetimes(moves("0<x 0 0>a 1<a 1 1>b 2<a 2 2>c 3<c 3 3>y")) == {
        "x": Life(0, 0, is_read=True),
        "a": Life(0, 2, is_read=True),
        "b": Life(1, 1, is_read=False),
        "c": Life(2, 3, is_read=True),
        "y": Life(3, 3, is_read=False),
    }


def test_layers_tile_by_tile() -> None:
    """While layers 1 and 2 take turns, both the operand of one and the result of the other live."""
    found = lifetimes(moves("0<x 0>a 1<a 1>b 2 1<a 2>c 1>b 2 2>c 3<c 3>y"))
    assert found["a"] == Life(0, 2, is_read=True)
    assert found["b"] == Life(1, 2, is_read=False)
    assert found["c"] == Life(2, 3, is_read=True)


def test_what_joins_others_lives_while_it_is_loaded() -> None:
    found = lifetimes(moves("0<x 0>a 1<x 1>b 2<ab 2>c 3<ab 3>y"))
    assert found["ab"] == Life(2, 3, is_read=True)
    assert found["a"] == Life(0, 0, is_read=False)
