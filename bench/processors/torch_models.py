"""`TorchModel`: an ONNX model as PyTorch computes it, one operator after the other; its time."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["TorchModel", "library_timer"]

Tensors = dict[str, Any]


class TorchModel:
    """A model on a device of PyTorch.

    Parameters
    ----------
    torch : the package.
    model : static shapes. Operators on shapes have constants as operands.
    device : ``cuda`` or ``cpu``.
    channels_last : whether maps and weights of convolutions lie with their channels last.

    Raises KeyError for an operator that is not in `OPERATORS`.
    """

    def __init__(
        self, torch: Any, model: onnx.ModelProto, device: str, *, channels_last: bool = False
    ) -> None:
        self._torch = torch
        self._device = device
        self._channels_last = channels_last
        graph = model.graph
        self.constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self._tensors = {name: self.tensor(value) for name, value in self.constants.items()}
        self.outputs = [item.name for item in graph.output]
        self._nodes = [
            (
                OPERATORS[node.op_type],
                node,
                {item.name: helper.get_attribute_value(item) for item in node.attribute},
            )
            for node in graph.node
        ]

    def tensor(self, value: np.ndarray) -> Any:
        """An array on the device, in the layout of the model."""
        found = self._torch.from_numpy(np.array(value, order="C")).to(self._device)
        if self._channels_last and value.ndim == 4:
            return found.contiguous(memory_format=self._torch.channels_last)
        return found

    def run(self, feeds: Mapping[str, Any]) -> Tensors:
        """The outputs, by name, for tensors of the device."""
        values = {**self._tensors, **feeds}
        for compute, node, attributes in self._nodes:
            given = [values[name] if name else None for name in node.input]
            known = [self.constants.get(name) for name in node.input]
            found = compute(self._torch, attributes, given, known)
            results = found if isinstance(found, tuple) else (found,)
            values.update(zip(node.output, results, strict=False))
        return {name: values[name] for name in self.outputs}


def library_timer(
    torch: Any, work: Callable[[], Any], replays: int, *, is_graph: bool = True
) -> Callable[[], float]:
    """What gives the seconds of one `work` of PyTorch on a GPU, when `replays` of it follow each
    other: as a graph, or launched one operator after the other."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    run = work
    if is_graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        run = graph.replay

    def seconds() -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(replays):
            run()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / replays

    seconds()  # The clock rises.
    return seconds


def _pads(attributes: Mapping[str, Any]) -> list[int]:
    pads = attributes.get("pads", [0] * 4)
    assert pads[:2] == pads[2:], "maps have equal pads at both ends"
    return list(pads[:2])


def _conv(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    x, weights, *bias = given
    return torch.nn.functional.conv2d(
        x,
        weights,
        bias[0] if bias else None,
        stride=list(attributes.get("strides", [1, 1])),
        padding=_pads(attributes),
        groups=attributes.get("group", 1),
    )


def _pool(name: str) -> Callable[..., Any]:
    def compute(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
        function = getattr(torch.nn.functional, name)
        window, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
        return function(given[0], list(window), list(strides), _pads(attributes))

    return compute


def _batch_norm(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    x, scale, shift, mean, variance = given
    return torch.nn.functional.batch_norm(
        x, mean, variance, scale, shift, eps=attributes.get("epsilon", 1e-5)
    )


def _layer_norm(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    x, scale, *shift = given
    return torch.nn.functional.layer_norm(
        x, scale.shape, scale, shift[0] if shift else None, attributes.get("epsilon", 1e-5)
    )


def _gemm(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    a, b, *shift = given
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    return torch.addmm(shift[0], a, b) if shift else torch.mm(a, b)


def _reshape(_torch: Any, _attributes: object, given: list[Any], known: list[Any]) -> Any:
    x, shape = given[0], known[1].tolist()
    return x.reshape([x.shape[n] if extent == 0 else extent for n, extent in enumerate(shape)])


def _split(torch: Any, attributes: Mapping[str, Any], given: list[Any], known: list[Any]) -> Any:
    return torch.split(given[0], known[1].tolist(), dim=attributes.get("axis", 0))


def _gather(torch: Any, attributes: Mapping[str, Any], given: list[Any], known: list[Any]) -> Any:
    axis = attributes.get("axis", 0)
    if known[1].ndim == 0:
        return given[0].select(axis, int(known[1]))
    assert known[1].ndim == 1
    return torch.index_select(given[0], axis, given[1])


def _softmax(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    return torch.softmax(given[0], attributes.get("axis", -1))


def _concat(torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    return torch.cat(given, attributes["axis"])


def _transpose(_torch: Any, attributes: Mapping[str, Any], given: list[Any], _: object) -> Any:
    return given[0].permute(*attributes["perm"])


def _named(name: str) -> Callable[..., Any]:
    def compute(torch: Any, _attributes: object, given: list[Any], _: object) -> Any:
        return getattr(torch, name)(*given)

    return compute


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Add": _named("add"),
    "AveragePool": _pool("avg_pool2d"),
    "BatchNormalization": _batch_norm,
    "Concat": _concat,
    "Conv": _conv,
    "Div": _named("div"),
    "Erf": _named("erf"),
    "Gather": _gather,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "MatMul": _named("matmul"),
    "MaxPool": _pool("max_pool2d"),
    "Mul": _named("mul"),
    "Relu": _named("relu"),
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Split": _split,
    "Sigmoid": _named("sigmoid"),
    "Transpose": _transpose,
}
"""By ONNX's names."""
