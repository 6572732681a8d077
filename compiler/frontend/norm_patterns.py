"""Layer norms, RMS norms and L2 norms written out in small operators, recognized in ONNX nodes.

Importer and quantizer both use it, so that a norm is the same however a model writes it.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.frontend.written import WrittenPatterns

__all__ = ["Norm", "NormPatterns"]

Vector = npt.NDArray[np.float32]

_LEAST_LENGTH = 1e-11
"""A row is divided by its length or by such a bound, the larger one. A norm divides by the root of
the sum of both squares, which is another number only for rows about as short as the bound."""


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


class NormPatterns(WrittenPatterns):
    """Finds the norms of a model.

    ::

        d = Sub(x, ReduceMean(x))           or d = x
        m = ReduceMean(Mul(d, d))           or of Pow(d, 2)
        r = Sqrt(Add(m, epsilon))
        y = Div(d, r)                       or Mul(d, Reciprocal(r)), Mul(d, Div(1, r))
        z = Add(Mul(y, scale), bias)        each may be missing

    A row divided by its length, ``r = ReduceL2(x)``, is the RMS norm of it divided by the root of
    the number of channels; Clip, Max or Add may keep ``r`` above a small number.
    """

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
        for d, root in self.quotients(node):
            shape = self.shape(d)
            if not shape:
                continue
            channels, gain = shape[-1:], np.float32(1)
            epsilon = self._root_mean_square(root, d)
            if epsilon is None:
                bound = self._length(root, d)
                if bound is None:
                    continue
                epsilon, gain = bound**2 / channels[0], np.float32(1 / math.sqrt(channels[0]))
            center = self.producer(d, "Sub")
            centered = center is not None and self._is_mean(center.input[1], center.input[0])
            x = center.input[0] if center is not None and centered else d
            if any(item is not None and item.shape != channels for item in (scale, bias)):
                return None
            ones = np.ones(channels, dtype=np.float32)
            return Norm(x, centered, epsilon, gain * (ones if scale is None else scale), bias)
        return None

    def _root_mean_square(self, root: str, d: str) -> float | None:
        """The epsilon under the root of the mean square of `d`, if `root` is that."""
        node = self.producer(root, "Sqrt")
        total = None if node is None else self.producer(node.input[0], "Add")
        if total is None:
            return None
        for mean, name in (tuple(total.input), tuple(reversed(total.input))):
            epsilon, reduction = self.number(name), self.producer(mean, "ReduceMean")
            if epsilon is None or reduction is None or epsilon < 0:
                continue
            if self._is_square(reduction.input[0], d) and self._is_over_last_axis(reduction):
                return epsilon
        return None

    def _length(self, length: str, d: str) -> float | None:
        """The least value of the length of the rows of `d`, if `length` is that."""
        node = self.producer(length, "Expand")
        node = self.producers.get(length if node is None else node.input[0])
        bound = 0.0
        if node is not None and node.op_type in ("Add", "Clip", "Max"):
            name, *others = node.input
            if node.op_type == "Clip" and any(others[1:]):
                return None
            numbers = [self.number(item) for item in others[:1]]
            if not numbers or numbers[0] is None or not 0 <= numbers[0] <= _LEAST_LENGTH:
                return None
            node, bound = self.producers.get(name), numbers[0]
        if node is None or node.op_type != "ReduceL2" or node.input[0] != d:
            return None
        return bound if self._is_over_last_axis(node) else None

    def _is_square(self, square: str, d: str) -> bool:
        product = self.producer(square, "Mul")
        if product is not None:
            return list(product.input) == [d, d]
        power = self.producer(square, "Pow")
        return power is not None and power.input[0] == d and self.number(power.input[1]) == 2

    def _is_mean(self, mean: str, x: str) -> bool:
        node = self.producer(mean, "ReduceMean")
        return node is not None and node.input[0] == x and self._is_over_last_axis(node)

    def _is_over_last_axis(self, node: onnx.NodeProto) -> bool:
        """Whether a reduction keeps all axes and reduces the last."""
        shape, axis = self.shape(node.input[0]), self.reduced_axis(node)
        return shape is not None and axis == len(shape) - 1

    def _with_vector(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto, Vector] | None:
        """The node before a product or a sum with one number per channel, and these numbers."""
        for name, vector in (tuple(node.input), tuple(reversed(node.input))):
            value, before = self.constant(vector), self.producers.get(name)
            shape = self.shape(name)
            if value is None or before is None or shape is None or value.dtype != np.float32:
                continue
            if value.ndim and value.size == value.shape[-1]:
                return before, np.asarray(value, dtype=np.float32).reshape(-1)
        return None
