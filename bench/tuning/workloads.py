"""The workloads of `bench.tuning.tuner`: single layers over four variants, each a small network.

Input: a name. Output: the layer's graph, node, space and runner, as the tuner of networks sees it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx

from bench.networks.conv_layers import LAYERS as RESNET18
from bench.networks.depthwise_layers import LAYERS as DEPTHWISE
from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.layer_runner import LayerRunner

__all__ = ["WORKLOADS", "Layer", "TuningWorkload"]


@dataclass(frozen=True)
class Layer:
    """A square convolution, or with `rows`, a matrix product of so many rows."""

    size: int
    channels: tuple[int, int]
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    rows: int = 0

    def model(self) -> onnx.ModelProto:
        """The layer between int8 tensors x and y, with random weights."""
        inner, outer = self.channels
        rng = np.random.default_rng([self.size, inner, outer, self.kernel, self.stride])
        maker = QdqModel()
        scales = rng.uniform(0.005, 0.02, outer).astype(np.float32)
        shape = (outer, inner // self.groups, self.kernel, self.kernel)
        values = rng.integers(-127, 128, shape).astype(np.int8)
        scale = np.float32(0.02)
        if self.rows:
            x = maker.input("x", (self.rows, inner), "int8")
            operands = (
                maker.dequantize(x, float(scale), 0),
                maker.weights(values[:, :, 0, 0].T, 0.01),
            )
            y = maker.op("MatMul", *operands)
        else:
            x = maker.input("x", (1, inner, self.size, self.size), "int8")
            pad = self.dilation * (self.kernel // 2)
            y = maker.op(
                "Conv",
                maker.dequantize(x, float(scale), 0),
                maker.weights(values, scales),
                maker.bias(rng.integers(-2000, 2000, outer), scales * scale),
                group=self.groups,
                strides=[self.stride] * 2,
                dilations=[self.dilation] * 2,
                pads=[pad] * 4,
                kernel_shape=[self.kernel] * 2,
            )
        maker.quantize(y, 0.5, 0, output="y")
        return maker.model("y", dtype="int8")


@dataclass(frozen=True)
class TuningWorkload:
    """A layer on a variant."""

    name: str
    variant_name: str
    layer: Layer

    @cached_property
    def variant(self) -> Variant:
        """The variant."""
        return load_variant(self.variant_name)

    @cached_property
    def _compiled(self) -> tuple[Graph, Node]:
        data = self.layer.model().SerializeToString()
        graph = compile_graph(load_onnx(data), self.variant).launch.graph
        tunable = [node for node in graph.nodes if space_of(graph, node, self.variant) is not None]
        if tunable:
            return graph, tunable[0]
        return graph, graph.nodes[-1]

    @cached_property
    def space(self) -> LayerSpace | None:
        """The layer's schedules; None if it has only one."""
        return space_of(*self._compiled, self.variant)

    @cached_property
    def runner(self) -> LayerRunner:
        """Measures them."""
        return LayerRunner(*self._compiled, self.variant)


def _layers() -> dict[str, Layer]:
    """Every layer by name; the depthwise ones are those of MobileNet."""
    dense = {
        layer.name: Layer(layer.size, layer.channels, layer.kernel, layer.stride)
        for layer in RESNET18
    }
    depthwise = {
        layer.name: Layer(layer.size, (layer.channels,) * 2, 3, layer.stride, groups=layer.channels)
        for layer in DEPTHWISE
    }
    return {
        **dense,
        **depthwise,
        "1x1": Layer(14, (256, 1024)),
        "5x5": Layer(28, (64, 64), 5),
        "dilated": Layer(28, (128, 128), 3, dilation=2),
        "grouped": Layer(28, (128, 128), 3, groups=4),
        "fragment20": Layer(28, (20, 40), 3),
        "fragment40": Layer(28, (40, 72), 3),
        "fragment72": Layer(14, (72, 72)),
        "wide map": Layer(112, (32, 32), 3),
        "matmul": Layer(1, (512, 1000), rows=64),
        "dense": Layer(1, (512, 1000), rows=1),
    }


_PLACES = {
    "vta": (
        *("C2", "C3", "C6", "C9", "C10", "C11", "fragment20", "fragment72", "matmul"),
        *("D1", "D4", "D6"),
    ),
    "ecp5_half": ("C5", "C7", "C10", "5x5", "wide map", "dense"),
    "tiny": ("C4", "C7", "grouped", "fragment40", "D5", "D8", "D9"),
    "wide": ("C4", "C8", "C11", "1x1", "dilated", "D2", "D3", "D7"),
}
"""Which layers are tuned on which variant. ``ecp5_half`` has no depthwise mode."""

WORKLOADS = {
    f"{layer}@{variant}": TuningWorkload(f"{layer}@{variant}", variant, _layers()[layer])
    for variant, layers in _PLACES.items()
    for layer in layers
}
