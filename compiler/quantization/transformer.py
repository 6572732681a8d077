"""Decides whether a network is quantized as a transformer."""

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import NORMS, norm_operand, product_operands

__all__ = ["is_transformer"]


def is_transformer(network: Network) -> bool:
    """Whether a network has norms over the last axis, or products of what a softmax gives: any
    other is quantized to 8 bits throughout."""
    types, users = network.types(), network.users()
    for node in network.nodes:
        if norm_operand(network, types, node) is None:
            continue
        readers = [*users.get(node.output[0], ())]
        for turned in [reader for reader in readers if reader.op_type == "Transpose"]:
            readers += users.get(turned.output[0], ())
        if node.op_type in NORMS or any(
            len(product_operands(network, types, reader)) > 1 for reader in readers
        ):
            return True
    return False
