"""The lowering rule of `lower_qdq` for attention: softmax between two products, as two layers.

The scores and probabilities between the products have no integers in the model, so the rule is free
to compute weights and means (`daedal.compiler.integer.attention`).
"""

import math
from dataclasses import dataclass

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, MEAN_TABLES, WEIGHTED_MEAN
from daedal.compiler.graph.ops.integer_rows import step_rows
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext
from daedal.compiler.graph.passes.lowering.matmul_rule import reshaped, turned
from daedal.compiler.graph.passes.lowering.requantization import (
    Quantization,
    QuantizedTensor,
    check_sums,
)
from daedal.compiler.integer.attention import (
    FACTOR_LIMIT,
    FILLER,
    HIDDEN,
    INDEX_BOUNDS,
    LARGEST_WEIGHT,
    MAX_KEYS,
    MeanConstants,
    hiding_factor,
    index_step,
    mask_of_biases,
    result_unit,
    weight_table,
)

__all__ = ["lower_attention"]

_LARGEST_ERROR = 2.0**-10
"""Of a mask's values, relative, as their scale is a multiple of that of the scores."""


@dataclass(frozen=True)
class _Scores:
    """``scale * (q * k) + mask`` of two quantized tensors, with the names of float tensors."""

    queries: QuantizedTensor
    keys: QuantizedTensor
    scale: float
    mask: str | None


@dataclass(frozen=True)
class _Mask:
    """Integers (images, keys, pixels, 1) by name, "" for none; how much one of them is in scores;
    and the integer of keys that must have no weight, or 0."""

    name: str
    factor: int
    filler: int


def lower_attention(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """The product of a softmax and of values, if the variant computes on rows; else None.

    Before::

        s = matmul(dequantize(q_q, sq, 0), dequantize(kT_q, sk, 0))     # float32[1,4,50,50]
        p = softmax(add(s, mask)) axes=3
        y_q = quantize(matmul(p, dequantize(v_q, sv, 0)), sy, 0)        # float32[1,4,50,16]

    After::

        w = q_attention_weights(q_q.map, k_q.map, 0, table, index, mask) ...    # int8[4,50,50,1]
        y_q.map = q_weighted_mean(w, v_q.map, 1, bits, reciprocal, steps, params) ...
        y_q = reshape(transpose(reshape(y_q.map)))
    """
    scores = _scores(context, node.inputs[0]) if context.rows and not q.wide else None
    if scores is None:
        return None
    values = context.resolve(node.inputs[1])
    batches = [context.graph.types[name].shape[:-2] for name in node.inputs]
    if values is None or not _serves(batches[1], batches[0]):
        return None
    try:
        return _Lowering(context, node, scores, values, output).run(q)
    except ValueError as error:
        raise UnsupportedError(f"{error} ({node}); quantize the model again") from error


def _scores(context: LoweringContext, name: str) -> _Scores | None:
    """The scores whose softmax over the last axis is `name`, if it is one of a product."""
    graph = context.graph
    node = graph.producers.get(name)
    rank = len(graph.types[name].shape)
    if node is None or node.op != "softmax" or ints(node.attrs, "axes") != (rank - 1,):
        return None
    shape = graph.types[name].shape
    (name,) = node.inputs
    node = graph.producers.get(name)
    choices: list[tuple[str, str | None]] = [(name, None)]
    if node is not None and node.op == "add":
        a, b = node.inputs
        choices = [(a, b), (b, a)]
    for scaled, mask in choices:
        found = _product(context, scaled)
        if found is not None and graph.types[scaled].shape == shape:
            (queries, keys), scale = found
            return _Scores(queries, keys, scale, mask)
    return None


def _product(
    context: LoweringContext, name: str
) -> tuple[tuple[QuantizedTensor, QuantizedTensor], float] | None:
    """The quantized operands of a product that `name` is, and the scale of its integers."""
    graph, factor = context.graph, 1.0
    node = graph.producers.get(name)
    while node is not None and node.op == "mul":
        numbers = [context.number(operand) for operand in node.inputs]
        place = next((i for i, value in enumerate(numbers) if value is not None), None)
        value = None if place is None else numbers[place]
        if place is None or value is None or value <= 0:
            return None
        factor *= value
        node = graph.producers.get(node.inputs[1 - place])
    if node is None or node.op != "matmul":
        return None
    a, b = (context.resolve(operand) for operand in node.inputs)
    batches = [graph.types[operand].shape[:-2] for operand in node.inputs]
    if a is None or b is None or not _serves(batches[1], batches[0]):
        return None
    return (a, b), a.scale * b.scale * factor


def _serves(batch: tuple[int, ...], of: tuple[int, ...]) -> bool:
    """Whether each matrix of a batch belongs to equally many consecutive ones of another batch."""
    full = (1,) * (len(of) - len(batch)) + batch
    return any(full == (*of[:count], *(1 for _ in of[count:])) for count in range(len(of) + 1))


class _Lowering:
    """Of queries (..., queries, depth), keys (..., depth, keys), and values (..., keys, width).

    A matrix of keys or values may serve several consecutive ones of queries.
    """

    def __init__(
        self,
        context: LoweringContext,
        node: Node,
        scores: _Scores,
        values: QuantizedTensor,
        output: str,
    ) -> None:
        self._context, self._node, self._output = context, node, output
        self._scores, self._values = scores, values
        self._builder = context.builder
        *self._batch, self._queries, self._depth = self._builder.types[scores.queries.name].shape
        self._keys, self._width = self._builder.types[values.name].shape[-2:]
        self._images = math.prod(self._batch)

    def run(self, q: Quantization) -> str | None:
        """Add both layers; None for a mask that integers cannot hold."""
        if self._keys > MAX_KEYS:
            return None
        largest = self._depth * 128 * (128 + abs(self._scores.queries.zero_point))
        check_sums(self._node, largest, self._context.accumulator_bits)
        mask = self._mask(largest)
        if mask is None:
            return None
        return self._mean(self._weights(mask), q)

    def _weights(self, mask: _Mask) -> str:
        scores, bits = self._scores, self._context.multiplier_bits
        zero = scores.queries.zero_point
        zero_point, low, high = INDEX_BOUNDS
        operands = [
            self._turned_map(scores.queries.name),
            self._map(scores.keys.name),
            self._constant("factor", np.array([correction(0)[0]], dtype=np.int8)),
            self._constant("table", weight_table(scores.scale)),
            self._constant("index", step_rows([index_step(scores.scale, bits)])),
            *([mask.name] if mask.name else []),
        ]
        attrs: dict[str, AttrValue] = {
            # The zero point of the keys adds the same to all scores of a query.
            "zero_point_a": zero,
            "zero_point_b": 0,
            "columns": self._keys,
            "mask_factor": mask.factor,
            "filler": mask.filler,
            "zero_point": zero_point,
            "low": low,
            "high": high,
        }
        output = self._fresh("weights")
        return self._builder.add(ATTENTION_WEIGHTS.name, operands, attrs, output=output)

    def _mean(self, weights: str, q: Quantization) -> str:
        values, context = self._values, self._context
        constants = MeanConstants.of(self._keys, context.multiplier_bits)
        bias = np.array([-values.zero_point * result_unit()])
        ratio = np.array([values.scale / (q.scale * result_unit())])
        operands = [
            weights,
            self._map(values.name),
            self._constant("ones", np.ones(1, dtype=np.int8)),
            *(self._constant(name, getattr(constants, name)) for name in MEAN_TABLES),
            self._constant("steps", step_rows(constants.bit_steps, [constants.mantissa])),
            context.params(self._node, self._output, bias, ratio),
        ]
        attrs: dict[str, AttrValue] = {
            "zero_point_a": 0,
            "zero_point_b": 0,
            "columns": self._width,
            "sum_bits": constants.sum_bits,
            **q.attrs,
        }
        check_sums(self._node, LARGEST_WEIGHT * 128 * self._keys, context.accumulator_bits)
        result = self._builder.add(
            WEIGHTED_MEAN.name, operands, attrs, output=self._fresh("map"), name=self._node.name
        )
        flat = reshaped(self._builder, result, (self._images, self._width, self._queries))
        if self._batch == [self._images]:
            return turned(self._builder, flat, self._output)
        shape = (*self._batch, self._queries, self._width)
        return reshaped(self._builder, turned(self._builder, flat), shape, self._output)

    def _mask(self, largest: int) -> _Mask | None:
        hiding = hiding_factor(self._scores.scale, largest)
        name = self._scores.mask
        if name is None and hiding is not None:
            return _Mask("", hiding, FILLER)
        if name is None:  # scores are so small that 8 bits hide none of them
            return self._biases(np.zeros((1, self._queries, self._keys), np.float32), largest)
        shape = self._context.graph.types[name].shape
        *outer, rows, keys = (1,) * (2 - len(shape)) + shape
        if rows not in (1, self._queries) or keys != self._keys:
            return None
        if self._context.graph.is_constant(name):
            mask = self._context.graph.constant(name).reshape(*outer, rows, keys)
            if any(extent != 1 for extent in outer):
                mask = np.broadcast_to(mask, (*self._batch, rows, keys))
            mask = mask.reshape(-1, rows, keys)
            return self._hiding_mask(mask, hiding) or self._biases(mask, largest)
        if any(extent != 1 for extent in outer):
            return None
        return self._computed_mask(name, rows)

    def _hiding_mask(self, mask: Array, hiding: int | None) -> _Mask | None:
        """A constant of 0 and one number that certainly hides a score, in 8 bits."""
        values = np.unique(mask)
        if hiding is None or len(values) > 2 or values[-1] != 0:
            return None
        if len(values) == 2 and -values[0] < hiding * self._scores.scale * -HIDDEN:
            return None
        integers = np.where(mask < 0, HIDDEN, 0).astype(np.int8)
        return _Mask(self._mask_map(integers), hiding, FILLER)

    def _biases(self, mask: Array, largest: int) -> _Mask | None:
        """A constant of any numbers, in the accumulators' bits."""
        found = mask_of_biases(mask, self._scores.scale, largest)
        if found is None or self._context.accumulator_bits < found[0].itemsize * 8:
            return None
        integers, filler = found
        return _Mask(self._mask_map(integers), 1, filler)

    def _mask_map(self, integers: Array) -> str:
        """A constant (images, queries, keys) as a map of keys."""
        if (integers == integers[:1]).all():
            integers = integers[:1]
        return self._constant("mask", np.ascontiguousarray(integers.transpose(0, 2, 1)[..., None]))

    def _computed_mask(self, name: str, rows: int) -> _Mask | None:
        x = self._context.resolve(name)
        if x is None or x.zero_point:
            return None
        ratio = x.scale / self._scores.scale
        factor = round(ratio)
        if not 1 <= factor <= FACTOR_LIMIT or abs(factor / ratio - 1) > _LARGEST_ERROR:
            return None
        flat = turned(self._builder, reshaped(self._builder, x.name, (1, rows, self._keys)))
        maps = reshaped(self._builder, flat, (1, self._keys, rows, 1))
        return _Mask(maps, factor, 0)

    def _map(self, name: str) -> str:
        """A tensor (..., M, N) as a map (images, M, N, 1)."""
        *batch, rows, columns = self._builder.types[name].shape
        return reshaped(self._builder, name, (math.prod(batch), rows, columns, 1))

    def _turned_map(self, name: str) -> str:
        """The same as a map (images, N, M, 1)."""
        rows, columns = self._shape(name)
        flat = reshaped(self._builder, name, (self._images, rows, columns))
        shape = (self._images, columns, rows, 1)
        return reshaped(self._builder, turned(self._builder, flat), shape)

    def _shape(self, name: str) -> tuple[int, int]:
        *_, rows, columns = self._builder.types[name].shape
        return rows, columns

    def _constant(self, role: str, array: Array) -> str:
        return self._builder.constant(self._fresh(role), array)

    def _fresh(self, role: str) -> str:
        return self._builder.fresh_name(f"{self._output}.{role}")
