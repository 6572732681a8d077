"""A part of a model in the form in which the host runs it (`runtime.host`): serialized ONNX, of an
operator set that ONNX's reference evaluator implements.
"""

import onnx
import onnx.version_converter

from daedal.isa.errors import ModelError, first_line

__all__ = ["HOST_OPSET", "host_model"]

HOST_OPSET = 21
"""Parts of older opsets are converted to this one: ONNX's reference evaluator implements only the
recent forms of some operators (QuantizeLinear and DequantizeLinear from opset 19 on)."""


def host_model(part: onnx.ModelProto) -> bytes:
    """The bytes of `part` in opset `HOST_OPSET` or newer; equal parts give equal bytes.

    Raises
    ------
    ModelError
        For a part that cannot be converted.
    """
    return bytes(_modern(part).SerializeToString(deterministic=True))


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    if all(item.version >= HOST_OPSET for item in model.opset_import if item.domain == ""):
        return model
    try:
        return onnx.version_converter.convert_version(model, HOST_OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"the host's part of a model must convert to opset {HOST_OPSET}, and this one does "
            f"not: {first_line(error)}; export the model in a newer opset"
        ) from error
