"""BatchNormalization."""

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode

__all__ = ["import_batch_norm"]


def import_batch_norm(context: ImportContext, node: OnnxNode) -> None:
    """BatchNormalization-7 to -15 in their form for inference."""
    node.expect(training_mode=0, spatial=1)
    node.real("momentum", 0.9)  # of the training
    epsilon = node.real("epsilon", 1e-5)
    operands = [context.operand(node, index) for index in range(5)]
    context.emit(node, "batch_norm", operands, epsilon=epsilon)
