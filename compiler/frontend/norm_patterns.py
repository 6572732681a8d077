"""Layer norms and RMS norms written out in small operators, recognized in ONNX nodes.

Importer and quantizer both use it, so that a norm is the same however a model writes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.frontend.attributes import attribute

__all__ = ["Norm", "NormPatterns"]

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Norm:
    """A norm of `x` over its last axis.

    Parameters
    ----------
    centered : whether the mean is subtracted: a layer norm, else an RMS norm.
    scale, bias : (channels,) float32; the bias is None if there is none.
    """

    x: str
    centered: bool
    epsilon: float
    scale: Vector
    bias: Vector | None


class NormPatterns:
    """Finds the norms of a model.

    ::

        d = Sub(x, ReduceMean(x))           or d = x
        m = ReduceMean(Mul(d, d))           or of Pow(d, 2)
        r = Sqrt(Add(m, epsilon))
        y = Div(d, r)                       or Mul(d, Reciprocal(r)), Mul(d, Div(1, r))
        z = Add(Mul(y, scale), bias)        each may be missing

    Parameters
    ----------
    nodes : of the model.
    constant : the value of a constant by name, or None for other tensors.
    shape : the static shape of a float32 tensor by name, or None if there is none.
    """

    def __init__(
        self,
        nodes: Iterable[onnx.NodeProto],
        constant: Callable[[str], npt.NDArray[np.generic] | None],
        shape: Callable[[str], tuple[int, ...] | None],
    ) -> None:
        self._producers = {name: node for node in nodes for name in node.output if name}
        self._constant = constant
        self._shape = shape

    def match(self, node: onnx.NodeProto) -> Norm | None:
        """The norm whose last operator is `node`, with as many operators as there are."""
        bias = None
        if node.op_type == "Add":
            found = self._with_vector(node)
            if found is None:
                return None
            node, bias = found
        scale = None
        if node.op_type == "Mul":
            found = self._with_vector(node)
            if found is not None:
                node, scale = found
        if bias is not None and scale is None:
            return None
        return self._divided(node, scale, bias)

    def _divided(
        self, node: onnx.NodeProto, scale: Vector | None, bias: Vector | None
    ) -> Norm | None:
        for d, root in self._quotients(node):
            epsilon = self._root_mean_square(root, d)
            if epsilon is None:
                continue
            center = self._producer(d, "Sub")
            centered = center is not None and self._is_mean(center.input[1], center.input[0])
            x = center.input[0] if center is not None and centered else d
            shape = self._shape(x)
            if shape is None:
                return None
            channels = shape[-1:]
            if any(item is not None and item.shape != channels for item in (scale, bias)):
                return None
            ones = np.ones(channels, dtype=np.float32)
            return Norm(x, centered, epsilon, ones if scale is None else scale, bias)
        return None

    def _quotients(self, node: onnx.NodeProto) -> list[tuple[str, str]]:
        """Dividend and divisor, in the orders that the operands may have."""
        if node.op_type == "Div":
            return [(node.input[0], node.input[1])]
        if node.op_type != "Mul":
            return []
        found = []
        for d, factor in (tuple(node.input), tuple(reversed(node.input))):
            inverse = self._producer(factor, "Reciprocal")
            if inverse is not None:
                found.append((d, inverse.input[0]))
            inverse = self._producer(factor, "Div")
            if inverse is not None and self._number(inverse.input[0]) == 1:
                found.append((d, inverse.input[1]))
        return found

    def _root_mean_square(self, root: str, d: str) -> float | None:
        """The epsilon under the root of the mean square of `d`, if `root` is that."""
        node = self._producer(root, "Sqrt")
        total = None if node is None else self._producer(node.input[0], "Add")
        if total is None:
            return None
        for mean, name in (tuple(total.input), tuple(reversed(total.input))):
            epsilon, reduction = self._number(name), self._producer(mean, "ReduceMean")
            if epsilon is None or reduction is None or epsilon < 0:
                continue
            if self._is_square(reduction.input[0], d) and self._is_over_last_axis(reduction):
                return epsilon
        return None

    def _is_square(self, square: str, d: str) -> bool:
        product = self._producer(square, "Mul")
        if product is not None:
            return list(product.input) == [d, d]
        power = self._producer(square, "Pow")
        return power is not None and power.input[0] == d and self._number(power.input[1]) == 2

    def _is_mean(self, mean: str, x: str) -> bool:
        node = self._producer(mean, "ReduceMean")
        return node is not None and node.input[0] == x and self._is_over_last_axis(node)

    def _is_over_last_axis(self, node: onnx.NodeProto) -> bool:
        """Whether a ReduceMean keeps all axes and reduces the last."""
        axes = attribute(node, "axes")
        if axes is None and len(node.input) > 1:
            axes = self._constant(node.input[1])
        shape = self._shape(node.input[0])
        if axes is None or shape is None or not attribute(node, "keepdims", 1):
            return False
        return [int(axis) for axis in axes] in ([-1], [len(shape) - 1])

    def _with_vector(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto, Vector] | None:
        """The node before a product or a sum with one number per channel, and these numbers."""
        for name, vector in (tuple(node.input), tuple(reversed(node.input))):
            value, before = self._constant(vector), self._producers.get(name)
            shape = self._shape(name)
            if value is None or before is None or shape is None or value.dtype != np.float32:
                continue
            if value.ndim and value.size == value.shape[-1]:
                return before, np.asarray(value, dtype=np.float32).reshape(-1)
        return None

    def _producer(self, name: str, op_type: str) -> onnx.NodeProto | None:
        node = self._producers.get(name)
        return node if node is not None and node.op_type == op_type else None

    def _number(self, name: str) -> float | None:
        value = self._constant(name)
        return float(value.reshape(())) if value is not None and value.size == 1 else None
