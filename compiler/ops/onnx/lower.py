"""`lower_node`: one ONNX node to tensors, with everything that a lowering promises checked."""

from collections.abc import Sequence

import onnx

from daedal.compiler import te
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.ops.attended import Attended
from daedal.compiler.ops.onnx.operation import Array, Operand, Operation, ResultType, buffer_shape
from daedal.compiler.ops.onnx.table import LOWERINGS
from daedal.compiler.tir.errors import ExpressionError

__all__ = ["lower_node"]


def lower_node(
    proto: onnx.NodeProto,
    opset: int,
    operands: Sequence[Operand | None],
    results: Sequence[ResultType | None],
    prefix: str,
    tables: dict[te.Tensor, Array] | None = None,
    attentions: list[Attended] | None = None,
) -> list[te.Tensor]:
    """The tensors of a node's results.

    Parameters
    ----------
    operands : None where an optional one is absent.
    results : the types that shape inference found; None where a result is not asked for.
    prefix : begins the names of all new tensors.
    tables : takes the inputs that the node adds, with their constant values; None: a node that
        needs such is refused.
    attentions : takes those that the node is.

    Raises
    ------
    UnsupportedError
        The node has no tensor expression, and why.
    """
    node = OnnxNode(proto, opset)
    lowering = LOWERINGS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
    if lowering is None:
        raise node.refuse("the operator has no tensor expression", "it is interpreted")
    try:
        given = tuple(operands), tuple(results), prefix, tables, attentions
        tensors = list(lowering(Operation(node, *given)))
    except ExpressionError as error:
        raise node.refuse(
            f"there must be a tensor expression: {error}", "it is interpreted"
        ) from error
    except (IndexError, ValueError) as error:
        # A lowering reads the shapes that ONNX asks for, which a damaged model has not.
        raise node.damaged(
            "operands must have the ranks and shapes that the operator asks for"
        ) from error
    node.finish()
    for number, wanted in enumerate(results):
        if wanted is None:
            continue
        if number >= len(tensors):
            raise node.refuse(f"result {number} has no tensor expression", "it is interpreted")
        found = tensors[number]
        if (found.shape, found.dtype) != (buffer_shape(wanted.shape), wanted.dtype):
            raise node.refuse(
                f"result {number} must be {wanted.dtype}{list(wanted.shape)}, and its tensor "
                f"expression is {found.dtype}{list(found.shape)}",
                "it is interpreted",
            )
    return tensors
