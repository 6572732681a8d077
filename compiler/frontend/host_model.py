"""The host's part of a model: what precedes or follows the accelerated operators.

Input: the checked ModelProto and tensor names. Output: a serialized ONNX model, so that the meaning
of the host's part is ONNX's own (`runtime.host` runs it).
"""

from collections.abc import Sequence

import onnx
import onnx.version_converter

from daedal.compiler.frontend.cut import cut_model
from daedal.isa.errors import ModelError

__all__ = ["HOST_OPSET", "extract_host_model"]

HOST_OPSET = 21
"""Parts of older opsets are converted to this one: ONNX's reference evaluator implements only the
recent forms of some operators (QuantizeLinear and DequantizeLinear from opset 19 on)."""


def extract_host_model(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> bytes:
    """The part of `model` that computes `outputs` from `inputs`, both in the given order.

    Equal arguments give equal bytes. Where there is nothing between, that is where `inputs` are the
    `outputs`, the result is empty.

    Raises
    ------
    ModelError
        As `cut_model`, and for a part that cannot be converted to opset `HOST_OPSET`.
    """
    if list(inputs) == list(outputs):
        return b""
    part = _modern(cut_model(model, inputs, outputs))
    return bytes(part.SerializeToString(deterministic=True))


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model in opset `HOST_OPSET` or newer."""
    if all(item.version >= HOST_OPSET for item in model.opset_import if item.domain == ""):
        return model
    try:
        return onnx.version_converter.convert_version(model, HOST_OPSET)
    except (RuntimeError, ValueError) as error:
        reason = (str(error).strip() or "unknown reason").splitlines()[0]
        raise ModelError(
            f"the host's part of a model must convert to opset {HOST_OPSET}, and this one does "
            f"not: {reason}; export the model in a newer opset"
        ) from error
