"""State of one import: the graph so far, constants by name, and aliases of tensors."""

from collections.abc import Sequence

import numpy as np
import onnx

from daedal.compiler.frontend.node import Array, OnnxNode
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.types import TensorType

__all__ = ["ImportContext"]


class ImportContext:
    """The state that importer functions work with.

    Constants are added to the graph when a node first reads them. So shapes, axes and bounds that
    only the importer needs are never added. `narrow` are those of the model that the graph has in
    more bits.
    """

    def __init__(self, builder: GraphBuilder, opset: int) -> None:
        self.builder = builder
        self.opset = opset
        self.narrow: dict[str, onnx.TensorProto] = {}
        self._constants: dict[str, Array] = {}
        self._aliases: dict[str, str] = {}

    def define_constant(self, name: str, array: Array) -> None:
        """Make a named constant available."""
        self._constants[name] = array

    def alias(self, name: str, target: str) -> None:
        """Let `name` mean the tensor `target`."""
        resolved = self.resolve(target)
        if resolved in self._constants:
            self._constants[name] = self._constants[resolved]
        else:
            self._aliases[name] = resolved

    def resolve(self, name: str) -> str:
        """The tensor that `name` means."""
        return self._aliases.get(name, name)

    def constant_value(self, name: str | None) -> Array | None:
        """Value of a constant, or None if `name` is absent or computed."""
        return None if name is None else self._constants.get(self.resolve(name))

    def is_empty(self, name: str | None) -> bool:
        """Whether a tensor has no elements; such a tensor is a constant."""
        value = self.constant_value(name)
        return value is not None and not value.size

    def float_shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a float32 tensor of the graph, or None if there is no such tensor yet."""
        kind = self.builder.types.get(self.resolve(name))
        return None if kind is None or kind.dtype != "float32" else kind.shape

    def operand(self, node: OnnxNode, index: int) -> str:
        """Graph tensor for a required operand of `node`."""
        name = node.input(index)
        if name is None:
            raise node.damaged(f"operand {index} must be given")
        return self.defined(name, node)

    def defined(self, name: str, node: OnnxNode) -> str:
        """Graph tensor that `name` means, which `node` reads; a constant is added to the graph.

        Raises UnsupportedError for one without elements, which the graph has not.
        """
        resolved = self.resolve(name)
        if not self.builder.is_defined(resolved):
            if resolved not in self._constants:
                raise node.damaged(f"operand {name!r} is not defined")
            if self.is_empty(resolved):
                raise node.refuse(
                    f"operands must have elements, and {name!r} has none", "remove the node"
                )
            self.builder.constant(resolved, self._constants[resolved])
        return resolved

    def operand_type(self, node: OnnxNode, index: int) -> TensorType:
        """Type of a required operand."""
        return self.builder.types[self.operand(node, index)]

    def required_constant(self, node: OnnxNode, index: int) -> Array:
        """Value of an operand that has to be constant."""
        value = self.constant_value(node.input(index))
        if value is None:
            raise node.refuse(
                f"operand {index} must be a constant", "fold it, or fix the shapes at export"
            )
        return value

    def add_constant(self, base: str, array: Array) -> str:
        """Add a constant that is not in the model to the graph."""
        return self.builder.constant(self.builder.fresh_name(base), np.asarray(array))

    def emit(self, node: OnnxNode, op: str, operands: Sequence[str], **attrs: AttrValue) -> None:
        """Add the graph node for the ONNX node's first output; its other outputs must be unused."""
        node.finish()
        if any(node.outputs[1:]):
            raise node.refuse(
                "only the first output is supported", "remove the uses of the other outputs"
            )
        self.builder.add(op, operands, attrs, output=node.outputs[0], name=node.name)
