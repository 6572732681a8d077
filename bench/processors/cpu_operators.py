"""Speed of single operators on our processor code, against what one core can do and the libraries.

    python bench/processors/cpu_operators.py [--only NAME ...] [--json F]

Each operator is a model of floats: the convolutions of ResNet-18 (C) and the depthwise ones of
MobileNet (D), whose maps have their channels first at both ends, matrix products, and what moves
memory; and layers of 8-bit integers, four of a kind after each other, so that what quantizes the
input takes a small part. One thread. Operators that multiply are shown as billions of operations a
second and as a share of a loop of multiply-adds alone (`bench.processors.peaks`),
the others as billions of bytes that they must move, and as a share of a copy by numpy. `ratio` is
the faster library's fastest run over ours (`bench/processors/cpu.py`).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.networks import conv_layers, depthwise_layers
from bench.processors.cpu import Row, measure
from bench.processors.peaks import PeakLoop, byte_loop, real_loop
from bench.qdq_model import QdqModel
from daedal.native.levels import host_level

__all__ = ["Operator", "copied_bytes_per_second", "main", "operations_per_second", "operators"]

PRODUCTS = ((512, 512, 512), (1024, 1024, 1024), (509, 509, 509), (197, 768, 768), (1, 4096, 4096))
"""Rows, depth and columns of matrix products."""
MAPS = ((56, 64), (28, 128), (14, 256), (7, 512))
"""Rows and channels of maps of 3x3 convolutions of integers."""
TOKENS = (197, 768)
"""Rows and columns of products of integers."""
LAYERS = 4
"""Of integers, of a kind."""
LOOPS = 1 << 20
"""Iterations of the loop that is the peak."""
COPIED_BYTES = 1 << 26


@dataclass(frozen=True)
class Operator:
    """A model of one operator; what it must compute, or else move."""

    name: str
    model: bytes
    operations: int = 0
    bytes: int = 0
    is_whole: bool = False
    """Whether it multiplies integers."""


@dataclass(frozen=True)
class Limits:
    """What one core does at most, a second: operations on float32 and on 8-bit integers, and bytes
    that it copies."""

    reals: float
    integers: float
    bandwidth: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; exit status 1 where an operator differs from onnxruntime."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    limits = Limits(
        operations_per_second(real_loop),
        operations_per_second(byte_loop),
        copied_bytes_per_second(),
    )
    console.print(
        f"peak {limits.reals / 1e9:.0f} GFLOP/s, {limits.integers / 1e9:.0f} GOP/s of 8 bits "
        f"({host_level()}), copy {limits.bandwidth / 1e9:.1f} GB/s"
    )
    rows: list[tuple[Operator, Row]] = []
    for item in operators():
        if not options.only or item.name in options.only:
            console.log(item.name)
            rows.append((item, measure(item.name, item.model, 1)))
    console.print(_table(rows, limits))
    found = [
        {**asdict(row), "ratio": row.ratio, "share": _share(item, row, limits)}
        for item, row in rows
    ]
    write_json(options.json, found)
    wrong = [row.name for _, row in rows if row.wrong]
    for name in wrong:
        console.print(f"wrong: {name}")
    return 1 if wrong else 0


def operators() -> Iterator[Operator]:
    """All of them."""
    yield _convolution("C1", 7, 224, (3, 64), 2)
    for layer in conv_layers.LAYERS:
        yield _convolution(layer.name, layer.kernel, layer.size, layer.channels, layer.stride)
    for depthwise in depthwise_layers.LAYERS:
        channels = (depthwise.channels, depthwise.channels)
        yield _convolution(
            depthwise.name, 3, depthwise.size, channels, depthwise.stride, groups=depthwise.channels
        )
    for rows, depth, columns in PRODUCTS:
        name = f"{rows}x{depth}x{columns}"
        model = _model("MatMul", (rows, depth), {"w": _floats(depth, columns)})
        if rows == 1:
            yield Operator(name, model, bytes=4 * depth * columns)
        else:
            yield Operator(name, model, operations=2 * rows * depth * columns)
    for name, model in _moving().items():
        yield Operator(name, model, bytes=_bytes_moved(model))
    for size, channels in MAPS:
        rng = np.random.default_rng(size)
        weights = rng.integers(-128, 128, (LAYERS, channels, channels, 3, 3)).astype(np.int8)
        model = _whole("Conv", (1, channels, size, size), weights, pads=[1] * 4)
        operations = 2 * weights.size * size**2
        yield Operator(f"int8 {size}x{size}x{channels}", model, operations, is_whole=True)
    rows, depth = TOKENS
    weights = np.random.default_rng(0).integers(-128, 128, (LAYERS, depth, depth)).astype(np.int8)
    model = _whole("MatMul", (1, rows, depth), weights)
    name = f"int8 {rows}x{depth}x{depth}"
    yield Operator(name, model, operations=2 * weights.size * rows, is_whole=True)


def _whole(op_type: str, shape: Sequence[int], weights: np.ndarray, **attrs: Any) -> bytes:
    """Layers of quantized tensors, each of which reads the one before."""
    maker = QdqModel(opset=21)
    x = maker.requantized(maker.input("x", shape), 0.05, 3)
    for layer in weights[:-1]:
        x = maker.requantized(maker.op(op_type, x, maker.weights(layer, 0.0005), **attrs), 0.05, 3)
    last = maker.op(op_type, x, maker.weights(weights[-1], 0.0005), **attrs)
    maker.quantize(last, 0.05, 3, output="y")
    return bytes(maker.model("y", dtype="int8").SerializeToString())


def _convolution(
    name: str, kernel: int, size: int, channels: tuple[int, int], stride: int, groups: int = 1
) -> Operator:
    inner, outer = channels
    weights = _floats(outer, inner // groups, kernel, kernel)
    pads = [kernel // 2] * 4
    results = -(-size // stride)
    model = _model(
        "Conv", (1, inner, size, size), {"w": weights}, pads=pads, strides=[stride] * 2,
        group=groups,
    )  # fmt: skip
    return Operator(name, model, operations=2 * weights.size * results**2)


def _moving() -> dict[str, bytes]:
    """Operators that memory bounds, by name."""
    maps, rows = (1, 64, 56, 56), (1024, 1024)
    scales = np.array([1, 1, 2, 2], np.float32)
    return {
        "add": _model("Add", rows, {"w": _floats(*rows)}),
        "relu": _model("Relu", rows),
        "sigmoid": _model("Sigmoid", rows),
        "tanh": _model("Tanh", rows),
        "gelu": _model("Gelu", rows),
        "softmax": _model("Softmax", rows),
        "layer norm": _model("LayerNormalization", rows, {"s": _floats(1024)}),
        "mean of rows": _model("ReduceMean", rows, {"a": np.array([1])}),
        "mean of columns": _model("ReduceMean", rows, {"a": np.array([0])}),
        "transpose": _model("Transpose", rows, perm=[1, 0]),
        "channels last": _model("Transpose", maps, perm=[0, 2, 3, 1]),
        "heads": _model("Transpose", (1, 128, 12, 64), perm=[0, 2, 1, 3]),
        "max pool": _model("MaxPool", maps, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        "global pool": _model("GlobalAveragePool", maps),
        "concat": _model("Concat", maps, {"w": _floats(*maps)}, axis=1),
        "enlarge": _model("Resize", maps, {"": None, "s": scales}, mode="nearest"),
    }


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _model(
    op_type: str,
    shape: Sequence[int],
    constants: dict[str, Any] | None = None,
    **attrs: Any,
) -> bytes:
    """An operator that reads `x` and the constants."""
    given = constants or {}
    nodes = [helper.make_node(op_type, ["x", *given], ["y"], **attrs)]
    graph = helper.make_graph(
        nodes,
        "operator",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in given.items() if name],
    )
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])
    return bytes(model.SerializeToString())


def _bytes_moved(model: bytes) -> int:
    """Of all inputs and outputs, once, and of constants."""
    graph = onnx.ModelProto.FromString(model).graph
    shapes = [
        [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in (*graph.input, *graph.output)
    ]
    constants = sum(numpy_helper.to_array(item).nbytes for item in graph.initializer)
    return constants + 4 * sum(int(np.prod(shape)) for shape in shapes)


def operations_per_second(loop: Callable[[str], PeakLoop]) -> float:
    """Products and sums a second in registers, by one core."""
    level = host_level()
    found = loop(level)
    run = found.compiled(level)
    return found.operations * LOOPS / _fastest(lambda: run(LOOPS))


def copied_bytes_per_second() -> float:
    """Bytes read and written a second by a copy of what no cache holds, by one core."""
    source = np.ones(COPIED_BYTES, np.uint8)
    target = np.zeros_like(source)
    return 2 * COPIED_BYTES / _fastest(lambda: np.copyto(target, source))


def _fastest(run: Callable[[], Any], times: int = 20) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _share(item: Operator, row: Row, limits: Limits) -> float:
    seconds = row.fastest["daedal"]
    if not item.operations:
        return item.bytes / seconds / limits.bandwidth
    return item.operations / seconds / (limits.integers if item.is_whole else limits.reals)


def _table(rows: Sequence[tuple[Operator, Row]], limits: Limits) -> Table:
    table = Table(title="one thread, the fastest run")
    for title in ("operator", "us", "GFLOP/s, GOP/s", "GB/s", "share", "ratio", "difference"):
        table.add_column(title, justify="left" if title == "operator" else "right")
    for item, row in rows:
        seconds = row.fastest["daedal"]
        table.add_row(
            item.name,
            f"{seconds * 1e6:.0f}",
            f"{item.operations / seconds / 1e9:.1f}" if item.operations else "",
            "" if item.operations else f"{item.bytes / seconds / 1e9:.1f}",
            f"{_share(item, row, limits):.0%}",
            f"{row.ratio:.2f}",
            f"{row.difference:.1e}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
