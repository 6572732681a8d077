"""A network with its edges and shapes, as rewrites of attention look at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array, Network

__all__ = ["Edges"]


@dataclass
class Edges:
    """A network with its edges and shapes, before one of the rewrites."""

    network: Network
    producers: Mapping[str, onnx.NodeProto]
    users: Mapping[str, Sequence[onnx.NodeProto]]
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, network: Network) -> "Edges":
        shapes = {name: shape for name, (_, shape) in network.types().items()}
        return cls(network, network.producers(), network.users(), shapes)

    def producer(self, name: str, op_type: str) -> onnx.NodeProto | None:
        node = self.producers.get(name)
        return node if node is not None and node.op_type == op_type else None

    def slice_of(self, node: onnx.NodeProto) -> tuple[int, int, int] | None:
        """Axis, begin and end of a Slice along one axis without steps, else None."""
        if node.op_type != "Slice" or node.input[0] not in self.shapes:
            return None
        values = [self.network.constants.get(name) for name in node.input[1:]]
        if len(values) < 3 or any(value is None or value.size != 1 for value in values):
            return None
        begin, end, axis, *steps = (int(value.reshape(())) for value in values if value is not None)
        extents = self.shapes[node.input[0]]
        axis %= len(extents)
        begin, end, _ = slice(begin, end).indices(extents[axis])
        return (axis, begin, end) if steps in ([], [1]) else None

    def layer(self, name: str) -> onnx.NodeProto | None:
        """The Gemm with constant weights (inputs, outputs) of which `name` is the result."""
        layer = self.producer(name, "Gemm")
        if layer is None or attribute(layer, "transB", 0):
            return None
        known = all(operand in self.network.constants for operand in layer.input[1:])
        return layer if known else None

    def parameters(self, layer: onnx.NodeProto) -> list[Array]:
        """Weights (inputs, outputs), and the bias (outputs,) if there is one."""
        weights, *bias = (self.network.constants[name] for name in layer.input[1:])
        return [weights, *(np.broadcast_to(item.ravel(), weights.shape[1:]) for item in bias)]

    def add_projection(
        self, layer: onnx.NodeProto, parameters: Sequence[Array], shape: Sequence[int], output: str
    ) -> list[onnx.NodeProto]:
        """Nodes of a projection of what `layer` projects, as `output` of the given shape."""
        product = self.network.fresh(f"{output}_product")
        names = [
            self.network.add_constant(f"{output}_{role}", np.ascontiguousarray(value))
            for role, value in zip(("weights", "bias"), parameters, strict=False)
        ]
        return [
            helper.make_node("Gemm", [layer.input[0], *names], [product], name=product),
            self.network.reshape(product, shape, output),
        ]
