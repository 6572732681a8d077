"""Calibrated quantization: a float ONNX model in, an int8 QDQ model out."""

from daedal.compiler.quantization.calibration.ranges import Method
from daedal.compiler.quantization.quantizer import quantize_model

__all__ = ["Method", "quantize_model"]
