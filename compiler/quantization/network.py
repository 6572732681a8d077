"""A mutable float ONNX model: nodes in order, constants as arrays.

Input: a checked ModelProto. Output: a ModelProto again (`to_model`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.reader import opset_of
from daedal.compiler.frontend.tensor_types import MAX_VALUES, tensor_types

__all__ = ["Array", "Network"]

Array = npt.NDArray[Any]

_IR_VERSION = 8
"""The last IR version that predates the oldest onnxruntime we support; newer opsets need more."""


class Network:
    """Nodes, constants and edges of a model; the passes of this package change it in place.

    Names are unique (ONNX is in single assignment). A symbolic batch becomes 1, as it does when
    the model is compiled.

    Raises ModelError for a model with control flow.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.opset = opset_of(model)
        self.name = graph.name or "model"
        self.opset_imports = list(model.opset_import)
        self.constants: dict[str, Array] = {
            tensor.name: _value(tensor) for tensor in graph.initializer
        }
        self.inputs = [_bound(item) for item in graph.input if item.name not in self.constants]
        self.outputs = list(graph.output)
        self.output_names = dict.fromkeys(str(item.name) for item in self.outputs).keys()
        self.nodes = [_copy(node) for node in graph.node]
        self._names = {name for node in self.nodes for name in (*node.input, *node.output)}
        self._names.update(self.constants, (item.name for item in self.inputs))
        # New nodes are named after their results; onnxruntime requires unique node names, too.
        self._names.update(node.name for node in self.nodes)

    def producers(self) -> dict[str, onnx.NodeProto]:
        """The node that computes each tensor."""
        return {name: node for node in self.nodes for name in node.output if name}

    def users(self) -> dict[str, list[onnx.NodeProto]]:
        """Nodes that read each tensor, once for each operand."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                if name:
                    found.setdefault(name, []).append(node)
        return found

    def has_one_user(self, name: str, users: Mapping[str, Sequence[onnx.NodeProto]]) -> bool:
        """Whether `name` is read exactly once, by one operand of one node."""
        return len(users.get(name, ())) == 1 and name not in self.output_names

    def fresh(self, base: str) -> str:
        """An unused tensor name: `base`, or `base` with a number."""
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}{count}"
        self._names.add(name)
        return name

    def add_constant(self, base: str, value: Array) -> str:
        """Define a constant; return its name."""
        name = self.fresh(base)
        self.constants[name] = value
        return name

    def reshape(
        self, name: str, shape: Sequence[int], output: str, node_name: str = ""
    ) -> onnx.NodeProto:
        """A node that gives a tensor another shape, as `output`."""
        size = self.add_constant(f"{output}_shape", np.array(shape, dtype=np.int64))
        node_name = node_name or self.fresh(f"{output}_view")
        return helper.make_node("Reshape", [name, size], [output], name=node_name)

    def rewrite(self, rule: Callable[[onnx.NodeProto], Sequence[onnx.NodeProto] | None]) -> None:
        """Replace every node by those that `rule` gives for it, or keep it where that is None."""
        found = [(node, rule(node)) for node in self.nodes]
        self.nodes = [
            part for node, parts in found for part in ([node] if parts is None else parts)
        ]

    def rename_operands(self, names: Mapping[str, str]) -> None:
        """Replace all operands by what `names` maps them to, following chains."""
        for node in self.nodes:
            for index, name in enumerate(node.input):
                while name in names:
                    name = names[name]
                node.input[index] = name

    def drop_unread(self) -> None:
        """Remove nodes whose results nothing reads."""
        read = set(self.output_names)
        kept = []
        for node in reversed(self.nodes):
            if any(name in read for name in node.output):
                kept.append(node)
                read.update(node.input)
        self.nodes = kept[::-1]

    def types(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Element type and static shape of all tensors for which both are known."""
        found = {
            name: (int(helper.np_dtype_to_tensor_dtype(value.dtype)), value.shape)
            for name, value in self.constants.items()
        }
        large = {name for name, value in self.constants.items() if value.size > MAX_VALUES}
        model = self.to_model(without=large)
        model.graph.input.extend(
            helper.make_tensor_value_info(name, *found[name]) for name in sorted(large)
        )
        found.update(_known(tensor_types(model)))
        return found

    def to_model(
        self, *, observe: Sequence[str] = (), without: Collection[str] = ()
    ) -> onnx.ModelProto:
        """The model, with the additional outputs `observe`, and without the constants `without`."""
        read = {name for node in self.nodes for name in node.input} | set(self.output_names)
        observed = [onnx.ValueInfoProto(name=name) for name in observe]
        graph = helper.make_graph(
            self.nodes,
            self.name,
            self.inputs,
            [*self.outputs, *observed],
            [
                numpy_helper.from_array(np.asarray(value, order="C"), name)
                for name, value in self.constants.items()
                if name in read and name not in without
            ],
        )
        return helper.make_model(
            graph,
            opset_imports=self.opset_imports,
            ir_version=max(_IR_VERSION, helper.find_min_ir_version_for(self.opset_imports)),
            producer_name="daedal",
        )


def _value(tensor: onnx.TensorProto) -> Array:
    """The array of a constant of any type: operators that stay in float may read others too."""
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"a tensor must hold as many values as its dimensions say, but {tensor.name!r} of "
            f"{list(tensor.dims)} does not; export the model again"
        ) from error


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    kinds = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    if any(attribute.type in kinds for attribute in node.attribute):
        raise ModelError(
            f"a model must have no control flow to be quantized (node {node.name!r}, operator "
            f"{node.op_type}); quantize its parts"
        )
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    return copied


def _bound(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The input with a batch of 1 where its batch is symbolic; other dimensions must be static."""
    copied = onnx.ValueInfoProto()
    copied.CopyFrom(value)
    dims = copied.type.tensor_type.shape.dim
    if dims and not dims[0].HasField("dim_value"):
        dims[0].dim_value = 1
    if any(not dim.HasField("dim_value") for dim in dims):
        raise ModelError(
            f"shapes must be static except for the batch, but input {value.name!r} has symbolic "
            "dimensions; fix them with onnx.tools.update_model_dims"
        )
    return copied


def _known(
    types: Mapping[str, onnx.ValueInfoProto],
) -> Iterator[tuple[str, tuple[int, tuple[int, ...]]]]:
    for name, value in types.items():
        tensor = value.type.tensor_type
        dims = tensor.shape.dim
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            yield name, (int(tensor.elem_type), tuple(int(dim.dim_value) for dim in dims))
