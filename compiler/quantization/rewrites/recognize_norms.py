"""Replaces norms written out in small operators by one operator each."""

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.norm_patterns import Norm, NormPatterns
from daedal.compiler.quantization.network import Network

__all__ = ["RMS_OPSET", "recognize_norms", "written_norms"]

RMS_OPSET = 23
"""The first with RMSNormalization. Source: ONNX, docs/Changelog.md."""


def written_norms(network: Network) -> list[Norm]:
    """The norms that are written out, also those that are a part of another."""
    patterns = _patterns(network)
    found = (patterns.match(node) for node in network.nodes)
    return [norm for norm in found if norm is not None]


def recognize_norms(network: Network) -> None:
    """Replace norms over the last axis.

    The network must have an opset with LayerNormalization, and `RMS_OPSET` for RMS norms.

    Before::

        y = Mul(Div(x, Sqrt(Add(ReduceMean(Mul(x, x)), epsilon))), scale)

    After::

        y = RMSNormalization(x, scale)
    """
    patterns = _patterns(network)
    network.nodes = [_replaced(network, node, patterns.match(node)) for node in network.nodes]
    network.drop_unread()


def _patterns(network: Network) -> NormPatterns:
    types = network.types()

    def shape(name: str) -> tuple[int, ...] | None:
        kind, extents = types.get(name, (0, ()))
        return extents if kind == onnx.TensorProto.FLOAT else None

    return NormPatterns(network.nodes, network.constants.get, shape)


def _replaced(network: Network, node: onnx.NodeProto, norm: Norm | None) -> onnx.NodeProto:
    if norm is None:
        return node
    output = node.output[0]
    operands = [norm.x, network.add_constant(f"{output}_gain", norm.scale)]
    if norm.bias is not None:
        operands.append(network.add_constant(f"{output}_offset", np.asarray(norm.bias)))
    return helper.make_node(
        "LayerNormalization" if norm.centered else "RMSNormalization",
        operands,
        [output],
        name=node.name,
        axis=-1,
        epsilon=norm.epsilon,
    )
