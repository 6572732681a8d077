"""BatchNormalization."""

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.maps import SEQUENCE_RANK, as_map, emit_on_map

__all__ = ["import_batch_norm"]


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
