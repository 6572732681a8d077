"""Reads models: ONNX (opset 7 and up) in, a graph of float and quantize/dequantize nodes out."""

from daedal.compiler.frontend.importer import load_onnx

__all__ = ["load_onnx"]
