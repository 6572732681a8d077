"""Every operator of the accelerator as a graph of one layer with random shapes and values.

An operator that is new adds a function and its line in `OPERATORS`; all tests of equality between
the levels of the compiler then cover it. Shapes are odd on purpose: channels that do not fill a
block, maps of one pixel, pads of different width on every side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue, Graph
from daedal.compiler.graph.ops.conv_transpose import sub_kernels_of
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, is_wide
from daedal.compiler.graph.ops.integer_rows import (
    NORM_ATTRS,
    NORM_TABLES,
    SOFTMAX_TABLES,
    step_rows,
)
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.ops.sub_kernels import transposed_extents
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.accelerator.vector.rows import computes_rows
from daedal.isa.norms import NormParameters
from daedal.isa.numerics import quantize_multiplier
from daedal.isa.scratchpad import TABLE_ENTRIES
from daedal.isa.softmax import Softmax
from daedal.isa.variant import Variant
from tests.support.attention_graphs import attention_weights, weighted_mean
from tests.support.pick import Pick

__all__ = ["OPERATORS", "Operator", "inputs_of"]

Array = np.ndarray[Any, Any]
Attrs = dict[str, AttrValue]


def inputs_of(graph: Graph, pick: Pick) -> dict[str, Array]:
    """Values for the inputs of a graph."""
    types = {name: graph.types[name] for name in graph.inputs}
    return {
        name: pick.int16(kind.shape) if is_wide(kind) else pick.int8(kind.shape)
        for name, kind in types.items()
    }


class _Layer:
    """Builds a graph around one node."""

    def __init__(self, *maps: tuple[int, ...], wide: Sequence[int] = ()) -> None:
        self.builder = GraphBuilder("layer")
        self.operands = [
            self.builder.input(
                f"x{number}", TensorType(shape, "int16" if number in wide else "int8")
            )
            for number, shape in enumerate(maps)
        ]

    def constant(self, name: str, array: Array) -> None:
        self.operands.append(self.builder.constant(name, array))

    def finish(self, op: str, params: Array, attrs: Attrs) -> Graph:
        self.constant("params", params)
        return self.builder.finish([self.builder.add(op, self.operands, attrs, output="y")])


def _convolution(
    pick: Pick, variant: Variant, groups: int, per_group: tuple[int, int], images: int
) -> tuple[_Layer, Array, Attrs]:
    """A layer with map and weights, and the parameters and attributes that finish it."""
    extents, attrs = pick.window(dilated=True)
    kernel = attrs.pop("kernel")
    assert isinstance(kernel, tuple)
    ins, outs = per_group
    layer = _Layer((images, groups * ins, *extents))
    layer.constant("w", pick.int8((groups * outs, ins, *kernel)))
    # Products with pads of 0 may be left out.
    pad_value = pick.one_of((0, pick.integer(-128, 127)))
    attrs.update(groups=groups, pad_value=pad_value, **pick.bounds())
    return layer, pick.params(variant, groups * outs, (22, 28), any_bias=True), attrs


def _dense(pick: Pick, variant: Variant) -> tuple[_Layer, Array, Attrs]:
    channels = pick.channels(variant), pick.channels(variant)
    return _convolution(pick, variant, 1, channels, pick.integer(1, 2))


def conv2d(pick: Pick, variant: Variant) -> Graph:
    layer, params, attrs = _dense(pick, variant)
    return layer.finish("q_conv2d", params, attrs)


def grouped_conv2d(pick: Pick, variant: Variant) -> Graph:
    groups, per_group = pick.integer(2, 4), pick.pair(1, 6)
    layer, params, attrs = _convolution(pick, variant, groups, per_group, 1)
    return layer.finish("q_conv2d", params, attrs)


def depthwise_conv2d(pick: Pick, variant: Variant) -> Graph:
    channels, images = pick.channels(variant), pick.integer(1, 2)
    layer, params, attrs = _convolution(pick, variant, channels, (1, 1), images)
    return layer.finish("q_conv2d", params, attrs)


def _fused(pick: Pick, variant: Variant) -> tuple[_Layer, str]:
    """A convolution of any kind, for another operator to be fused behind it."""
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    conv = pick.one_of(kinds)(pick, variant)
    layer = _Layer()
    builder = layer.builder = GraphBuilder("layer", conv)
    builder.copy_inputs()
    (node,) = conv.nodes
    names = dict(zip(node.inputs[1:], ("conv_w", "conv_params"), strict=True))
    for name, new in names.items():
        builder.constant(new, conv.constant(name))
    operands = [node.inputs[0], *names.values()]
    return layer, builder.add(node.op, operands, node.attrs, output="conv")


def _skip(layer: _Layer, conv: str, pick: Pick) -> str:
    """Another map as large as the result of `conv`, or of one row or column."""
    shape = layer.builder.types[conv].shape
    extents = (pick.one_of((extent, extent, 1)) for extent in shape[2:])
    return layer.builder.input("skip", TensorType((*shape[:2], *extents), "int8"))


def conv2d_add(pick: Pick, variant: Variant) -> Graph:
    """A convolution and an addition to its result, which the compiler joins."""
    layer, conv = _fused(pick, variant)
    skip = _skip(layer, conv, pick)
    types = layer.builder.types
    swap = types[skip] == types[conv] and pick.integer(0, 1)
    layer.operands = [skip, conv] if swap else [conv, skip]
    first, second = pick.pair(-32767, 32767)
    attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    return layer.finish("q_add", pick.params(variant, 1, (8, 20), multiplier=1), attrs)


def conv2d_mul(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv, _skip(layer, conv, pick)]
    first, second = pick.pair(-128, 127)
    attrs = {"zero_point_a": first, "zero_point_b": second, **pick.bounds()}
    return layer.finish("q_mul", pick.params(variant, 1, (22, 26)), attrs)


def conv2d_leaky_relu(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    attrs = {
        "zero_point_x": pick.integer(-128, 127),
        "multiplier_positive": pick.integer(0, 32767),
        "multiplier_negative": pick.integer(-32767, 32767),
        **pick.bounds(),
    }
    return layer.finish("q_leaky_relu", pick.params(variant, 1, (8, 18), multiplier=1), attrs)


def conv2d_max_requantized(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    return layer.finish("q_max_requantized", pick.params(variant, 1, (15, 18)), pick.bounds())


def conv2d_requantize(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    return layer.finish("q_requantize", pick.params(variant, 1, (15, 18)), pick.bounds())


def conv_transpose2d(pick: Pick, variant: Variant) -> Graph:
    """Each part of the result, by its place between the strides, has parameters of its own."""
    extents, kernel = pick.pair(1, 5), pick.pair(1, 4)
    strides, dilations = pick.pair(1, 3), pick.pair(1, 2)
    pads = tuple(pick.integer(0, (kernel[side % 2] - 1) * dilations[side % 2]) for side in range(4))
    padding = tuple(pick.integer(0, stride - 1) for stride in strides)
    if min(transposed_extents(extents, kernel, strides, pads, dilations, padding)) < 1:
        pads = (0, 0, 0, 0)
    outs, ins = pick.channels(variant), pick.channels(variant)
    attrs: Attrs = {"strides": strides, "pads": pads, "dilations": dilations}
    attrs.update(output_padding=padding, pad_value=pick.integer(-128, 127), **pick.bounds())
    result = transposed_extents(extents, kernel, strides, pads, dilations, padding)
    parts = len(sub_kernels_of(kernel, result, attrs))
    layer = _Layer((pick.integer(1, 2), ins, *extents))
    layer.constant("w", pick.int8((outs, ins, *kernel)))
    params = pick.params(variant, parts * outs, (22, 28), any_bias=True)
    return layer.finish("q_conv_transpose2d", params, attrs)


def matmul(pick: Pick, variant: Variant) -> Graph:
    """Every pixel of one map with every pixel of another, over their channels."""
    images, depth = pick.integer(1, 2), pick.channels(variant)
    left, right = pick.pair(1, 4), pick.pair(1, 6)
    first, second = (pick.one_of((-128, -7, 0, 127)) for _ in range(2))
    layer = _Layer((images, depth, *left), (images, depth, *right))
    layer.constant("factor", np.array([correction(second)[0]], dtype=np.int8))
    attrs: Attrs = {"zero_point_a": first, "zero_point_b": second, "columns": right[0] * right[1]}
    attrs.update(pick.bounds())
    return layer.finish("q_matmul", pick.params(variant, 1, (22, 28)), attrs)


def _two_maps(pick: Pick, variant: Variant, wide: Sequence[int] = ()) -> _Layer:
    """Maps of one shape, or the second one of fewer pixels, which are repeated."""
    shape = pick.map_shape(variant)
    height, width = (pick.one_of((extent, 1)) for extent in shape[2:])
    return _Layer(shape, (*shape[:2], height, width), wide=wide)


def add(pick: Pick, variant: Variant) -> Graph:
    layer = _two_maps(pick, variant)
    first, second = pick.pair(-32767, 32767)
    attrs: Attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    return layer.finish("q_add", pick.params(variant, 1, (8, 20), multiplier=1), attrs)


def mul(pick: Pick, variant: Variant) -> Graph:
    layer = _two_maps(pick, variant)
    first, second = pick.pair(-128, 127)
    attrs: Attrs = {"zero_point_a": first, "zero_point_b": second, **pick.bounds()}
    return layer.finish("q_mul", pick.params(variant, 1, (22, 26)), attrs)


def leaky_relu(pick: Pick, variant: Variant) -> Graph:
    attrs: Attrs = {
        "zero_point_x": pick.integer(-128, 127),
        "multiplier_positive": pick.integer(0, 32767),
        "multiplier_negative": pick.integer(-32767, 32767),
        **pick.bounds(),
    }
    layer = _Layer(pick.map_shape(variant))
    return layer.finish("q_leaky_relu", pick.params(variant, 1, (8, 18), multiplier=1), attrs)


def max_requantized(pick: Pick, variant: Variant) -> Graph:
    layer = _Layer(pick.map_shape(variant))
    return layer.finish("q_max_requantized", pick.params(variant, 1, (15, 18)), pick.bounds())


def requantize(pick: Pick, variant: Variant) -> Graph:
    layer = _Layer(pick.map_shape(variant))
    return layer.finish("q_requantize", pick.params(variant, 1, (15, 18)), pick.bounds())


def lookup(pick: Pick, variant: Variant) -> Graph:
    """Any table of any requantization."""
    layer = _Layer(pick.map_shape(variant))
    layer.constant("table", pick.int8((TABLE_ENTRIES,)))
    params = pick.params(variant, 1, (15, 18))
    return layer.finish("q_requantize_lookup", params, pick.bounds())


def _looked_up(graph: Graph, pick: Pick, output: str = "looked") -> tuple[_Layer, str]:
    """The graph's result, and behind it a table that the compiler joins with what computes it."""
    layer = _Layer()
    builder = layer.builder = GraphBuilder("layer", graph)
    builder.copy_inputs()
    for node in graph.nodes:
        builder.copy_node(node)
    operands = [
        *graph.outputs,
        builder.constant("table", pick.int8((TABLE_ENTRIES,))),
        builder.constant("identity", IDENTITY),
    ]
    return layer, builder.add("q_requantize_lookup", operands, UNCHANGED, output=output)


def _with_table(graph: Graph, pick: Pick) -> Graph:
    layer, looked = _looked_up(graph, pick)
    return layer.builder.finish([looked])


def add_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(add(pick, variant), pick)


def mul_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(mul(pick, variant), pick)


def conv2d_lookup(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    return _with_table(pick.one_of(kinds)(pick, variant), pick)


def conv2d_add_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(conv2d_add(pick, variant), pick)


def conv2d_mul_lookup(pick: Pick, variant: Variant) -> Graph:
    return _with_table(conv2d_mul(pick, variant), pick)


def conv2d_lookup_add(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    layer, looked = _looked_up(pick.one_of(kinds)(pick, variant), pick)
    layer.operands = [looked, _skip(layer, looked, pick)]
    first, second = pick.pair(-32767, 32767)
    attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    params = pick.params(variant, 1, (8, 20), multiplier=1)
    layer.operands.append(layer.builder.constant("sum.params", params))
    return layer.builder.finish([layer.builder.add("q_add", layer.operands, attrs, output="z")])


def _row_operands(layer: _Layer, tables: dict[str, Array], steps: Array) -> None:
    for name, table in tables.items():
        layer.constant(name, table)
    layer.constant("steps", steps)


def softmax(pick: Pick, variant: Variant) -> Graph:
    """Keys are channels, as behind a product of two maps."""
    layer = _Layer(pick.map_shape(variant))
    keys = layer.builder.types["x0"].shape[1]
    scale, result_scale = pick.one_of((0.002, 0.03, 0.5)), pick.one_of((1 / 256, 1 / 50))
    constants = Softmax.of(keys, scale, 8, variant.units.multiplier_bits)
    tables = {name: getattr(constants, name) for name in SOFTMAX_TABLES}
    rows = step_rows([constants.index], constants.bit_steps, [constants.mantissa])
    _row_operands(layer, tables, rows)
    ratio = Softmax.result_ratio(result_scale)
    params = [[0, *quantize_multiplier(ratio, variant.units.multiplier_bits)]]
    attrs: Attrs = {"sum_bits": constants.sum_bits, **pick.bounds()}
    return layer.finish("q_softmax", np.array(params), attrs)


def _norm(pick: Pick, variant: Variant, op: str, *, wide: bool = False) -> Graph:
    """Operand and result have 8 bits, or with `wide` 16."""
    layer = _Layer(pick.map_shape(variant), wide=(0,) if wide else ())
    channels = layer.builder.types["x0"].shape[1]
    signs = pick.rng.choice([-1, 1], channels) if pick.integer(0, 1) else 1
    found = NormParameters.of(
        pick.rng.uniform(0.1, 2, channels) * signs,
        pick.rng.normal(0, 1, channels),
        epsilon=pick.one_of((1e-12, 1e-5)),
        scale=pick.one_of((0.001, 0.1)),
        zero_point=0 if wide else pick.integer(-128, 127),
        bits=16 if wide else 8,
        result_scale=0.0005 if wide else 0.03,
        multiplier_bits=variant.units.multiplier_bits,
        centred=op == "q_layer_norm",
    )
    constants = found.constants
    tables = {name: getattr(constants, name) for name in NORM_TABLES}
    rows = step_rows([constants.mean], constants.bit_steps, constants.mantissas)
    _row_operands(layer, tables, rows)
    layer.constant("params", found.params)
    if (found.signs < 0).any():
        layer.constant("signs", found.signs.reshape(1, -1, 1, 1))
    attrs: Attrs = {name: getattr(constants, name.removesuffix("_x")) for name in NORM_ATTRS}
    attrs |= pick.wide_bounds() if wide else pick.bounds()
    return layer.builder.finish([layer.builder.add(op, layer.operands, attrs, output="y")])


def layer_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_layer_norm")


def rms_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_rms_norm")


def wide_layer_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_layer_norm", wide=True)


def wide_rms_norm(pick: Pick, variant: Variant) -> Graph:
    return _norm(pick, variant, "q_rms_norm", wide=True)


def channel_requantize(pick: Pick, variant: Variant) -> Graph:
    wide = (0,) if _has_wide_results(variant) and pick.integer(0, 1) else ()
    layer = _Layer(pick.map_shape(variant), wide=wide)
    channels = layer.builder.types["x0"].shape[1]
    shifts = (22, 26) if wide else (14, 18)
    params = pick.params(variant, channels, shifts)
    return layer.finish("q_channel_requantize", params, pick.bounds())


def wide_add(pick: Pick, variant: Variant) -> Graph:
    """Operands of either width, and a result of either."""
    wide = pick.one_of(((), (0,), (1,), (0, 1)))
    layer = _two_maps(pick, variant, wide)
    first, second = pick.pair(-32767, 32767)
    return _finish_wide_sum(layer, pick, variant, first, second, narrow=len(wide) > 0)


def _finish_wide_sum(
    layer: _Layer, pick: Pick, variant: Variant, first: int, second: int, *, narrow: bool
) -> Graph:
    """With `narrow`, the result may have 8 bits."""
    narrow = narrow and pick.integer(0, 1) == 1
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    attrs: Attrs = {"multiplier_a": first, "multiplier_b": second, **bounds}
    shifts = (38, 42) if narrow else (30, 34)
    return layer.finish("q_add", pick.params(variant, 1, shifts), attrs)


def wide_requantize(pick: Pick, variant: Variant) -> Graph:
    wide = pick.one_of(((), (0,)))
    narrow = len(wide) > 0 and pick.integer(0, 1) == 1
    layer = _Layer(pick.map_shape(variant), wide=wide)
    params = pick.params(variant, 1, (22, 26) if narrow else (10, 16))
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    return layer.finish("q_requantize", params, bounds)


def _with_wide_result(graph: Graph, pick: Pick) -> Graph:
    """A layer of products with a result of 16 bits."""
    (node,) = graph.nodes
    builder = GraphBuilder("layer", graph)
    builder.copy_inputs()
    *others, params = node.inputs
    rows = graph.constant(params) - np.array([0, 0, 8])
    attrs = {**node.attrs, **pick.wide_bounds()}
    operands = [*others, builder.constant("wide_params", rows)]
    return builder.finish([builder.add(node.op, operands, attrs, output="y")])


def wide_conv2d(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    return _with_wide_result(pick.one_of(kinds)(pick, variant), pick)


def wide_matmul(pick: Pick, variant: Variant) -> Graph:
    return _with_wide_result(matmul(pick, variant), pick)


def _wide_fused(pick: Pick, variant: Variant) -> tuple[_Layer, str]:
    """A convolution with a result of either width, for a sum or a change of scale behind it."""
    kinds = (conv2d, wide_conv2d)
    conv = pick.one_of(kinds)(pick, variant)
    layer = _Layer()
    builder = layer.builder = GraphBuilder("layer", conv)
    builder.copy_inputs()
    (node,) = conv.nodes
    operands = [
        node.inputs[0],
        *(builder.constant(f"conv_{n}", conv.constant(n)) for n in node.inputs[1:]),
    ]
    return layer, builder.add(node.op, operands, node.attrs, output="conv")


def wide_conv2d_add(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _wide_fused(pick, variant)
    shape = layer.builder.types[conv].shape
    extents = (pick.one_of((extent, extent, 1)) for extent in shape[2:])
    kind = TensorType((*shape[:2], *extents), pick.one_of(("int8", "int16")))
    skip = layer.builder.input("skip", kind)
    layer.operands = [conv, skip]
    first, second = pick.pair(-32767, 32767)
    narrow = any(is_wide(layer.builder.types[name]) for name in layer.operands)
    return _finish_wide_sum(layer, pick, variant, first, second, narrow=narrow)


def wide_conv2d_requantize(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _wide_fused(pick, variant)
    layer.operands = [conv]
    narrow = is_wide(layer.builder.types[conv]) and pick.integer(0, 1) == 1
    params = pick.params(variant, 1, (22, 26) if narrow else (10, 16))
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    return layer.finish("q_requantize", params, bounds)


def max_pool(pick: Pick, variant: Variant) -> Graph:
    extents, attrs = pick.window(dilated=False)
    layer = _Layer((pick.integer(1, 2), pick.channels(variant), *extents))
    attrs.update(pad_value=-128, **pick.bounds())
    return layer.finish("q_max_pool", pick.params(variant, 1, (15, 18)), attrs)


def avg_pool(pick: Pick, variant: Variant) -> Graph:
    """One row of parameters for each number of elements that a window may have."""
    extents, attrs = pick.window(dilated=False)
    kernel, strides, pads = (attrs[name] for name in ("kernel", "strides", "pads"))
    assert isinstance(kernel, tuple) and isinstance(strides, tuple) and isinstance(pads, tuple)
    counts = []
    for axis in range(2):
        size, before, behind = extents[axis], pads[axis], pads[axis + 2]
        starts = range(-before, size + behind - kernel[axis] + 1, strides[axis])
        counts.append([min(s + kernel[axis], size) - max(s, 0) for s in starts])
    divisors = sorted({h * w for h in counts[0] for w in counts[1]})
    attrs.update(
        pad_value=pick.integer(-128, 127),
        counts_h=tuple(counts[0]),
        counts_w=tuple(counts[1]),
        divisors=tuple(divisors),
        **pick.bounds(),
    )
    layer = _Layer((1, pick.channels(variant), *extents))
    return layer.finish("q_avg_pool", pick.params(variant, len(divisors), (16, 22)), attrs)


def slice_map(pick: Pick, variant: Variant) -> Graph:
    """A part of the channels, from a whole block on or from any, and of the pixels."""
    shape = pick.map_shape(variant)
    begins = [0, *(pick.integer(0, extent - 1) for extent in shape[1:])]
    if pick.integer(0, 1):
        begins[1] -= begins[1] % variant.block
    ends = [pick.integer(begin + 1, extent) for begin, extent in zip(begins, shape, strict=True)]
    steps = (1, pick.one_of((1, 1, 2)), *pick.pair(1, 3))
    attrs: Attrs = {
        "begins": tuple(begins),
        "ends": (shape[0], *ends[1:]),
        "steps": steps,
        **pick.bounds(),
    }
    return _Layer(shape).finish("q_slice", pick.params(variant, 1, (15, 18)), attrs)


def pad_map(pick: Pick, variant: Variant) -> Graph:
    """Around the pixels, and in half of the cases around the channels."""
    shape = pick.map_shape(variant)
    top, left, bottom, right = (pick.integer(0, 2) for _ in range(4))
    front, back = pick.pair(0, variant.block + 1) if pick.integer(0, 1) else (0, 0)
    attrs: Attrs = {
        "pads": (0, front, top, left, 0, back, bottom, right),
        "pad_value": pick.integer(-128, 127),
        **pick.bounds(),
    }
    return _Layer(shape).finish("q_pad", pick.params(variant, 1, (15, 18)), attrs)


def concat(pick: Pick, variant: Variant) -> Graph:
    images, _, *extents = pick.map_shape(variant)
    channels = tuple(pick.channels(variant) for _ in range(pick.integer(2, 3)))
    layer = _Layer(*((images, count, *extents) for count in channels))
    params = pick.params(variant, len(channels), (15, 18))
    return layer.finish("q_concat", params, {"channels": channels, **pick.bounds()})


def resize(pick: Pick, variant: Variant) -> Graph:
    layer = _Layer(pick.map_shape(variant))
    attrs: Attrs = {"factors": (1, 1, *pick.pair(1, 3)), **pick.bounds()}
    return layer.finish("q_resize", pick.params(variant, 1, (15, 18)), attrs)


def _is_square(variant: Variant) -> bool:
    return variant.array.block_in == variant.array.block_out


def _is_any(variant: Variant) -> bool:
    return True


def _has_wide_results(variant: Variant) -> bool:
    return variant.units.wide_requantize


def _has_tables(variant: Variant) -> bool:
    return variant.memory.tables > 0


@dataclass(frozen=True)
class Operator:
    """One kind of layer.

    Parameters
    ----------
    graph : makes a graph with it, its attributes, constants and shapes drawn.
    runs_on : whether a variant can run it.
    """

    graph: Callable[[Pick, Variant], Graph]
    runs_on: Callable[[Variant], bool] = _is_any


OPERATORS: dict[str, Operator] = {
    "conv2d": Operator(conv2d),
    "conv2d_add": Operator(conv2d_add),
    "conv2d_leaky_relu": Operator(conv2d_leaky_relu),
    "conv2d_max_requantized": Operator(conv2d_max_requantized),
    "conv2d_mul": Operator(conv2d_mul),
    "conv2d_requantize": Operator(conv2d_requantize),
    "grouped_conv2d": Operator(grouped_conv2d),
    "depthwise_conv2d": Operator(depthwise_conv2d),
    "conv_transpose2d": Operator(conv_transpose2d),
    "matmul": Operator(matmul, _is_square),
    "add": Operator(add),
    "mul": Operator(mul),
    "leaky_relu": Operator(leaky_relu),
    "max_requantized": Operator(max_requantized),
    "requantize": Operator(requantize),
    "lookup": Operator(lookup, _has_tables),
    "add_lookup": Operator(add_lookup, _has_tables),
    "mul_lookup": Operator(mul_lookup, _has_tables),
    "conv2d_lookup": Operator(conv2d_lookup, _has_tables),
    "conv2d_lookup_add": Operator(conv2d_lookup_add, _has_tables),
    "conv2d_add_lookup": Operator(conv2d_add_lookup, _has_tables),
    "conv2d_mul_lookup": Operator(conv2d_mul_lookup, _has_tables),
    "softmax": Operator(softmax, computes_rows),
    "attention_weights": Operator(attention_weights, computes_rows),
    "weighted_mean": Operator(weighted_mean, computes_rows),
    "layer_norm": Operator(layer_norm, computes_rows),
    "rms_norm": Operator(rms_norm, computes_rows),
    "wide_layer_norm": Operator(wide_layer_norm, computes_rows),
    "wide_rms_norm": Operator(wide_rms_norm, computes_rows),
    "channel_requantize": Operator(channel_requantize),
    "wide_add": Operator(wide_add, _has_wide_results),
    "wide_requantize": Operator(wide_requantize, _has_wide_results),
    "wide_conv2d": Operator(wide_conv2d, _has_wide_results),
    "wide_conv2d_add": Operator(wide_conv2d_add, _has_wide_results),
    "wide_conv2d_requantize": Operator(wide_conv2d_requantize, _has_wide_results),
    "wide_matmul": Operator(
        wide_matmul, lambda variant: _is_square(variant) and _has_wide_results(variant)
    ),
    "max_pool": Operator(max_pool),
    "avg_pool": Operator(avg_pool),
    "slice": Operator(slice_map),
    "pad": Operator(pad_map),
    "concat": Operator(concat),
    "resize": Operator(resize),
}
