"""The table of ONNX operators with an importer: where each runs, and under which limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from daedal.artifact.parts import PLACES
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

__all__ = ["BY_TABLE", "OPERATORS", "ImportedOperator", "Importer"]

Importer = Callable[[ImportContext, OnnxNode], None]


@dataclass(frozen=True)
class ImportedOperator:
    """An operator of ONNX's standard domain.

    Parameters
    ----------
    importer : adds its nodes to the graph, or refuses them. None: a node stays as it is.
    where : where a node runs between quantized tensors, one of `artifact.parts.PLACES`.
    limits : conditions that a node must meet for that; others run on the host.
    """

    importer: Importer | None
    where: str
    limits: str = ""

    def __post_init__(self) -> None:
        assert self.where in PLACES, self.where


_ACCELERATOR, _HOST, _FOLDED, *_ = PLACES
_PAIR = "both operands quantized, or one of them a constant number; one has the shape of the result"
_PLANE = "one or two spatial dimensions"
_WINDOW = f"{_PLANE}, without dilation"
_REDUCED = (
    "over height, width or both, or over the length of a sequence, also where channels come last; "
    "of maps then over height and width together"
)
BY_TABLE = "on the accelerator if the variant has tables: as a function of one tensor"
_FLOAT = "in floating point"
_BY_ROWS = (
    "on the accelerator over the last axis, if the variant has tables, units.lane_reductions and "
    "units.wide_requantize"
)
_VIEW = "if the order of the elements stays the same in memory"
_BOUND = "of a tensor and one constant number"
_VECTORS = "of whole blocks of channels, between operators of the accelerator"
_BODY = "up to four dimensions, not along the first"
_PART = f"{_BODY}, or of a view of such a map"

OPERATORS: Mapping[str, ImportedOperator] = {
    "Add": ImportedOperator(elementwise.import_add, _ACCELERATOR, _PAIR),
    "AveragePool": ImportedOperator(pooling.import_average_pool, _ACCELERATOR, _WINDOW),
    "BatchNormalization": ImportedOperator(
        normalization.import_batch_norm, _ACCELERATOR, "part of the layer before it, or alone"
    ),
    "Clip": ImportedOperator(elementwise.import_clip, _ACCELERATOR, "constant bounds"),
    "Concat": ImportedOperator(movement.import_concat, _ACCELERATOR, _BODY),
    "Constant": ImportedOperator(shape.import_constant, _FOLDED),
    "Conv": ImportedOperator(
        convolution.import_conv, _ACCELERATOR, f"{_PLANE}; constant quantized weights"
    ),
    "ConvTranspose": ImportedOperator(
        convolution.import_conv_transpose,
        _ACCELERATOR,
        f"{_PLANE}, one group, explicit pads; constant weights that fit into int8",
    ),
    "DepthToSpace": ImportedOperator(shape.import_depth_to_space, _ACCELERATOR, _VECTORS),
    "DequantizeLinear": ImportedOperator(
        quantization.import_dequantize, _FOLDED, "constant scales, per tensor or per channel"
    ),
    "Div": ImportedOperator(elementwise.import_div, _ACCELERATOR, "by one positive number"),
    "Dropout": ImportedOperator(shape.import_dropout, _FOLDED, "output mask unused"),
    "Flatten": ImportedOperator(shape.import_flatten, _FOLDED, _VIEW),
    "Gather": ImportedOperator(
        movement.import_gather, _ACCELERATOR, f"constant indices that count up; {_PART}"
    ),
    "Gemm": ImportedOperator(
        convolution.import_gemm,
        _ACCELERATOR,
        "A not transposed; alpha and beta 1; constant quantized weights",
    ),
    "GlobalAveragePool": ImportedOperator(pooling.import_global_average_pool, _ACCELERATOR, _PLANE),
    "GlobalMaxPool": ImportedOperator(pooling.import_global_max_pool, _ACCELERATOR, _PLANE),
    "HardSigmoid": ImportedOperator(
        elementwise.import_hard_sigmoid, _ACCELERATOR, "a positive alpha"
    ),
    "HardSwish": ImportedOperator(
        None,
        _ACCELERATOR,
        "if 8 bits are enough for the factor HardSigmoid(x)",
    ),
    "Identity": ImportedOperator(shape.import_identity, _FOLDED),
    "LayerNormalization": ImportedOperator(normalization.import_layer_norm, _HOST, _BY_ROWS),
    "LeakyRelu": ImportedOperator(elementwise.import_leaky_relu, _ACCELERATOR),
    "LogSoftmax": ImportedOperator(elementwise.import_log_softmax, _HOST, _FLOAT),
    "MatMul": ImportedOperator(
        convolution.import_matmul,
        _ACCELERATOR,
        "by constant quantized weights, or of two quantized tensors",
    ),
    "Max": ImportedOperator(elementwise.import_bound, _ACCELERATOR, _BOUND),
    "MaxPool": ImportedOperator(
        pooling.import_max_pool, _ACCELERATOR, f"{_WINDOW} and without indices"
    ),
    "Min": ImportedOperator(elementwise.import_bound, _ACCELERATOR, _BOUND),
    "Mul": ImportedOperator(elementwise.import_mul, _ACCELERATOR, _PAIR),
    "Pad": ImportedOperator(
        movement.import_pad,
        _ACCELERATOR,
        f"with a constant, no negative pads; {_BODY}",
    ),
    "QuantizeLinear": ImportedOperator(
        quantization.import_quantize, _FOLDED, "constant scales, per tensor or per channel"
    ),
    "RMSNormalization": ImportedOperator(normalization.import_rms_norm, _HOST, _BY_ROWS),
    "ReduceMax": ImportedOperator(reduction.import_reduce_max, _ACCELERATOR, _REDUCED),
    "ReduceMean": ImportedOperator(reduction.import_reduce_mean, _ACCELERATOR, _REDUCED),
    "Relu": ImportedOperator(elementwise.import_relu, _ACCELERATOR),
    "Reshape": ImportedOperator(shape.import_reshape, _FOLDED, _VIEW),
    "Resize": ImportedOperator(
        resize.import_resize, _ACCELERATOR, "nearest, height and width by whole factors"
    ),
    "Slice": ImportedOperator(
        movement.import_slice,
        _ACCELERATOR,
        f"positive steps; {_PART}",
    ),
    "Softmax": ImportedOperator(elementwise.import_softmax, _HOST, _BY_ROWS),
    "SpaceToDepth": ImportedOperator(shape.import_space_to_depth, _ACCELERATOR, _VECTORS),
    "Split": ImportedOperator(movement.import_split, _ACCELERATOR, _PART),
    "Squeeze": ImportedOperator(shape.import_squeeze, _FOLDED, _VIEW),
    "Sub": ImportedOperator(elementwise.import_sub, _ACCELERATOR, _PAIR),
    "Sum": ImportedOperator(elementwise.import_sum, _ACCELERATOR, "of two operands, as Add"),
    "Transpose": ImportedOperator(
        shape.import_transpose,
        _ACCELERATOR,
        "permutes channels, exchanges them with pixels, or moves whole blocks of channels",
    ),
    "Unsqueeze": ImportedOperator(shape.import_unsqueeze, _FOLDED, _VIEW),
    "Upsample": ImportedOperator(
        resize.import_upsample, _HOST, f"{_FLOAT}: its opsets have no quantization"
    ),
}
"""The operators by name. All others of the standard domain run on the host."""
