"""The only module that opens onnxruntime sessions. Its settings make the results depend on the
processor as little as possible.

- Only operators on reals. On processors without VNNI, the kernels that multiply 8-bit integers add
  two products in 16 bits and saturate: 255 * 127 + 255 * 127 becomes 32767.
- No graph optimization. It would replace QuantizeLinear, DequantizeLinear and the operators between
  them by those kernels. It would also fuse other operators, which changes where sums are rounded.
- One thread. With several, the number of cores would determine how a sum is split.

One dependence remains: the summation order of floats follows the width of the processor's vectors,
so the last bits may differ.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.common.errors import ModelError

__all__ = ["INTEGER_PRODUCTS", "integer_products", "open_for_speed", "open_session"]

Array = npt.NDArray[Any]
Session = Callable[[Mapping[str, Array]], list[Array]]
"""Gives the outputs for inputs by name."""

INTEGER_PRODUCTS = frozenset(
    {
        "ConvInteger",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "MatMulNBits",
        "QAttention",
        "QGemm",
        "QLinearConv",
        "QLinearMatMul",
        "QMoE",
    }
)
"""Operators of which onnxruntime computes sums of integer products.

Source: ONNX, docs/Operators.md; onnxruntime, docs/ContribOperators.md.
"""


def open_session(
    model: onnx.ModelProto, outputs: Sequence[str] | None = None, *, fast: bool = False
) -> Session:
    """A function that runs `model` and returns `outputs`, by default all outputs in order.

    With `fast`, a model without quantized tensors has onnxruntime's own settings, to compare speed.

    Raises
    ------
    ImportError
        If onnxruntime is not installed.
    ModelError
        For a model with one of `INTEGER_PRODUCTS`.

    onnxruntime raises many kinds of errors for a model that it does not support.
    """
    import onnxruntime

    for node in integer_products(model):
        raise ModelError(
            f"a model must compute with reals to be run in onnxruntime, not with {node.op_type} "
            f"(node {node.name!r}), whose sums depend on the processor; read it with "
            "compiler.frontend.reader.read_model, or run it in onnx.reference"
        )
    options = onnxruntime.SessionOptions()
    if not fast or any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = None if outputs is None else list(outputs)

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        return [np.asarray(value) for value in session.run(names, dict(feeds))]

    return run


def open_for_speed(model: bytes, threads: int) -> Session:
    """A function that runs a serialized model with all of onnxruntime's optimizations.

    Only for its time: what it gives for a quantized model depends on the processor.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def integer_products(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Nodes of `INTEGER_PRODUCTS`, including those in functions and subgraphs."""
    stack = [model.graph.node, *(function.node for function in model.functions)]
    while stack:
        for node in stack.pop():
            if node.op_type in INTEGER_PRODUCTS:
                yield node
            for attribute in node.attribute:
                stack += (inner.node for inner in (attribute.g, *attribute.graphs))
