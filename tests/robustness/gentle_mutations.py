"""Mutations after which an ONNX model is often valid still, and means something else."""

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from tests.robustness.graph_mutations import ModelMutation
from tests.robustness.nasty import pick

__all__ = ["GENTLE_MUTATIONS"]

Rng = np.random.Generator

_UNARY = (
    *("Abs", "Ceil", "Erf", "Exp", "Flatten", "Floor", "GlobalMaxPool", "HardSwish", "Identity"),
    *("LeakyRelu", "LogSoftmax", "Neg", "Relu", "Sigmoid", "Sign", "Softmax", "Sqrt", "Tanh"),
)
_BINARY = ("Add", "Concat", "Div", "MatMul", "Max", "Mul", "Pow", "Sub")


def _insert(model: onnx.ModelProto, position: int, *nodes: onnx.NodeProto) -> None:
    """Put `nodes` behind the node at `position`; those after them read the last one's result
    instead of that node's."""
    before = list(model.graph.node)
    old, new = before[position].output[0], nodes[-1].output[0]
    for node in before[position + 1 :]:
        node.input[:] = [new if name == old else name for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend([*before[: position + 1], *nodes, *before[position + 1 :]])


def _place(rng: Rng, model: onnx.ModelProto) -> int:
    """Position of a node that computes something."""
    places = [number for number, node in enumerate(model.graph.node) if node.output]
    return int(pick(rng, places))


def _fresh(model: onnx.ModelProto) -> str:
    return f"new{len(model.graph.node)}"


def bypass_node(rng: Rng, model: onnx.ModelProto) -> None:
    """Leave out a node: what read its result reads its operand."""
    node = model.graph.node[_place(rng, model)]
    if not node.input or len(model.graph.node) == 1:
        return
    old, new = node.output[0], node.input[0]
    for other in model.graph.node:
        other.input[:] = [new if name == old else name for name in other.input]
    model.graph.node.remove(node)


def insert_unary(rng: Rng, model: onnx.ModelProto) -> None:
    place, result = _place(rng, model), _fresh(model)
    source = model.graph.node[place].output[0]
    _insert(model, place, helper.make_node(pick(rng, _UNARY), [source], [result]))


def insert_binary(rng: Rng, model: onnx.ModelProto) -> None:
    """With itself, or with a tensor computed before."""
    place, result = _place(rng, model), _fresh(model)
    source = model.graph.node[place].output[0]
    known = [name for node in model.graph.node[: place + 1] for name in node.output]
    op_type = pick(rng, _BINARY)
    attrs = {"axis": int(rng.integers(-1, 3))} if op_type == "Concat" else {}
    node = helper.make_node(op_type, [source, pick(rng, (source, *known))], [result], **attrs)
    _insert(model, place, node)


def insert_quantization(rng: Rng, model: onnx.ModelProto) -> None:
    """A QuantizeLinear and a DequantizeLinear of any parameters."""
    place, result = _place(rng, model), _fresh(model)
    scale = np.float32(2.0 ** rng.uniform(-20, 10))
    kind = pick(rng, (np.int8, np.uint8, np.int16))
    parameters = [f"{result}.scale", f"{result}.zero"]
    for name, value in zip(parameters, (scale, kind(rng.integers(0, 128))), strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    source = model.graph.node[place].output[0]
    _insert(
        model,
        place,
        helper.make_node("QuantizeLinear", [source, *parameters], [f"{result}.q"]),
        helper.make_node("DequantizeLinear", [f"{result}.q", *parameters], [result]),
    )


def tweak_attributes(rng: Rng, model: onnx.ModelProto) -> None:
    """Small numbers: strides, pads, axes, groups, orders."""
    for node in model.graph.node:
        for item in node.attribute:
            if rng.random() < 0.3 and item.type == AttributeProto.INTS and item.ints:
                item.ints[int(rng.integers(len(item.ints)))] = int(rng.integers(-1, 5))
            elif rng.random() < 0.3 and item.type == AttributeProto.INT:
                item.i = int(rng.integers(-2, 5))


def rescale(rng: Rng, model: onnx.ModelProto) -> None:
    """Every scale by a power of two, from the smallest to the largest that a float has."""
    reach = int(pick(rng, (1, 8, 40, 140)))
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and rng.random() < 0.5:
            with np.errstate(all="ignore"):
                array = np.ldexp(array, int(rng.integers(-reach, reach + 1)))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_values(rng: Rng, model: onnx.ModelProto) -> None:
    """Extreme integers in a tensor of integers: weights, biases, zero points, shapes."""
    whole = [item for item in model.graph.initializer if numpy_helper.to_array(item).dtype != "f4"]
    for tensor in whole:
        if rng.random() < 0.3:
            array = numpy_helper.to_array(tensor)
            info = np.iinfo(array.dtype)
            ends = np.array([info.min, info.max, 0, 1], array.dtype)
            array = np.where(rng.random(array.shape) < 0.5, rng.choice(ends, array.shape), array)
            tensor.CopyFrom(numpy_helper.from_array(array.astype(ends.dtype), tensor.name))


def resize_input(rng: Rng, model: onnx.ModelProto) -> None:
    """Other extents, as often of the same rank; what was inferred from the old ones goes."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim[1:]:
            if rng.random() < 0.5:
                dim.dim_value = int(pick(rng, (1, 2, 3, 7, 16, 33)))
        if rng.random() < 0.2:
            value.type.tensor_type.shape.dim.add(dim_value=int(rng.integers(1, 4)))


def add_output(rng: Rng, model: onnx.ModelProto) -> None:
    """A tensor from the middle leaves the model, too."""
    known = {value.name: value for value in model.graph.value_info}
    if known:
        model.graph.output.add().CopyFrom(pick(rng, list(known.values())))


GENTLE_MUTATIONS: tuple[ModelMutation, ...] = (
    bypass_node,
    insert_unary,
    insert_binary,
    insert_quantization,
    tweak_attributes,
    rescale,
    change_values,
    resize_input,
    add_output,
)
