"""BatchNormalization, LayerNormalization and RMSNormalization."""

from collections.abc import Mapping

import onnx

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.norm_patterns import Norm
from daedal.compiler.frontend.operators.maps import SEQUENCE_RANK, as_map, emit_on_map
from daedal.compiler.frontend.operators.record import ACCELERATOR, BY_ROWS, HOST, ImportedOperator

__all__ = ["OPERATORS", "import_written_norm"]


def import_batch_norm(context: ImportContext, node: OnnxNode) -> None:
    """BatchNormalization-7 to -15 in their form for inference."""
    node.expect(training_mode=0, spatial=1)
    node.real("momentum", 0.9)  # of the training
    epsilon = node.real("epsilon", 1e-5)
    x, *parameters = (context.operand(node, index) for index in range(5))
    if context.operand_type(node, 0).rank != SEQUENCE_RANK:
        context.emit(node, "batch_norm", [x, *parameters], epsilon=epsilon)
        return
    emit_on_map(context, node, "batch_norm", [as_map(context, x), *parameters], epsilon=epsilon)


def import_layer_norm(context: ImportContext, node: OnnxNode) -> None:
    """LayerNormalization-17 over the last axis, without mean and deviation as results."""
    _import_norm(context, node, "layer_norm", num_parameters=2)


def import_rms_norm(context: ImportContext, node: OnnxNode) -> None:
    """RMSNormalization-23 over the last axis."""
    _import_norm(context, node, "rms_norm", num_parameters=1)


def _import_norm(context: ImportContext, node: OnnxNode, op: str, *, num_parameters: int) -> None:
    rank = context.operand_type(node, 0).rank
    axis = node.integer("axis", -1)
    if axis not in (-1, rank - 1):
        raise node.refuse("a norm must be over the last axis alone", "transpose its operand")
    node.expect(stash_type=onnx.TensorProto.FLOAT)
    indices = range(1, 1 + num_parameters)
    parameters = [context.operand(node, index) for index in indices if node.input(index)]
    if any(context.builder.types[name].rank != 1 for name in parameters):
        raise node.refuse("parameters of a norm must be vectors", "reshape them")
    epsilon = node.real("epsilon", 1e-5)
    context.emit(node, op, [context.operand(node, 0), *parameters], epsilon=epsilon)


def import_written_norm(context: ImportContext, norm: Norm, last: OnnxNode) -> None:
    """A norm written out, whose last operator is `last`."""
    output = last.outputs[0]
    names = [context.resolve(norm.x), context.add_constant(f"{output}.scale", norm.scale)]
    if norm.bias is not None:
        names.append(context.add_constant(f"{output}.bias", norm.bias))
    op = "layer_norm" if norm.centered else "rms_norm"
    attrs = {"epsilon": norm.epsilon}
    context.builder.add(op, names, attrs, output=output, name=last.name)


OPERATORS: Mapping[str, ImportedOperator] = {
    "BatchNormalization": ImportedOperator(
        import_batch_norm, ACCELERATOR, "part of the layer before it, or alone"
    ),
    "LayerNormalization": ImportedOperator(import_layer_norm, HOST, BY_ROWS),
    "RMSNormalization": ImportedOperator(import_rms_norm, HOST, BY_ROWS),
}
