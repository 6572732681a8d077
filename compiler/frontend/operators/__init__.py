"""Importer functions by ONNX operator, one module per family."""

from collections.abc import Callable

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators import (
    convolution,
    elementwise,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)

__all__ = ["Importer", "find_importer", "supported_operators"]

Importer = Callable[[ImportContext, OnnxNode], None]

_IMPORTERS: dict[str, Importer] = {
    "Add": elementwise.import_add,
    "AveragePool": pooling.import_average_pool,
    "BatchNormalization": normalization.import_batch_norm,
    "Clip": elementwise.import_clip,
    "Concat": movement.import_concat,
    "Constant": shape.import_constant,
    "Conv": convolution.import_conv,
    "ConvTranspose": convolution.import_conv_transpose,
    "DequantizeLinear": quantization.import_dequantize,
    "Div": elementwise.import_div,
    "Dropout": shape.import_dropout,
    "Flatten": shape.import_flatten,
    "Gelu": elementwise.import_activation,
    "Gemm": convolution.import_gemm,
    "GlobalAveragePool": pooling.import_global_average_pool,
    "GlobalMaxPool": pooling.import_global_max_pool,
    "HardSigmoid": elementwise.import_hard_sigmoid,
    "HardSwish": elementwise.import_activation,
    "Identity": shape.import_identity,
    "LeakyRelu": elementwise.import_leaky_relu,
    "LogSoftmax": elementwise.import_log_softmax,
    "MatMul": convolution.import_matmul,
    "Max": elementwise.import_bound,
    "MaxPool": pooling.import_max_pool,
    "Min": elementwise.import_bound,
    "Mul": elementwise.import_mul,
    "Pad": movement.import_pad,
    "QuantizeLinear": quantization.import_quantize,
    "ReduceMax": reduction.import_reduce_max,
    "ReduceMean": reduction.import_reduce_mean,
    "Relu": elementwise.import_relu,
    "Reshape": shape.import_reshape,
    "Resize": resize.import_resize,
    "Sigmoid": elementwise.import_activation,
    "Slice": movement.import_slice,
    "Softmax": elementwise.import_softmax,
    "Split": movement.import_split,
    "Squeeze": shape.import_squeeze,
    "Sub": elementwise.import_sub,
    "Sum": elementwise.import_sum,
    "Tanh": elementwise.import_activation,
    "Transpose": shape.import_transpose,
    "Unsqueeze": shape.import_unsqueeze,
    "Upsample": resize.import_upsample,
}


def find_importer(op_type: str) -> Importer | None:
    """The importer of an operator of the standard domain, or None."""
    return _IMPORTERS.get(op_type)


def supported_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that can be imported."""
    return tuple(_IMPORTERS)
