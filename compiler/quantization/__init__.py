"""Calibrated quantization: a float ONNX model in, an int8 QDQ model out."""

from daedal.compiler.quantization.quantizer import quantize_model
from daedal.compiler.quantization.ranges import Method

__all__ = ["Method", "quantize_model"]
