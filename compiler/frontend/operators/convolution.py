"""Conv, ConvTranspose, Gemm and MatMul."""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.maps import as_map, emit_on_map
from daedal.compiler.frontend.operators.record import ACCELERATOR, PLANE, ImportedOperator
from daedal.compiler.frontend.operators.windows import resolve_pads, window_attribute
from daedal.compiler.graph.types import TensorType

__all__ = ["OPERATORS"]


def import_conv(context: ImportContext, node: OnnxNode) -> None:
    """Conv-1, -11, -22: one- or two-dimensional, any groups."""
    operands, axes = _operands(context, node, "convolutions")
    x, w = (context.builder.types[name] for name in operands[:2])
    kernel = _kernel(node, w, axes)
    strides = window_attribute(node, "strides", (1, 1), axes)
    dilations = window_attribute(node, "dilations", (1, 1), axes)
    pads = resolve_pads(node, x.shape[2:], kernel, strides, dilations, axes)
    emit_on_map(
        context,
        node,
        "conv2d",
        operands,
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=node.integer("group", 1),
    )


def import_conv_transpose(context: ImportContext, node: OnnxNode) -> None:
    """ConvTranspose-1, -11, -22: one- or two-dimensional, one group, with the pads given."""
    operands, axes = _operands(context, node, "transposed convolutions")
    w = context.builder.types[operands[1]]
    node.expect(group=1)
    mode = node.text("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID"):
        raise node.refuse("auto_pad must be NOTSET or VALID", "give the pads")
    if node.integers("output_shape", None) is not None:
        raise node.refuse("output_shape must not be given", "give pads and output_padding")
    _kernel(node, w, axes)
    pads = window_attribute(node, "pads", (0, 0, 0, 0), axes)
    emit_on_map(
        context,
        node,
        "conv_transpose2d",
        operands,
        strides=window_attribute(node, "strides", (1, 1), axes),
        pads=pads if mode == "NOTSET" else (0, 0, 0, 0),
        dilations=window_attribute(node, "dilations", (1, 1), axes),
        output_padding=window_attribute(node, "output_padding", (0, 0), axes),
    )


def _operands(context: ImportContext, node: OnnxNode, what: str) -> tuple[list[str], int]:
    """Map, weights (four dimensions each) and bias, and how many axes the model's window has."""
    x, w = context.operand_type(node, 0), context.operand_type(node, 1)
    if x.rank not in (3, 4) or w.rank != x.rank:
        raise node.refuse(
            f"{what} must have one or two dimensions, not be over {x} with weights {w}",
            "reshape the map",
        )
    operands = [as_map(context, context.operand(node, index)) for index in (0, 1)]
    if node.input(2) is not None:
        operands.append(context.operand(node, 2))
    return operands, x.rank - 2


def _kernel(node: OnnxNode, w: TensorType, num_axes: int) -> tuple[int, ...]:
    """Height and width of the window over `num_axes` axes; those of the weights (_, _, KH, KW)."""
    kernel = window_attribute(node, "kernel_shape", w.shape[2:], num_axes)
    if kernel != w.shape[2:]:
        raise node.damaged(
            f"kernel_shape must match the weights, not {list(kernel)} for {list(w.shape)}"
        )
    return kernel


def import_gemm(context: ImportContext, node: OnnxNode) -> None:
    """Gemm-7 to -13 with A as it is, and a bias for each column; alpha and beta are 1, or go into
    constant weights and a constant bias."""
    node.expect(transA=0)
    transposed = int(node.integer("transB", 0) != 0)
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    operands = [context.operand(node, 0), _scaled(context, node, 1, alpha)]
    if node.input(2) is not None:
        operands.append(_gemm_bias(context, node, transposed, _scaled(context, node, 2, beta)))
    context.emit(node, "dense", operands, transposed=transposed)


def _scaled(context: ImportContext, node: OnnxNode, index: int, factor: float) -> str:
    """An operand of a Gemm times alpha or beta."""
    name, value = context.operand(node, index), context.constant_value(node.input(index))
    if factor == 1.0:
        return name
    if value is None:
        raise node.refuse(
            f"alpha and beta must be 1, or multiply constants, not {factor:g} what is computed",
            "use Mul",
        )
    return context.add_constant(f"{name}.scaled", value * np.float32(factor))


def _gemm_bias(context: ImportContext, node: OnnxNode, transposed: int, bias: str) -> str:
    """The `bias` of a Gemm as (N,). One number is repeated if it is constant."""
    a, b = context.operand_type(node, 0), context.operand_type(node, 1)
    shape = context.builder.types[bias].shape
    if a.rank != 2 or b.rank != 2:
        raise node.damaged(f"operands of a Gemm must be matrices, not {a} and {b}")
    columns = b.shape[0 if transposed else 1]
    value = context.builder.value(bias)
    if value is not None and value.size == 1 and len(shape) <= 2:
        return context.add_constant(f"{bias}.repeated", np.full(columns, value.reshape(())))
    if shape == (1, columns):
        flat = context.builder.fresh_name(f"{bias}.flat")
        return context.builder.add("reshape", [bias], {"shape": shape[1:]}, output=flat)
    if shape == (columns,):
        return bias
    rule = f"the bias must have one value per output channel ({columns}), not shape {list(shape)}"
    if shape in ((), (1,), (1, 1), (a.shape[0], 1), (a.shape[0], columns)):
        raise node.refuse(rule, "use Add")
    raise node.damaged(rule)


def import_matmul(context: ImportContext, node: OnnxNode) -> None:
    """MatMul-1 to -13: with constant weights a dense layer, else a product of two tensors."""
    operands = [context.operand(node, 0), context.operand(node, 1)]
    a, b = context.operand_type(node, 0), context.operand_type(node, 1)
    computed = context.builder.is_computed(operands[1])
    if a.rank == 1 or b.rank == 1 or (not computed and b.rank > 2):
        raise node.refuse(
            f"a product must be of matrices, or of matrices with one matrix of weights, not of {a} "
            f"with {b}",
            "reshape them",
        )
    if computed:
        context.emit(node, "matmul", operands)
        return
    context.emit(node, "dense", operands, transposed=0)


OPERATORS: Mapping[str, ImportedOperator] = {
    "Conv": ImportedOperator(import_conv, ACCELERATOR, f"{PLANE}; constant quantized weights"),
    "ConvTranspose": ImportedOperator(
        import_conv_transpose,
        ACCELERATOR,
        f"{PLANE}, one group, explicit pads; constant weights that fit into int8",
    ),
    "Gemm": ImportedOperator(
        import_gemm,
        ACCELERATOR,
        "A not transposed; alpha and beta 1; constant quantized weights",
    ),
    "MatMul": ImportedOperator(
        import_matmul,
        ACCELERATOR,
        "by constant quantized weights, or of two quantized tensors",
    ),
}
