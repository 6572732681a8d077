"""Compares what a model computes: layers of a run, operators with onnxruntime."""
