"""The shared context of `lower_qdq`'s lowering rules: graphs, parameters, and recursion.

A rule computes a float tensor, quantized as requested, with integer operators, and returns the name
of the result. None means that the tensor cannot be computed from integers.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY
from daedal.compiler.graph.passes.lowering.requantization import (
    FACTOR_BITS,
    Quantization,
    QuantizedTensor,
    make_params,
    rounds_as_floats,
)

__all__ = ["BIAS_ERROR", "ON_GRID", "WIDE_RESULTS", "LowerFunction", "LoweringContext", "Rule"]

WIDE_RESULTS = frozenset(
    {
        *("add", "conv2d", "dense", "dequantize", "layer_norm", "matmul", "mul", "reshape"),
        *("rms_norm", "sub", "transpose"),
    }
)
"""Operators that can have wide results; of products of two tensors that are not constant, only
those of matrices."""

BIAS_ERROR = 0.5
"""Units of an 8-bit result by which rounding a bias may move it: with the rounding of the result
itself, that makes one."""

LARGEST_ACCUMULATOR = 1 << 31

ON_GRID = ("max_pool", "pad", "relu", "reshape", "resize", "slice", "transpose")
"""Operators whose result holds only values of their operand, or a real 0, which every quantization
has: pads of another value are not among them."""


@dataclass
class LoweringContext:
    """The graphs and functions that the rules work with.

    Parameters
    ----------
    graph : the graph that is lowered.
    builder : the one that is built.
    multiplier_bits, accumulator_bits : widths of the target.
    factor_bits : magnitude bits of the factors of a sum.
    product_bits : which a sum times its multiplier may have; None: any.
    bias_error : units of an 8-bit result by which rounding a bias may move it.
    as_floats : whether 8-bit integers that only change their scale are rounded as the quotients of
        float32 that QuantizeLinear rounds.
    wide_results : float operators whose results may have 16 bits.
    view : the integer tensor that a float tensor is directly dequantized from, else None.
    rules : the rule of each float operator.
    function_rule : computes functions of one quantized tensor, before any other rule; None if the
        variant has no tables.
    rows : whether the variant computes softmax and norms.
    resolved : integer tensors found for float tensors so far.
    """

    graph: Graph
    builder: GraphBuilder
    multiplier_bits: int
    accumulator_bits: int
    view: Callable[[str], QuantizedTensor | None]
    rules: Mapping[str, "Rule"]
    factor_bits: int = FACTOR_BITS
    product_bits: int | None = None
    bias_error: float = BIAS_ERROR
    as_floats: bool = False
    wide_results: Collection[str] = WIDE_RESULTS
    function_rule: "LowerFunction | None" = None
    rows: bool = False
    resolved: dict[str, QuantizedTensor | None] = field(default_factory=dict)

    def params(
        self,
        node: Node,
        output: str,
        biases: Array,
        ratios: Array,
        largest: int = LARGEST_ACCUMULATOR,
    ) -> str:
        """Define the parameter constant of an integer operator, whose sums reach `largest`."""
        bits = self.multiplier_bits
        if self.product_bits is not None:
            total = largest + int(np.abs(biases).max())
            bits = min(bits, self.product_bits - total.bit_length())
        values = make_params(node, biases, ratios, bits, self.accumulator_bits)
        return self.define_params(output, values)

    def define_params(self, output: str, rows: Array) -> str:
        """Define a parameter constant from its rows of [bias, multiplier, shift]."""
        return self.builder.constant(self.builder.fresh_name(f"{output}.params"), rows)

    def rescale(
        self, node: Node, output: str, x: QuantizedTensor, q: Quantization
    ) -> tuple[str, Quantization]:
        """Parameters that bring `x` to the scale of `q`, and the quantization to finish with.

        If scale and zero point stay, only the bounds of `q` are applied. Raises UnsupportedError
        where floats are rounded otherwise (`as_floats`).
        """
        if (x.scale, x.zero_point) == (q.scale, q.zero_point):
            return self.define_params(output, IDENTITY), replace(q, zero_point=0)
        if self.as_floats and not x.wide and not rounds_as_floats(x, q):
            raise UnsupportedError(
                "scales must round the quotients of all 8-bit integers as they round their ratio, "
                f"and {x.scale:.9g} and {q.scale:.9g} do not ({node}); choose another scale"
            )
        biases, ratios = np.array([-x.zero_point]), np.array([x.scale / q.scale])
        return self.params(node, output, biases, ratios, x.largest), q

    def lower(self, tensor: str, q: Quantization, output: str) -> str | None:
        """Compute the float `tensor`, quantized as `q`, as the integer tensor `output`.

        ReLU and Clip become bounds. Reordering elements and max pooling commute with quantization,
        which is monotone and elementwise, so they are applied to the quantized tensor.
        """
        if self.function_rule is not None and not q.wide:
            lowered = self.function_rule(self, tensor, q, output)
            if lowered is not None:
                return lowered
        node = self.graph.producers.get(tensor)
        while node is not None and node.op in ("relu", "clip"):
            low, high = _bounds(node)
            q = q.bounded(low, high)
            tensor = node.inputs[0]
            node = self.graph.producers.get(tensor)
        if (
            node is None
            or node.op not in self.rules
            or (q.wide and node.op not in self.wide_results)
        ):
            return None
        return self.rules[node.op](self, node, q, output)

    def resolve(self, tensor: str, *, wide: bool = False) -> QuantizedTensor | None:
        """The int8 tensor, or with `wide` also the wide one, whose dequantization is `tensor`.

        Operators of `ON_GRID` keep a dequantized tensor on its grid, so they can be computed
        exactly on the integers. A product with a positive number changes only the scale.
        """
        if tensor not in self.resolved:
            found = self.view(tensor) or self.scaled(tensor) or self._resolve_on_grid(tensor)
            self.resolved[tensor] = found
        x = self.resolved[tensor]
        return None if x is None or (x.wide and not wide) else x

    def scaled(self, tensor: str) -> QuantizedTensor | None:
        """The integer tensor behind a product with one positive number, its scale multiplied by
        that; else None."""
        node = self.graph.producers.get(tensor)
        if node is None or node.op != "mul":
            return None
        for name, other in (node.inputs, node.inputs[::-1]):
            factor = self.number(other)
            if factor is None or factor <= 0 or self.graph.types[name].shape != self._shape(tensor):
                continue
            x = self.resolve(name, wide=True)
            if x is not None:
                return replace(x, scale=x.scale * factor)
        return None

    def number(self, tensor: str) -> float | None:
        """The value of a float constant of one element, else None."""
        value = self.graph.constants.get(tensor)
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def _shape(self, tensor: str) -> tuple[int, ...]:
        return self.graph.types[tensor].shape

    def source(self, tensor: str, q: Quantization) -> QuantizedTensor | None:
        """The int8 operand for an operator that only selects elements of `tensor`.

        It is the int8 tensor behind `tensor`; without one, `tensor` is quantized as the result is.
        """
        x = self.resolve(tensor)
        if x is not None:
            return x
        name = self.lower(tensor, q.unbounded, self.builder.fresh_name(f"{tensor}.int8"))
        return None if name is None else QuantizedTensor(name, q.scale, q.zero_point)

    def _resolve_on_grid(self, tensor: str) -> QuantizedTensor | None:
        node = self.graph.producers.get(tensor)
        if node is None or node.op not in ON_GRID:
            return None
        if node.op == "pad" and len(node.inputs) == 2 and self.number(node.inputs[1]) != 0:
            return None
        x = self.resolve(node.inputs[0], wide=True)
        if x is None:
            return None
        output = self.builder.fresh_name(f"{tensor}.int{16 if x.wide else 8}")
        name = self.lower(tensor, x.quantization, output)
        return None if name is None else replace(x, name=name)


Rule = Callable[[LoweringContext, Node, Quantization, str], str | None]
LowerFunction = Callable[[LoweringContext, str, Quantization, str], str | None]


def _bounds(node: Node) -> tuple[float, float]:
    if node.op == "relu":
        return 0.0, float("inf")
    low, high = node.attrs["low"], node.attrs["high"]
    assert isinstance(low, float) and isinstance(high, float)
    return low, high
