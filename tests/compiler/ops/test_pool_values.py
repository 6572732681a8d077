"""Maximum pools that keep the values of their operand are moved, all others requantized."""

import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.pipeline import compile_graph
from daedal.isa.table import AluOp, Opcode
from daedal.isa.variant import load_variant
from tests.support.networks import check_compiled

MOVED, REQUANTIZED = AluOp.MOV, AluOp.REQUANTIZE


def pooled(scales: list[float], relu: bool = False) -> bytes:
    """Pools one after the other, with the scale of each result."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 20, 9, 11)), 0.05, 3)
    for scale in scales:
        y = maker.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        y = maker.op("Relu", y) if relu else y
        x = maker.requantized(y, scale, 3)
    return maker.model(maker.op("Identity", x, output="y")).SerializeToString()


@pytest.mark.parametrize(
    ("scales", "relu", "expected"),
    [
        ([0.05], False, [MOVED]),
        ([0.04], False, [REQUANTIZED]),
        ([0.05], True, [REQUANTIZED]),
        ([0.05, 0.05], True, [REQUANTIZED, MOVED]),
        # Equal but for the values of their parameters.
        ([0.05, 0.04, 0.04], False, [MOVED, REQUANTIZED, MOVED]),
    ],
)
def test_values_that_stay_are_moved(scales, relu, expected, rng):
    compiled = compile_graph(load_onnx(pooled(scales, relu)), load_variant("vta"))
    check_compiled(compiled, rng)
    found = [
        AluOp(item.operation)
        for item in compiled.launch.program.instructions
        if item.opcode is Opcode.ALU and item.operation in (MOVED, REQUANTIZED)
    ]
    assert [a for a, b in zip(found, [None, *found], strict=False) if a != b] == expected
