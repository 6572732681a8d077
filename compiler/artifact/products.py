"""Multiply-accumulates of an ONNX node, as its operator defines them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import onnx

from daedal.compiler.frontend.attributes import attribute

__all__ = ["count_products"]

Shape = tuple[int, ...]


def count_products(node: onnx.NodeProto, shape_of: Callable[[str], Shape | None]) -> int | None:
    """The number of multiply-accumulates of `node`; 0 for operators without any.

    Biases and elementwise products do not count. Steps that a recurrent layer skips for shorter
    sequences do. None if the number is unknown.

    Parameters
    ----------
    shape_of : the static shape of a tensor; None if unknown.
    """
    if node.domain not in ("", "ai.onnx") or node.op_type in _UNCOUNTED:
        return None
    bodies = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
    if bodies:
        parts = [count_products(part, lambda _: None) for body in bodies for part in body.node]
        return 0 if all(count == 0 for count in parts) else None
    rule = _RULES.get(node.op_type)
    try:
        return 0 if rule is None else rule(_Operands(node, shape_of))
    except _UnknownError:
        return None


_UNCOUNTED = ("CausalConvWithState", "DFT", "LinearAttention", "STFT")
"""Operators whose definition does not say how many products they take."""


class _UnknownError(Exception):
    """A shape is unknown, or not valid for the operator."""


class _Operands:
    """The shapes of a node's operands and result, and its attributes."""

    def __init__(self, node: onnx.NodeProto, shape_of: Callable[[str], Shape | None]) -> None:
        self._node = node
        self._shape_of = shape_of

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self._node.input) and bool(self._node.input[index])

    def shape(self, index: int, *ranks: int) -> Shape:
        """Shape of operand `index`, which must have one of `ranks`; by default, any from 1 on."""
        shape = self._shape_of(self._node.input[index]) if self.has(index) else None
        if not shape or (ranks and len(shape) not in ranks):
            raise _UnknownError
        return shape

    @property
    def result(self) -> Shape:
        """Shape of the first output."""
        shape = self._shape_of(self._node.output[0])
        if shape is None:
            raise _UnknownError
        return shape

    def attribute(self, name: str, default: Any) -> Any:
        """Value of an attribute."""
        return attribute(self._node, name, default)


def _convolution(weights: int) -> Callable[[_Operands], int]:
    """Every element of the result takes a product per tap and channel of its group."""
    return lambda node: math.prod(node.result) * math.prod(node.shape(weights)[1:])


def _matmul(node: _Operands) -> int:
    return math.prod(node.result) * node.shape(0)[-1]


def _gemm(node: _Operands) -> int:
    return math.prod(node.result) * node.shape(0, 2)[0 if node.attribute("transA", 0) else 1]


def _recurrent(node: _Operands) -> int:
    """Per step and direction, the gates' weights for input and state. Source: ONNX LSTM-14."""
    *steps, _ = node.shape(0, 3)
    return math.prod(steps) * (math.prod(node.shape(1, 3)) + math.prod(node.shape(2, 3)))


def _attention(node: _Operands) -> int:
    """Queries times keys, and the resulting weights times values. Source: ONNX Attention-23."""
    query = _by_heads(node.shape(0, 3, 4), node.attribute("q_num_heads", 0))
    key, value = (
        _by_heads(node.shape(index, 3, 4), node.attribute("kv_num_heads", 0)) for index in (1, 2)
    )
    past = node.shape(4, 4)[2] if node.has(4) else 0
    return math.prod(query[:3]) * (past + key[2]) * (query[3] + value[3])


def _by_heads(shape: Shape, heads: int) -> Shape:
    """(batch, heads, length, width), from this or from (batch, length, heads * width)."""
    if len(shape) == 4:
        return shape
    if heads < 1:
        raise _UnknownError
    return (shape[0], heads, shape[1], shape[2] // heads)


def _einsum(node: _Operands) -> int:
    """One product for each combination of all indices. Source: ONNX Einsum-12.

    With three or more operands the number depends on which two are multiplied first.
    """
    terms = node.attribute("equation", b"").decode().replace(" ", "").split("->")[0].split(",")
    if len(terms) == 1:
        return 0
    if len(terms) > 2:
        raise _UnknownError
    sizes: dict[str | int, int] = {}
    for index, term in enumerate(terms):
        shape = node.shape(index)
        head, dots, tail = term.partition("...")
        hidden = len(shape) - len(head) - len(tail) if dots else 0
        labels = [*head, *range(-hidden, 0), *tail]
        if len(labels) != len(shape):
            raise _UnknownError
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 0))
    return math.prod(sizes.values())


_RULES: Mapping[str, Callable[[_Operands], int]] = {
    "Attention": _attention,
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "ConvTranspose": lambda node: math.prod(node.shape(0)) * math.prod(node.shape(1)[1:]),
    "DeformConv": _convolution(1),
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearConv": _convolution(3),
    "QLinearMatMul": _matmul,
    "RNN": _recurrent,
}
"""Operators that add up products; all others of ONNX add up none."""
