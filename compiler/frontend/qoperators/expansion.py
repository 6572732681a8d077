"""The model under construction while operators on integers are expanded."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from daedal.compiler.frontend.node import Array, OnnxNode, tensor_value
from daedal.compiler.frontend.tensor_types import tensor_types

__all__ = ["Expansion", "optional"]

_INTEGERS = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)


class Expansion:
    """State of the expansion: reads tensors of the old model and adds nodes to the new one.

    Parameters
    ----------
    model : a checked model. It is not changed.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        standard = [item for item in model.opset_import if item.domain in ("", "ai.onnx")]
        self.opset = max((item.version for item in standard), default=0)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._used = {name for node in graph.node for name in (*node.input, *node.output)}
        self._used.update(item.name for item in (*graph.input, *graph.output, *graph.initializer))
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._kinds: dict[str, int | None] = {
            item.name: item.type.tensor_type.elem_type for item in graph.input
        }
        self._kinds.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        self._of_constants = set(self._constants)
        self._model = model
        self._scalars: dict[str, str] = {}
        self._reals: dict[tuple[str, str, str, int | None], str] = {}

    def keep(self, node: onnx.NodeProto) -> None:
        """Copy a node unchanged, and track its result's type and value in simple cases."""
        self.nodes.append(node)
        if node.input and all(not name or name in self._of_constants for name in node.input):
            self._of_constants.update(node.output)
        given = {item.name: item for item in node.attribute}
        result = node.output[0] if node.output else ""
        if node.op_type == "Constant" and "value" in given:
            self._define(result, given["value"].t)
        elif node.op_type == "Identity" and optional(node, 0) in self._constants:
            self._define(result, self._constants[node.input[0]])
        elif node.op_type == "Identity":
            self._kinds[result] = self._kinds.get(optional(node, 0))
        elif node.op_type == "Cast" and "to" in given:
            self._kinds[result] = given["to"].i
        elif node.op_type == "QuantizeLinear":
            zero_point = optional(node, 2)
            kind = self._kinds.get(zero_point) if zero_point else onnx.TensorProto.UINT8
            self._kinds[result] = given["output_dtype"].i if "output_dtype" in given else kind

    def is_integer(self, name: str) -> bool:
        """Whether a tensor is known to be int8 or uint8."""
        return self._kinds.get(name) in _INTEGERS

    def is_constant(self, name: str) -> bool:
        """Whether a tensor is known to be constant, or computed of constants alone."""
        return name in self._of_constants

    def rank(self, name: str) -> int | None:
        """The rank of a tensor, or None where ONNX's shape inference does not find it."""
        if name in self._constants:
            return len(self._constants[name].dims)
        graph = helper.make_graph(
            self.nodes,
            "so far",
            self._model.graph.input,
            [helper.make_empty_tensor_value_info(name)],
            [*self._model.graph.initializer, *self.initializers],
        )
        made = helper.make_model(graph, opset_imports=self._model.opset_import)
        found = tensor_types(made).get(name)
        if found is None or not found.type.tensor_type.HasField("shape"):
            return None
        return len(found.type.tensor_type.shape.dim)

    def with_channels(self, tensor: str, rank: int, *, last: bool) -> str:
        """A real tensor with its channels moved to the last axis, or from there to axis 1."""
        order = [0, *range(2, rank), 1] if last else [0, rank - 1, *range(1, rank - 1)]
        result = self._fresh(f"{tensor}.moved")
        made = helper.make_node("Transpose", [tensor], [result], name=result, perm=order)
        self.nodes.append(made)
        return result

    def constant(self, name: str) -> Array | None:
        """Value of a constant tensor, or None where it is computed."""
        return tensor_value(self._constants[name]) if name in self._constants else None

    def typed(self, node: onnx.NodeProto) -> OnnxNode:
        """The node with typed access to its attributes."""
        return OnnxNode(node, self.opset)

    def add_constant(self, base: str, value: Array) -> str:
        """Define a new constant."""
        name = self._fresh(base)
        tensor = numpy_helper.from_array(value, name)
        self.initializers.append(tensor)
        self._define(name, tensor)
        return name

    def op(
        self,
        node: onnx.NodeProto,
        op_type: str,
        inputs: Sequence[str],
        *,
        without: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> list[str]:
        """Add the standard operator that `node` computes on reals, under its name and with its
        attributes but those in `without`.

        Returns the real results, which get new names where `outputs` gives none.
        """
        results = list(outputs) or [self._fresh(f"{name}.real") for name in node.output]
        made = helper.make_node(op_type, inputs, results, name=node.name or node.output[0])
        made.attribute.extend(item for item in node.attribute if item.name not in without)
        self.nodes.append(made)
        return results

    def real(self, tensor: str, scale: str, zero_point: str = "", axis: int | None = None) -> str:
        """Dequantize a tensor, once for all readers with the same parameters.

        With an `axis`, a `scale` of several values has one for each index along it.
        """
        scale, zero_point = self._scalar(scale), self._scalar(zero_point)
        if scale in self._constants and not self._constants[scale].dims:
            axis = None
        key = (tensor, scale, zero_point, axis)
        if key not in self._reals:
            inputs = [tensor, scale, *([zero_point] if zero_point else [])]
            output = self._fresh(f"{tensor}.real")
            made = helper.make_node("DequantizeLinear", inputs, [output], name=output)
            if axis is not None:
                made.attribute.append(helper.make_attribute("axis", axis))
            self.nodes.append(made)
            self._reals[key] = output
        return self._reals[key]

    def quantize(self, output: str, real: str, scale: str, zero_point: str, *, like: str) -> None:
        """Define `output` as the quantized `real`. Without a zero point, it is 0 in the type of the
        tensor `like`."""
        if not zero_point:
            dtype = np.uint8 if self._kinds.get(like) == onnx.TensorProto.UINT8 else np.int8
            zero_point = self.add_constant(f"{output}.zero_point", np.zeros((), dtype=dtype))
        inputs = [real, self._scalar(scale), self._scalar(zero_point)]
        name = self._fresh(f"{output}.quantize")
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [output], name=name))
        self._kinds[output] = self._kinds.get(inputs[2])

    def _scalar(self, name: str) -> str:
        """A constant of one value as a scalar, so that no axis applies; any other tensor itself."""
        if name not in self._constants or list(self._constants[name].dims) != [1]:
            return name
        if name not in self._scalars:
            value = tensor_value(self._constants[name])
            self._scalars[name] = self.add_constant(f"{name}.scalar", value.reshape(()))
        return self._scalars[name]

    def _define(self, name: str, tensor: onnx.TensorProto) -> None:
        self._constants[name] = tensor
        self._of_constants.add(name)
        self._kinds[name] = tensor.data_type

    def _fresh(self, base: str) -> str:
        name, count = base, 0
        while name in self._used:
            count += 1
            name = f"{base}.{count}"
        self._used.add(name)
        return name


def optional(node: onnx.NodeProto, index: int) -> str:
    """Name of an operand, empty if it is absent."""
    return str(node.input[index]) if index < len(node.input) else ""
