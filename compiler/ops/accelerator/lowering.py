"""Lowers integer nodes of a blocked graph to scheduled functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.instruction_count import count_instructions
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.codegen.vectors import num_rows
from daedal.compiler.cost.memory import DDR
from daedal.compiler.graph.aliases import row_pitch
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.layout import ActivationLayout, DepthwiseLayout
from daedal.compiler.graph.narrow_weights import narrow_weights
from daedal.compiler.graph.ops.append import Q_APPEND
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, MATMULS, WEIGHTED_MEAN
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.matmul import Q_MATMUL, correction
from daedal.compiler.graph.ops.registry import get_op, ints, whole
from daedal.compiler.graph.passes.value_ranges import changes_nothing, copies_elements
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.accelerator.buildable_space import BuildableSpace
from daedal.compiler.ops.accelerator.builders import Builder, bounds_of
from daedal.compiler.ops.accelerator.columns import columns_view
from daedal.compiler.ops.accelerator.conv.builders import conv2d_template, depthwise_template
from daedal.compiler.ops.accelerator.conv.lower_stream import stream_conv2d_template
from daedal.compiler.ops.accelerator.conv.lower_transposed import TransposedTemplate
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.matmul.matmul import attention_template, matmul_template
from daedal.compiler.ops.accelerator.tiles.template import Template
from daedal.compiler.ops.accelerator.vector.append import append_function, append_template
from daedal.compiler.ops.accelerator.vector.builders import (
    VECTOR_BUILDERS,
    build_max_pool,
    build_permute,
)
from daedal.compiler.ops.accelerator.vector.row_builders import build_norm
from daedal.compiler.ops.attention import attention_weights, weighted_mean
from daedal.compiler.ops.matmul import matmul
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import LoadMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = [
    "any_space_of",
    "buildable_space_of",
    "keeps_values",
    "lower_node",
    "multiplications",
    "space_of",
]


def lower_node(
    graph: Graph, node: Node, variant: Variant, config: Config | None = None
) -> list[ScheduledFunction]:
    """Build the tensor expression of `node` and schedule it for the accelerator.

    A transposed convolution becomes several functions that run in sequence, any other node one. The
    tensors of a function are those of the graph.

    Parameters
    ----------
    config : of its space (`space_of`); the default one if None.

    Raises
    ------
    ScheduleError
        No tile of it fits the scratchpads, or `config` is not of its space.
    """
    if node.op == Q_APPEND.name:
        return [append_function(graph, node, variant, config)]
    names = _parameter_names(node)
    tensors = dict(zip(names, (*node.inputs, node.output), strict=True))
    if node.op != _TRANSPOSED:
        template, views = _template(graph, node, variant)
        parts = [(template.schedule(config), views)]
    else:
        parts = list(_transposed(graph, node, variant).schedules(config))
    return [
        ScheduledFunction(schedule, tensors, _views(views, graph, schedule, tensors, variant))
        for schedule, views in parts
    ]


def _views(
    own: Mapping[str, MemoryView],
    graph: Graph,
    schedule: Schedule,
    tensors: Mapping[str, str],
    variant: Variant,
) -> dict[str, MemoryView]:
    """A function's `own` views, and those of other maps whose rows lie in a map of more columns."""
    found = dict(own)
    for buffer in schedule.func.params:
        name = tensors[buffer.name]
        pitch = row_pitch(graph, name)
        if pitch and buffer.name not in own:
            found[buffer.name] = columns_view(buffer.shape, graph.types[name], pitch, variant)
    return found


def space_of(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> LayerSpace | None:
    """The configurations of a layer that the compiler can build; None if it has only one schedule.
    Its default and its estimates are for `memory`.

    Raises ScheduleError where the variant's array cannot hold its operands.
    """
    space = buildable_space_of(graph, node, variant, memory)
    rows = len(next(iter(space.all().values())))
    return space if rows > 1 else None


def buildable_space_of(
    graph: Graph, node: Node, variant: Variant, memory: MemoryModel = DDR
) -> BuildableSpace:
    """As `any_space_of`, without the configurations that take too many instructions; for
    `memory`."""

    def counts(variant: Variant, config: Config) -> list[int]:
        functions = lower_node(graph, node, variant, config)
        return [count_instructions(item.schedule.func, variant, item.views) for item in functions]

    return BuildableSpace(any_space_of(graph, node, variant), variant, counts, memory)


def any_space_of(graph: Graph, node: Node, variant: Variant) -> LayerSpace:
    """The configurations of a layer that fit the scratchpads, if only one or none.

    Raises ScheduleError as `space_of`.
    """
    if node.op == _TRANSPOSED:
        return _transposed(graph, node, variant).space
    template, _ = _template(graph, node, variant)
    return template.space


def _transposed(graph: Graph, node: Node, variant: Variant) -> TransposedTemplate:
    x_shape = map_shape(graph.types[node.inputs[0]], variant.array.block_in)
    return TransposedTemplate(graph, node, variant, x_shape, bounds_of(node))


def _template(
    graph: Graph, node: Node, variant: Variant
) -> tuple[Template, Mapping[str, MemoryView]]:
    """The schedules of a layer that is one function, and memory views of its parameters."""
    if node.op == Q_APPEND.name:
        return append_template(graph, node, variant), {}
    node = _with_bounds_of_results(graph, node, variant)
    names = _parameter_names(node)
    if isinstance(graph.types[node.inputs[0]].layout, RowStreamLayout):
        others = _placeholders(graph, node, names[2:], node.inputs[2:], variant)
        return stream_conv2d_template(graph, node, variant, others)
    groups = _dense_parts(graph, node)
    operands = _placeholders(graph, node, names, node.inputs, variant, groups)
    if node.op in MATMULS:
        return _MATMUL_BUILDERS[node.op](operands, node, variant), {}
    if node.op in VECTOR_BUILDERS:
        build = VECTOR_BUILDERS[node.op]
        if keeps_values(graph, node):
            build = partial(build_max_pool, keeps_values=True)
        if build is build_permute:
            build = partial(build_permute, shape=graph.types[node.inputs[0]].shape)
        if build is build_norm:
            channels = graph.types[node.inputs[0]].shape[1]
            build = partial(build_norm, padded=channels % variant.block > 0)
        return build(operands, node, variant), {}
    layout = graph.types[node.inputs[1]].layout
    narrow = narrow_weights(graph, node, variant)
    views = {names[1]: _narrow_view(operands[1], variant)} if narrow else {}
    if isinstance(layout, DepthwiseLayout):
        width = layout.kernel[1]
        template = depthwise_template(operands, node, variant, kernel_width=width, narrow=narrow)
        return template, views
    return conv2d_template(operands, node, variant, groups=groups, narrow=narrow), views


def _narrow_view(weights: te.Tensor, variant: Variant) -> MemoryView:
    """Weights with 4 bits in memory: rows of half the bus words, without gaps."""
    *outer, vectors, _ = weights.shape
    beats = memory_beats(variant, LoadMemory.WGT_NARROW)
    strides = tuple(beats * prod(outer[dim + 1 :]) for dim in range(len(outer)))
    rows = prod(outer)
    if vectors != variant.array.block_out:
        rows = num_rows(rows, vectors, variant.array.block_out)
    return MemoryView(strides, rows * beats * variant.bus_bytes, narrow=True)


def _with_bounds_of_results(graph: Graph, node: Node, variant: Variant) -> Node:
    """`node`; if it copies elements of fewer than 8 bits, with the bounds of such results."""
    bits = variant.array.output_bits
    if bits >= 8 or not copies_elements(graph, node):
        return node
    high = (1 << (bits - 1)) - 1
    return replace(node, attrs={**node.attrs, "low": -high - 1, "high": high})


def keeps_values(graph: Graph, node: Node) -> bool:
    """Whether `node` is a maximum whose result needs no REQUANTIZE.

    Every window must have an element of the map, because padding has no value of the operand.
    """
    if node.op != "q_max_pool" or node.inputs[1] not in graph.constants:
        return False
    kernel, pads = ints(node.attrs, "kernel"), ints(node.attrs, "pads")
    reached = all(pad < extent for pad, extent in zip(pads, (*kernel, *kernel), strict=True))
    x, params = node.inputs
    return reached and changes_nothing(graph, x, graph.constant(params), node.attrs)


def _placeholders(
    graph: Graph,
    node: Node,
    names: Sequence[str],
    tensors: Sequence[str],
    variant: Variant,
    groups: int = 1,
) -> list[te.Tensor]:
    """Placeholders for the operands of `node`, one for each of `tensors`; maps are split into
    `groups`."""
    array = variant.array
    operands = []
    for name, tensor in zip(names, tensors, strict=False):
        kind = graph.types[tensor]
        is_map = isinstance(kind.layout, ActivationLayout)
        factor = name not in ("mask", "skip") and node.op in _PRODUCTS
        lanes = array.block_in if factor else array.block_out
        shape = map_shape(kind, lanes) if is_map else kind.physical_shape
        if is_map and groups > 1:
            shape = (shape[0] * groups, shape[1] // groups, *shape[2:])
        if node.op in MATMULS and name == "b":
            shape = matmul_rows(shape, variant)
        operands.append(te.placeholder(shape, kind.dtype, name))
    return operands


def map_shape(kind: TensorType, lanes: int) -> tuple[int, ...]:
    """(NB, CB, H, W, U, batch, lanes): a map's bytes as vectors of `lanes` channels."""
    *outer, batch, block = kind.physical_shape
    assert batch == 1 or lanes == block, "vectors are contiguous in memory"
    return (*outer, block // lanes, batch, lanes)


def _dense_parts(graph: Graph, node: Node) -> int:
    """Number of independent dense convolutions in a grouped one; their maps are contiguous."""
    layout = graph.types[node.inputs[1]].layout if node.op in CONVOLUTIONS else None
    return layout.parts if isinstance(layout, GroupedWeightLayout) else 1


def multiplications(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a layer by its logical shapes; 0 if it does not use GEMM."""
    if node.op not in _PRODUCTS:
        return 0
    if node.op in MATMULS:
        return graph.types[node.output].num_elements * graph.types[node.inputs[0]].shape[1]
    o, i, kh, kw = graph.types[node.inputs[1]].shape
    # Every pixel on the side where windows do not overlap is multiplied by every tap.
    pixels = node.inputs[0] if node.op == _TRANSPOSED else node.output
    n, _, h, w = graph.types[pixels].shape
    return n * o * h * w * i * kh * kw


def matmul_rows(shape: tuple[int, ...], variant: Variant) -> tuple[int, ...]:
    """(NB, CB, rows / block_out, block_out, block_in): the pixels of a map as weight rows.

    Raises
    ------
    ScheduleError
        The variant's weights and inputs differ in bits.
    """
    array = variant.array
    if array.weight_bits != array.input_bits:
        raise ScheduleError(
            "a product of two computed matrices needs weights as wide as inputs, not "
            f"{array.weight_bits} and {array.input_bits} bits (variant {variant.name!r}); choose "
            "another one"
        )
    images, blocks, height, width, _, batch, lanes = shape
    return (images, blocks, height * width * batch // array.block_out, array.block_out, lanes)


def _matmul(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    _, num_rows = correction(whole(node.attrs, "zero_point_b"))
    blocks, parts = _result_blocks(node, variant)
    y = matmul(
        *operands,
        num_blocks=blocks,
        num_rows=num_rows,
        column=correction(whole(node.attrs, "zero_point_a")),
        bounds=bounds_of(node),
        parts=parts,
        accumulator=accumulator_dtype(variant),
    )
    return matmul_template(te.create_prim_func(operands, [y], node.output), variant)


def _attention_weights(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    a, b, _, *others = operands
    blocks, parts = _result_blocks(node, variant)
    y = attention_weights(
        a,
        b,
        *others,
        mask_factor=whole(node.attrs, "mask_factor"),
        num_blocks=blocks,
        column=correction(whole(node.attrs, "zero_point_a")),
        parts=parts,
        accumulator=accumulator_dtype(variant),
    )
    return attention_template(te.create_prim_func(operands, [y], node.output), variant)


def _weighted_mean(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    blocks, parts = _result_blocks(node, variant)
    y = weighted_mean(
        *operands,
        sum_bits=whole(node.attrs, "sum_bits"),
        num_blocks=blocks,
        bounds=bounds_of(node),
        parts=parts,
        accumulator=accumulator_dtype(variant),
    )
    return attention_template(te.create_prim_func(operands, [y], node.output), variant)


def _result_blocks(node: Node, variant: Variant) -> tuple[int, int]:
    """Blocks of rows of b that are channels of a product of maps, and how many of them are a block
    of its layout."""
    parts = variant.block // variant.array.block_out
    return -(-whole(node.attrs, "columns") // variant.block) * parts, parts


_MATMUL_BUILDERS: Mapping[str, Builder] = {
    Q_MATMUL.name: _matmul,
    ATTENTION_WEIGHTS.name: _attention_weights,
    WEIGHTED_MEAN.name: _weighted_mean,
}

_TRANSPOSED = "q_conv_transpose2d"

_PRODUCTS = (*CONVOLUTIONS, _TRANSPOSED, *MATMULS)
"""Operators of the GEMM core: their inputs are vectors of its block_in channels, those of a fused
operator apart."""


def _parameter_names(node: Node) -> tuple[str, ...]:
    """Names of the function's parameters, the result last."""
    names = get_op(node.op).operands
    if get_op(node.op).variadic:
        first, *rest = names
        count = len(node.inputs) - len(rest)
        names = (*(f"{first}{number}" for number in range(count)), *rest)
    return (*names[: len(node.inputs)], "y")
