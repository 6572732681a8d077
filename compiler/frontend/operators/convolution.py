"""Conv, ConvTranspose, Gemm and MatMul."""

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.windows import resolve_pads, window_attribute

__all__ = ["import_conv", "import_conv_transpose", "import_gemm", "import_matmul"]


def import_conv(context: ImportContext, node: OnnxNode) -> None:
    """Conv-1, -11, -22: two-dimensional, any groups."""
    x, w = context.operand_type(node, 0), context.operand_type(node, 1)
    if x.rank != 4 or w.rank != 4:
        raise node.refuse(
            f"convolutions must be two-dimensional, not over {x} with weights {w}",
            "reshape one-dimensional ones to height 1",
        )
    kernel = window_attribute(node, "kernel_shape", w.shape[2:])
    if kernel != w.shape[2:]:
        raise node.damaged(
            f"kernel_shape must match the weights, not {list(kernel)} for {list(w.shape)}"
        )
    strides = window_attribute(node, "strides", (1, 1))
    dilations = window_attribute(node, "dilations", (1, 1))
    pads = resolve_pads(node, x.shape[2:], kernel, strides, dilations)
    operands = [context.operand(node, 0), context.operand(node, 1)]
    if node.input(2) is not None:
        operands.append(context.operand(node, 2))
    context.emit(
        node,
        "conv2d",
        operands,
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=node.integer("group", 1),
    )


def import_conv_transpose(context: ImportContext, node: OnnxNode) -> None:
    """ConvTranspose-1, -11, -22: two-dimensional, one group, with the pads given."""
    x, w = context.operand_type(node, 0), context.operand_type(node, 1)
    if x.rank != 4 or w.rank != 4:
        raise node.refuse(
            f"transposed convolutions must be two-dimensional, not over {x} with weights {w}",
            "reshape one-dimensional ones to height 1",
        )
    node.expect(group=1)
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise node.refuse("auto_pad must be NOTSET or VALID", "give the pads")
    if node.integers("output_shape", None) is not None:
        raise node.refuse("output_shape must not be given", "give pads and output_padding")
    kernel = window_attribute(node, "kernel_shape", w.shape[2:])
    if kernel != w.shape[2:]:
        raise node.damaged(
            f"kernel_shape must match the weights, not {list(kernel)} for {list(w.shape)}"
        )
    operands = [context.operand(node, 0), context.operand(node, 1)]
    if node.input(2) is not None:
        operands.append(context.operand(node, 2))
    context.emit(
        node,
        "conv_transpose2d",
        operands,
        strides=window_attribute(node, "strides", (1, 1)),
        pads=window_attribute(node, "pads", (0, 0, 0, 0)),
        dilations=window_attribute(node, "dilations", (1, 1)),
        output_padding=window_attribute(node, "output_padding", (0, 0)),
    )


def import_gemm(context: ImportContext, node: OnnxNode) -> None:
    """Gemm-7 to -13 with alpha = beta = 1 and A as it is."""
    node.expect(alpha=1.0, beta=1.0, transA=0)
    transposed = int(node.integer("transB", 0) != 0)
    operands = [context.operand(node, 0), context.operand(node, 1)]
    if node.input(2) is not None:
        bias = context.operand(node, 2)
        shape = context.builder.types[bias].shape
        if len(shape) == 2 and shape[0] == 1:
            flat = context.builder.fresh_name(f"{bias}.flat")
            bias = context.builder.add("reshape", [bias], {"shape": shape[1:]}, output=flat)
        operands.append(bias)
    context.emit(node, "dense", operands, transposed=transposed)


def import_matmul(context: ImportContext, node: OnnxNode) -> None:
    """MatMul-1 to -13: with constant weights a dense layer, else a product of two tensors."""
    operands = [context.operand(node, 0), context.operand(node, 1)]
    if context.builder.is_computed(operands[1]):
        context.emit(node, "matmul", operands)
        return
    context.emit(node, "dense", operands, transposed=0)
