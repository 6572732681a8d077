"""Decides whether a network is quantized as a transformer and brings it into their opset."""

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.operators import NORMS, norm_operand, product_operands
from daedal.compiler.quantization.rewrites.clean import clean
from daedal.compiler.quantization.rewrites.recognize_norms import (
    RMS_OPSET,
    recognize_norms,
    written_norms,
)

__all__ = ["as_transformer"]

_WIDE_OPSET = 21
"""The first with quantization to 16 bits. Source: ONNX QuantizeLinear-21."""


def as_transformer(network: Network) -> Network | None:
    """The network with each norm as one operator, in opset 21 or newer.

    None for a network without norms over the last axis and without products of what a softmax
    gives: that is quantized to 8 bits throughout.

    Raises
    ------
    ModelError
        For a transformer in an opset that cannot be converted.
    """
    written = written_norms(network)
    if not written and not _has_norms(network):
        return None
    has_rms = any(not norm.centered for norm in written)
    converted = clean(network.to_model(), RMS_OPSET if has_rms else _WIDE_OPSET)
    recognize_norms(converted)
    return converted


def _has_norms(network: Network) -> bool:
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
