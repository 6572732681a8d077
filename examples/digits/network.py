"""The network: one table of layers, which training and the ONNX export walk.

    input 1x8x8 -> conv0 16x8x8 -> conv1 16x8x8 -> conv2 16x8x8 -> add0 -> maxpool0 16x4x4
                        `--------------- residual ----------------'
    -> conv3 32x4x4 -> avgpool0 32x2x2 -> flatten0 128 -> fc0 10 (-> Softmax)

Widths are multiples of 16, the block of the accelerator, wherever the task leaves the choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from examples.digits import layers

__all__ = ["INPUT", "NETWORK", "Layer", "forward", "initialise", "loss_and_gradients"]

Array = npt.NDArray[np.float64]
Params = dict[str, Array]

INPUT = "input"
POOL = 2


@dataclass(frozen=True)
class Layer:
    """One layer, named as its output is.

    Attributes
    ----------
    op : Conv, Add, MaxPool, AveragePool, Flatten or Gemm, as in ONNX
    inputs : names of the layers it reads, or `INPUT`
    weight_shape : (M, C, K, K) of a Conv, (M, K) of a Gemm, else empty
    relu : whether a ReLU follows
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    weight_shape: tuple[int, ...] = ()
    relu: bool = False


NETWORK = (
    Layer("conv0", "Conv", (INPUT,), (16, 1, 3, 3), relu=True),
    Layer("conv1", "Conv", ("conv0",), (16, 16, 3, 3), relu=True),
    Layer("conv2", "Conv", ("conv1",), (16, 16, 3, 3)),
    Layer("add0", "Add", ("conv0", "conv2"), relu=True),
    Layer("maxpool0", "MaxPool", ("add0",)),
    Layer("conv3", "Conv", ("maxpool0",), (32, 16, 3, 3), relu=True),
    Layer("avgpool0", "AveragePool", ("conv3",)),
    Layer("flatten0", "Flatten", ("avgpool0",)),
    Layer("fc0", "Gemm", ("flatten0",), (10, 128)),
)


def initialise(rng: np.random.Generator) -> Params:
    """Random weights and zero biases, as `<layer>.weight` and `<layer>.bias`.

    Source: He et al., "Delving Deep into Rectifiers" (2015), section 2.2.
    """
    params: Params = {}
    for layer in NETWORK:
        if layer.weight_shape:
            fan_in = np.prod(layer.weight_shape[1:])
            params[f"{layer.name}.weight"] = rng.normal(0, np.sqrt(2 / fan_in), layer.weight_shape)
            params[f"{layer.name}.bias"] = np.zeros(layer.weight_shape[0])
    return params


def forward(params: Mapping[str, Array], images: npt.NDArray[np.floating]) -> Params:
    """Run the network on (N, 1, 8, 8); every layer's output by name, after its ReLU.

    The logits, (N, 10), are the output of the last layer, `fc0`.
    """
    values: Params = {INPUT: images.astype(np.float64)}
    for layer in NETWORK:
        x, *others = (values[name] for name in layer.inputs)
        match layer.op:
            case "Conv":
                y = layers.conv2d(x, params[f"{layer.name}.weight"], params[f"{layer.name}.bias"])
            case "Gemm":
                y = layers.gemm(x, params[f"{layer.name}.weight"], params[f"{layer.name}.bias"])
            case "Add":
                y = x + others[0]
            case "MaxPool":
                y = layers.max_pool(x, POOL)
            case "AveragePool":
                y = layers.average_pool(x, POOL)
            case "Flatten":
                y = x.reshape(len(x), -1)
            case _:
                raise AssertionError(f"layer {layer.name!r} has the unknown op {layer.op!r}")
        values[layer.name] = np.maximum(y, 0) if layer.relu else y
    return values


def loss_and_gradients(
    params: Mapping[str, Array],
    images: npt.NDArray[np.floating],
    labels: npt.NDArray[np.int64],
    smoothing: float = 0.0,
) -> tuple[float, Params]:
    """Mean cross-entropy of a batch, and its gradient with respect to every parameter.

    Parameters
    ----------
    images, labels : (N, 1, 8, 8) and (N,)
    smoothing : share of the target that is spread over all ten digits
    """
    values = forward(params, images)
    logits = values[NETWORK[-1].name]
    probabilities = layers.softmax(logits)
    target = np.full_like(logits, smoothing / logits.shape[1])
    target[np.arange(len(labels)), labels] += 1 - smoothing
    loss = -float((target * np.log(probabilities)).sum()) / len(labels)
    return loss, _backward(params, values, (probabilities - target) / len(labels))


def _backward(params: Mapping[str, Array], values: Params, grad_logits: Array) -> Params:
    """Gradients with respect to the parameters, from that with respect to the logits."""
    gradients: Params = {}
    grads: Params = {NETWORK[-1].name: grad_logits}  # of outputs, summed over their readers
    for layer in reversed(NETWORK):
        grad = grads.pop(layer.name)
        if layer.relu:
            grad = grad * (values[layer.name] > 0)
        x = values[layer.inputs[0]]
        match layer.op:
            case "Conv" | "Gemm":
                step = layers.conv2d_backward if layer.op == "Conv" else layers.gemm_backward
                grad_x, grad_weight, grad_bias = step(grad, x, params[f"{layer.name}.weight"])
                gradients[f"{layer.name}.weight"] = grad_weight
                gradients[f"{layer.name}.bias"] = grad_bias
            case "Add":
                grad_x = grad
            case "MaxPool":
                grad_x = layers.max_pool_backward(grad, x, POOL)
            case "AveragePool":
                grad_x = layers.average_pool_backward(grad, POOL)
            case _:
                grad_x = grad.reshape(x.shape)
        for name in layer.inputs:
            grads[name] = grads[name] + grad_x if name in grads else grad_x
    return gradients
