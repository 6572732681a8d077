"""`settle`: gives batch normalizations the statistics that training would have left in them.

With mean 0 and variance 1 where the activations have others, a random network drifts: each residual
block doubles the variance. So every mean and variance becomes what a batch of images shows there,
all in one run: the normalizations compute their statistics, and the next layers see their result.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, parser

from bench.zoo.builder import OPSET
from daedal.checking.onnxruntime_session import open_session

__all__ = ["run_float", "settle"]

DOMAIN = "bench"
EPSILON = 1e-5
"""ONNX's default for BatchNormalization."""
OBSERVING = f"""
    <opset_import: ["": {OPSET}], domain: "{DOMAIN}">
    ObservingNormalization <epsilon> (x, gain, bias) => (y, mean, variance) {{
        whole_mean = ReduceMean <axes = [0, 2, 3]> (x)
        centred = Sub (x, whole_mean)
        square = Mul (centred, centred)
        whole_variance = ReduceMean <axes = [0, 2, 3]> (square)
        flat = Constant <value_ints = [-1]> ()
        mean = Reshape (whole_mean, flat)
        variance = Reshape (whole_variance, flat)
        y = BatchNormalization <epsilon: float = @epsilon> (x, gain, bias, mean, variance)
    }}
"""
"""Batch normalization by the statistics of its input, which it also returns."""


def settle(model: onnx.ModelProto, images: npt.NDArray[np.float32]) -> onnx.ModelProto:
    """`model` with the statistics of `images` (N, 3, 224, 224) in its batch normalizations."""
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    if not norms:
        return model
    statistics = {name for node in norms for name in node.input[3:]}
    observed = _copy(model)
    graph = observed.graph
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            node.CopyFrom(_observing(node))
    kept = [tensor for tensor in graph.initializer if tensor.name not in statistics]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    observed.functions.append(parser.parse_function(OBSERVING))
    observed.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    found = run_float(observed, images, sorted(statistics))
    settled = _copy(model)
    for tensor in settled.graph.initializer:
        if tensor.name in found:
            tensor.CopyFrom(numpy_helper.from_array(found[tensor.name], tensor.name))
    return settled


def run_float(
    model: onnx.ModelProto, images: npt.NDArray[np.float32], tensors: Sequence[str]
) -> dict[str, npt.NDArray[np.float32]]:
    """The named tensors of a float model for a batch of any size, by onnxruntime."""
    batched = _copy(model)
    (image,) = batched.graph.input
    image.type.tensor_type.shape.dim[0].dim_value = len(images)
    del batched.graph.output[:]
    batched.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in tensors
    )
    values = open_session(batched, tensors)({image.name: images})
    return dict(zip(tensors, values, strict=True))


def _observing(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node that computes the statistics that `node` reads."""
    x, gain, bias, *statistics = node.input
    epsilon = {item.name: item.f for item in node.attribute}.get("epsilon", EPSILON)
    return helper.make_node(
        "ObservingNormalization",
        [x, gain, bias],
        [node.output[0], *statistics],
        domain=DOMAIN,
        epsilon=epsilon,
    )


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied
