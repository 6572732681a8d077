"""A part of a model in the form in which the host runs it (`runtime.host`): serialized ONNX, of an
operator set that ONNX's reference evaluator implements.
"""

import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.upgrade import upgrade

__all__ = ["HOST_OPSET", "host_model", "modern_model"]

HOST_OPSET = 21
"""Parts of older opsets are upgraded to this one: ONNX's reference evaluator implements only the
recent forms of some operators (QuantizeLinear and DequantizeLinear from opset 19 on)."""


def host_model(part: onnx.ModelProto) -> bytes:
    """The bytes of `part` in opset `HOST_OPSET` or newer; equal parts give equal bytes.

    Raises
    ------
    ModelError
        For a part with a node that has no equivalent in that opset.
    """
    return bytes(upgrade(part, HOST_OPSET).SerializeToString(deterministic=True))


def modern_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """A whole model in opset `HOST_OPSET` or newer, or as it is where a node has no equivalent."""
    try:
        return upgrade(model, HOST_OPSET)
    except ModelError:
        return model
