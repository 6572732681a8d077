"""Elementwise operators of floats, on maps that have their channels last.

All but the batch norm have the formulas of ONNX's operators (`compiler.ops.onnx`), for which it
does not matter where elements lie, as long as those of all operands lie alike.
"""

from collections.abc import Mapping

import onnx

from daedal.common.errors import UserError
from daedal.compiler import te
from daedal.compiler.graph.ops.batch_norm import gain_and_offset
from daedal.compiler.graph.ops.registry import number
from daedal.compiler.ops.graph.maps import LANES, MAP_RANK, Map
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation, Tensors
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType
from daedal.compiler.ops.onnx.table import ELEMENTWISE

__all__ = ["LOWERINGS", "computed_on_maps"]

_UNBOUNDED = frozenset(
    {
        *("Acos", "Acosh", "Asin", "Atanh", "Cosh", "Div", "Exp", "Log", "Mod", "Pow"),
        *("Reciprocal", "Sinh", "Sqrt", "Tan"),
    }
)
"""Operators that have no finite result for some finite numbers. A convolution multiplies what lies
behind the last channel by 0, and so must find numbers there."""


def computed_on_maps(
    tensors: Tensors,
    node: onnx.NodeProto,
    opset: int,
    operands: Mapping[str, Operand],
    result: ResultType,
    prefix: str,
) -> Map | None:
    """The result of a node of ONNX, whose `operands` are given by name, as a map.

    None where it is computed in the order of its axes: for other operators, where no operand is a
    map already, and where one would be read element by element.
    """
    if node.op_type not in ELEMENTWISE or result.dtype != "float32":
        return None
    if len(result.shape) != MAP_RANK:
        return None
    if result.shape[1] % LANES and node.op_type in _UNBOUNDED:
        return None
    shapes = [operands[name].shape for name in node.input if name and tensors.has_map(name)]
    if result.shape not in shapes:
        return None
    read = [
        _on_map(tensors, name, operands[name], result.shape) if name else None
        for name in node.input
    ]
    if any(name and operand is None for name, operand in zip(node.input, read, strict=True)):
        return None
    kind = ResultType(tensors.layout.shape(result.shape), result.dtype)
    try:
        (tensor,) = lower_node(node, opset, read, [kind], prefix)
    except UserError:
        return None
    return Map(tensor, result.shape)


def _on_map(
    tensors: Tensors, name: str, operand: Operand, shape: tuple[int, ...]
) -> Operand | None:
    """How an operand is read at the places of a map (n, h, w, block, lane) of `shape`; None where
    reading it so costs more than a vector's operation."""
    if tensors.has_map(name):
        own = operand.shape
        fits = all(extent in (1, wanted) for extent, wanted in zip(own, shape, strict=True))
        tensor = tensors.map(name).tensor
        return Operand(tensor, tensor.shape) if fits and own[1] == shape[1] else None
    if operand.constant is None:
        return None
    if operand.constant.size == 1:
        return operand
    channels = shape[1]
    if operand.constant.size != channels or operand.rank < 3 or operand.shape[-3] != channels:
        return None
    table = tensors.table(tensors.layout.values(operand.constant.reshape(-1)))
    return Operand(table, table.shape)


def _lower_batch_norm(operation: GraphOperation) -> te.Tensor:
    """A gain and an offset per channel."""
    x = operation.map(0).tensor
    parameters = [operation.constant(index) for index in range(1, 5)]
    values = gain_and_offset(parameters, number(operation.node.attrs, "epsilon"))
    gain, offset = (operation.per_channel(value, "float32") for value in values)
    return operation.compute(x.shape, lambda *i: x[i] * gain[i[-2], i[-1]] + offset[i[-2], i[-1]])


def _suits_batch_norm(operation: GraphOperation) -> bool:
    names = operation.node.inputs[1:]
    return operation.has_map(0) and all(operation.graph.is_constant(name) for name in names)


LOWERINGS = {"batch_norm": GraphLowering(_lower_batch_norm, suits=_suits_batch_norm)}
"""By operator."""
