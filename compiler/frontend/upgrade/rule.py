"""`ModelUpgrade`: what the rules know of a model and add to it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from daedal.compiler.frontend.tensor_types import tensor_types

__all__ = ["ModelUpgrade", "Rule", "attribute", "take"]

Array = npt.NDArray[Any]

_PREFIX = "upgraded."


class ModelUpgrade:
    """The tensors of a model, and constants that nodes of the newer operator set read.

    Attributes
    ----------
    constants : to be added to the model's graph, where all its subgraphs see them.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._numbers = 0
        self.constants: list[onnx.TensorProto] = []

    def name(self) -> str:
        """The name of a new tensor."""
        self._numbers += 1
        name = f"{_PREFIX}{self._numbers}"
        return name if name not in self._taken else self.name()

    def add(self, value: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """A constant, by name."""
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        self._values[name] = self.constants[-1]
        return name

    def add_like(self, value: float, operand: str) -> str:
        """A constant of one element with the type of `operand`; float32 where that is unknown."""
        found = self.element_type(operand) or onnx.TensorProto.FLOAT
        return self.add(value, helper.tensor_dtype_to_np_dtype(found))

    def value(self, name: str) -> Array | None:
        """The value of a tensor, if it is constant."""
        found = self._values.get(name)
        return None if found is None else np.asarray(numpy_helper.to_array(found))

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor, if it is known."""
        found = self._types.get(name)
        tensor = None if found is None else found.type.tensor_type
        if tensor is None or not tensor.HasField("shape"):
            return None
        dims = tensor.shape.dim
        if not all(dim.HasField("dim_value") for dim in dims):
            return None
        return tuple(int(dim.dim_value) for dim in dims)

    def rank(self, name: str) -> int | None:
        """The rank of a tensor, if it is known."""
        found = self._types.get(name)
        if found is None or not found.type.tensor_type.HasField("shape"):
            return None
        return len(found.type.tensor_type.shape.dim)

    def element_type(self, name: str) -> int:
        """ONNX's number of a tensor's type; 0 if it is unknown."""
        found = self._types.get(name)
        return 0 if found is None else int(found.type.tensor_type.elem_type)

    @cached_property
    def _types(self) -> dict[str, onnx.ValueInfoProto]:
        graph = self._model.graph
        given = {
            item.name: helper.make_tensor_value_info(item.name, item.data_type, item.dims)
            for item in graph.initializer
        }
        return {**given, **tensor_types(self._model)}

    @cached_property
    def _values(self) -> dict[str, onnx.TensorProto]:
        found = {item.name: item for item in self._model.graph.initializer}
        for node in self._model.graph.node:
            if node.op_type == "Constant" and (value := attribute(node, "value")) is not None:
                found[node.output[0]] = value
        return found

    @cached_property
    def _taken(self) -> frozenset[str]:
        """Names of the model's tensors that look like new ones."""
        return frozenset(name for name in _names(self._model.graph) if name.startswith(_PREFIX))


Rule = Callable[[onnx.NodeProto, ModelUpgrade], Sequence[onnx.NodeProto]]
"""What a node becomes that means the same; the rule may change and return the node it is given.

Raises ModelError, whose text is a reason, where there is no equivalent.
"""


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute."""
    found = next((item for item in node.attribute if item.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def take(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute, which is removed."""
    value = attribute(node, name, default)
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    return value


def _names(graph: onnx.GraphProto) -> list[str]:
    found = [item.name for item in (*graph.input, *graph.initializer)]
    for node in graph.node:
        found += node.output
        for item in node.attribute:
            for inner in (item.g, *item.graphs):
                found += _names(inner)
    return found
