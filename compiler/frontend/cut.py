"""Cuts a part out of an ONNX model, between named tensors.

Input: a checked ModelProto and tensor names. Output: a ModelProto of that part, whose inputs have
static shapes.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.graph.ops.foreign import is_random, names_read
from daedal.compiler.graph.paths import needed_nodes

__all__ = ["ModelCutter", "cut_model", "is_static"]


def cut_model(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The part of `model` that computes `outputs` from `inputs`, both in the given order.

    A symbolic batch becomes 1, as in the imported graph. Only the nodes, initializers and operator
    sets that the part needs are in it.

    Raises
    ------
    ModelError
        For a tensor that the model does not compute, for an output that needs an input of the
        model beyond `inputs`, and for an input whose shape is not known.
    """
    cutter = ModelCutter(model, tensor_types(model))
    return cutter.part(cutter.needed(inputs, outputs), inputs, outputs)


class ModelCutter:
    """A model with numbered nodes; finds the nodes that compute tensors, and builds models of them.

    Parameters
    ----------
    model : the user's model, checked.
    types : types of its tensors, with a batch of 1.
    """

    def __init__(self, model: onnx.ModelProto, types: Mapping[str, onnx.ValueInfoProto]) -> None:
        self.model = model
        self.types = types
        self.nodes: Sequence[onnx.NodeProto] = model.graph.node
        self.producers = {
            name: number for number, node in enumerate(self.nodes) for name in node.output if name
        }
        self.initialized = {tensor.name for tensor in model.graph.initializer}
        self.inputs = [item.name for item in model.graph.input if item.name not in self.initialized]
        self.outputs = [item.name for item in model.graph.output]

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        """Initializers by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    @cached_property
    def constants(self) -> frozenset[str]:
        """Tensors that depend on no input of the model."""
        found = set(self.initialized)
        for node in self.nodes:
            if all(name in found for name in names_read(node)) and not is_random(node.op_type):
                found.update(node.output)
        return frozenset(found)

    def needed(self, starts: Collection[str], ends: Collection[str]) -> set[int]:
        """Numbers of the nodes on the paths back from `ends` to `starts`. Raises ModelError for
        what cannot be computed from `starts`."""
        known = {*starts, *self.inputs, *self.initialized, *self.producers}
        for name in ends:
            if name not in known:
                raise ModelError(
                    f"a part of a model must begin and end at tensors that the model computes, not "
                    f"{name!r}; name one of its tensors"
                )
        return needed_nodes(
            self.producers,
            lambda number: names_read(self.nodes[number]),
            starts,
            ends,
            self.initialized,
        )

    def part(
        self, numbers: Collection[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> onnx.ModelProto:
        """The model of some nodes. Raises ModelError for an input whose shape is not known."""
        nodes = [_without_results(self.nodes[number], inputs) for number in sorted(numbers)]
        read = {name for node in nodes for name in names_read(node)} | set(outputs)
        graph = onnx.helper.make_graph(
            nodes,
            "part",
            [self._input(name) for name in inputs],
            [self._output(name) for name in outputs],
            [tensor for tensor in self.model.graph.initializer if tensor.name in read],
        )
        domains = {"", *(node.domain for node in nodes)}
        return onnx.helper.make_model(
            graph,
            opset_imports=[item for item in self.model.opset_import if item.domain in domains],
            ir_version=self.model.ir_version,
            producer_name="daedal",
        )

    def _input(self, name: str) -> onnx.ValueInfoProto:
        """Name, element type and static shape of an input."""
        value = self.types.get(name)
        if value is None or not is_static(value.type.tensor_type):
            raise ModelError(
                f"a model must have static shapes where it is cut, and {name!r} has none; give "
                "those of inputs with --shape, or fix them at export"
            )
        tensor = value.type.tensor_type
        shape = [int(dim.dim_value) for dim in tensor.shape.dim]
        return onnx.helper.make_tensor_value_info(name, tensor.elem_type, shape)

    def _output(self, name: str) -> onnx.ValueInfoProto:
        """Name of an output, with as much of its type as is known."""
        value = self.types.get(name)
        if value is None:
            return onnx.helper.make_empty_tensor_value_info(name)
        if value.type.HasField("tensor_type") and is_static(value.type.tensor_type):
            return self._input(name)
        loose = onnx.ValueInfoProto()
        loose.CopyFrom(value)
        return loose


def _without_results(node: onnx.NodeProto, given: Collection[str]) -> onnx.NodeProto:
    """A node of which the part has some results as inputs, with other names for these."""
    if not set(node.output) & set(given):
        return node
    kept = onnx.NodeProto()
    kept.CopyFrom(node)
    kept.output[:] = [f"{name}/not_read" if name in given else name for name in node.output]
    return kept


def is_static(tensor: onnx.TypeProto.Tensor) -> bool:
    """Whether every dimension of a tensor is a number."""
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
