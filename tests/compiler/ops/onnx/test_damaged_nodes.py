"""Nodes that break ONNX's rules: each is lowered, or an error names it."""

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler import te
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType, buffer_shape
from daedal.compiler.ops.onnx.table import LOWERINGS

OPERATORS = sorted(LOWERINGS)

OPSETS = [7, 9, 10, 11, 13, 18, 21]
DTYPES = ["float32", "int64", "int32", "bool", "uint8", "float16"]
NUM_NODES = 30
"""Per operator and seed."""

Random = np.random.Generator


def numbers(low: int, high: int, count: int) -> Callable[[Random], object]:
    return lambda rng: [int(item) for item in rng.integers(low, high, count)]


def number(low: int, high: int) -> Callable[[Random], object]:
    return lambda rng: int(rng.integers(low, high))


ATTRIBUTES: dict[str, Callable[[Random], object]] = {
    **dict.fromkeys(("axis", "batch_axis", "time_axis", "k"), number(-5, 5)),
    **dict.fromkeys(("blocksize", "block_size", "num_outputs", "batch_dims"), number(-1, 4)),
    **dict.fromkeys(("axes", "starts", "ends", "split"), numbers(-3, 3, 2)),
    "mode": lambda rng: str(rng.choice(["linear", "nearest", "constant", "reflect", "CRD"])),
    "pads": numbers(-1, 3, 4),
    "perm": lambda rng: [int(item) for item in rng.permutation(3)],
    "scales": lambda _: [1.0, 2.0],
    "to": number(-1, 20),
}


def random_shape(rng: Random) -> tuple[int, ...]:
    return tuple(int(item) for item in rng.integers(1, 4, rng.integers(0, 5)))


def random_operand(rng: Random, name: str) -> Operand | None:
    if rng.random() < 0.1:
        return None
    shape, dtype = random_shape(rng), str(rng.choice(DTYPES))
    value = np.asarray(rng.integers(-2, 4, shape)).astype(dtype)
    tensor = te.placeholder(buffer_shape(shape), dtype, name)
    return Operand(tensor, shape, value if rng.random() < 0.6 else None)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("op_type", OPERATORS)
def test_random_nodes(op_type: str, seed: int) -> None:
    rng = np.random.default_rng((seed, OPERATORS.index(op_type)))
    for _ in range(NUM_NODES):
        operands = [random_operand(rng, f"x{index}") for index in range(rng.integers(0, 6))]
        results = [
            ResultType(random_shape(rng), str(rng.choice(DTYPES)))
            for _ in range(rng.integers(1, 4))
        ]
        first = operands[0] if operands else None
        if first is not None and rng.random() < 0.5:
            results[0] = ResultType(first.shape, first.dtype)
        attributes = {name: draw(rng) for name, draw in ATTRIBUTES.items() if rng.random() < 0.15}
        names = ["" if item is None else item.tensor.name for item in operands]
        outputs = [f"y{index}" for index in range(len(results))]
        node = helper.make_node(op_type, names, outputs, **attributes)
        with contextlib.suppress(ModelError, UnsupportedError):
            lower_node(node, int(rng.choice(OPSETS)), operands, results, "n", {})


def lowered(op_type: str, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> None:
    names = [f"x{index}" for index in range(len(shapes))]
    operands = [
        Operand(te.placeholder(buffer_shape(shape), "float32", name), shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    node = helper.make_node(op_type, names, ["y"])
    lower_node(node, 21, operands, [ResultType(result, "float32")], "n", {})


MESSAGES = [
    ("Add", [(2, 3), (2,)], (2, 3), "operands must broadcast to [2, 3], and [2] does not"),
    ("Sum", [], (2,), "operand 0 must be given"),
    ("Reshape", [(2, 3), (1,)], (7,), "[7] must have as many elements as [2, 3]"),
    ("Tile", [(2, 3), (2,)], (4, 4), "[4, 4] must be a multiple of [2, 3]"),
    ("Trilu", [(3,)], (3,), "a matrix must have two axes, not 1"),
    ("DepthToSpace", [(2, 3)], (2, 3), "blocks of 1 must divide the channels of four axes"),
    ("Concat", [(2, 3), (2,)], (2, 6), "all operands must have one rank"),
    ("ScatterElements", [(4,), (2,), (3,)], (4,), "updates [3] and indices [2] must match"),
    ("LSTM", [(4,), (4,), ()], (4,), "operands must have the ranks and shapes that"),
    ("CenterCropPad", [(4,), (1,)], (4, 1), "[4, 1] must have the rank of [4]"),
]


@pytest.mark.parametrize(
    ("op_type", "shapes", "result", "message"), MESSAGES, ids=[item[0] for item in MESSAGES]
)
def test_messages(
    op_type: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        lowered(op_type, shapes, result)
    assert message in str(caught.value) and f"operator {op_type}" in str(caught.value)
