"""Networks whose structure the onnx wheel carries: its `light` backend tests.

Those files hold a network's graph of opset 9, with nearly every weight made by a ConstantOfShape,
all equal; a few small constants are left as they were trained, for other weights. `light` gives all
of them seeded values, and writes the network as an exporter of today does: opset 17, no Dropout,
sums of two as Add, constants as initializers in the shape that they are used in, Reshape for
whatever batch.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from bench.zoo.builder import IMAGE, FloatModel
from bench.zoo.weights import Role, draw

__all__ = ["light"]

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
ROLES = {
    "Conv": (None, Role.WEIGHT, Role.BIAS),
    "Gemm": (None, Role.WEIGHT, Role.BIAS),
    "BatchNormalization": (None, Role.GAIN, Role.BIAS, Role.MEAN, Role.VARIANCE),
    "Mul": (None, Role.GAIN),
    "Add": (None, Role.BIAS),
}
"""Operand by operand, what a constant is to an operator."""

Array = npt.NDArray[np.float32] | npt.NDArray[np.int64]


def light(name: str) -> Callable[[np.random.Generator], onnx.ModelProto]:
    """The function that makes network `name` (light_`name`.onnx) from a generator."""

    def build(rng: np.random.Generator) -> onnx.ModelProto:
        return _Rewriter(onnx.load(FOLDER / f"light_{name}.onnx").graph, rng).model()

    return build


class _Rewriter:
    """Goes through the nodes in order and adds what they mean to a new model."""

    def __init__(self, graph: onnx.GraphProto, rng: np.random.Generator) -> None:
        self._graph = graph
        self._rng = rng
        self._net = FloatModel(rng)
        constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self._names = {item.name: IMAGE for item in graph.input if item.name not in constants}
        self._shapes = {name: value for name, value in constants.items() if value.dtype == np.int64}
        self._pending = {
            name: value.shape for name, value in constants.items() if name not in self._shapes
        }
        """Constants that are not drawn yet, with the shape that they are used in."""

    def model(self) -> onnx.ModelProto:
        """The network."""
        for node in self._graph.node:
            self._rewrite(node)
        (output,) = self._graph.output
        shape = tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)
        return self._net.model(self._names[output.name], shape)

    def _rewrite(self, node: onnx.NodeProto) -> None:
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        first, output = node.input[0], node.output[0]
        match node.op_type:
            case "ConstantOfShape":
                self._pending[output] = tuple(self._shapes[first].tolist())
            case "Reshape" | "Unsqueeze" if first in self._pending:
                self._pending[output] = self._new_shape(node, attributes)
            case "Dropout":
                self._names[output] = self._names[first]
            case "Sum" if len(node.input) == 2:
                self._add("Add", node, {})
            case "Softmax":
                self._add("Softmax", node, {"axis": 1})
            case kind:
                self._add(kind, node, attributes)

    def _new_shape(self, node: onnx.NodeProto, attributes: dict[str, list[int]]) -> tuple[int, ...]:
        """Shape of a constant after a Reshape or an Unsqueeze."""
        before = np.empty(self._pending[node.input[0]], dtype=np.bool_)
        if node.op_type == "Unsqueeze":
            return np.expand_dims(before, tuple(attributes["axes"])).shape
        return before.reshape(self._shapes[node.input[1]]).shape

    def _add(self, kind: str, node: onnx.NodeProto, attributes: dict[str, object]) -> None:
        inputs = [self._operand(node, position) for position in range(len(node.input))]
        output = node.output[0]
        self._names[output] = self._net.op(kind, output, *inputs, **attributes)

    def _operand(self, node: onnx.NodeProto, position: int) -> str:
        name = node.input[position]
        if name in self._names:
            return self._names[name]
        if name in self._pending:
            value: Array = draw(self._rng, ROLES[node.op_type][position], self._pending[name])
        else:
            value = self._shapes[name]
        if node.op_type == "Reshape":
            value = np.concatenate([[0], value[1:]])  # 0: the batch, whatever it is
        self._names[name] = self._net.constant(name, value)
        return self._names[name]
