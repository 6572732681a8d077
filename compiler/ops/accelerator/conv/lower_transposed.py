"""`TransposedTemplate`: a transposed convolution as dense ones, each storing its own rows."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.graph.aliases import row_pitch
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.ops.sub_kernels import SubKernel
from daedal.compiler.graph.sub_kernel_layout import SubKernelLayout
from daedal.compiler.ops.accelerator.conv.conv2d import schedule_conv2d
from daedal.compiler.ops.accelerator.conv.parts_space import PartsSpace
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import ConvSpace, decode
from daedal.compiler.ops.conv2d import conv2d
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["TransposedTemplate"]


@dataclass(frozen=True)
class _Part:
    """One of the dense convolutions, and memory views into the node's tensors."""

    func: PrimFunc
    shape: ConvShape
    views: Mapping[str, MemoryView]


class TransposedTemplate:
    """The schedules of a transposed convolution.

    Parameters
    ----------
    x_shape : (NB, CB, H, W, U, batch, block_in) of the input.
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        variant: Variant,
        x_shape: tuple[int, ...],
        bounds: Bounds,
    ) -> None:
        self._variant = variant
        self._parts = list(_parts(graph, node, variant, x_shape, bounds))

    @cached_property
    def space(self) -> PartsSpace:
        """Its configurations. Raises ScheduleError if no tile of a part fits the scratchpads."""
        return PartsSpace(
            [ConvSpace([part.shape], self._variant, strided=True) for part in self._parts]
        )

    def schedules(
        self, config: Config | None = None
    ) -> Iterator[tuple[Schedule, Mapping[str, MemoryView]]]:
        """The schedule of each dense convolution with its views; the default ones if None.

        Raises
        ------
        ScheduleError
            No tile of one fits the scratchpads, or the configuration is none of `space`.
        """
        own = [None] * len(self._parts) if config is None else self.space.split(config)
        for part, item in zip(self._parts, own, strict=True):
            tile = None if item is None else decode(item, part.shape)[1]
            yield schedule_conv2d(part.func, part.shape, self._variant, tile), part.views


def _parts(
    graph: Graph, node: Node, variant: Variant, x_shape: tuple[int, ...], bounds: Bounds
) -> Iterator[_Part]:
    layout = graph.types[node.inputs[1]].layout
    assert isinstance(layout, SubKernelLayout)
    for number, part in enumerate(layout.parts):
        window = _window(graph, node, part)
        dilations = (part[0].dilation, part[1].dilation)
        x, w, params = _operands(graph, node, x_shape, number)
        pad_value = whole(node.attrs, "pad_value")
        y = conv2d(
            x,
            w,
            params,
            strides=(1, 1),
            pads=window,
            dilations=dilations,
            pad_value=pad_value,
            bounds=bounds,
            accumulator=accumulator_dtype(variant),
        )
        func = te.create_prim_func([x, w, params], [y], f"{node.output}.{number}")
        shape = ConvShape.of(x, w, y, (1, 1), dilations, window, pad_value)
        views = {
            "w": _dense(
                w.shape[:-2], layout.first_rows[number], layout.first_rows[-1], Memory.WGT, variant
            ),
            "params": _dense(
                params.shape[:1],
                number * params.shape[0],
                len(layout.parts) * params.shape[0],
                Memory.PAR,
                variant,
            ),
            "y": _interleaved(graph, node, part, y.shape, variant),
        }
        yield _Part(func, shape, views)


def _window(graph: Graph, node: Node, part: SubKernel) -> tuple[int, int, int, int]:
    """Pads of a dense convolution: top, left, bottom, right; negative if they crop the map."""
    size = graph.types[node.inputs[0]].shape[2:]
    (top, bottom), (left, right) = (
        axis.pads(extent) for axis, extent in zip(part, size, strict=True)
    )
    return top, left, bottom, right


def _operands(
    graph: Graph, node: Node, x_shape: tuple[int, ...], number: int
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Map, weights and parameters of a dense convolution."""
    x, w, params = (graph.types[name] for name in node.inputs)
    assert isinstance(w.layout, SubKernelLayout)
    rows = params.physical_shape[0] // len(w.layout.parts)
    return (
        te.placeholder(x_shape, x.dtype, "x"),
        te.placeholder(w.layout.part_shapes[number], w.dtype, "w"),
        te.placeholder((rows, *params.shape[1:]), params.dtype, "params"),
    )


def _dense(
    shape: tuple[int, ...], first_row: int, num_rows: int, memory: Memory, variant: Variant
) -> MemoryView:
    """A dense view of `shape` that starts at `first_row` of a tensor of `num_rows`."""
    pad = scratchpad(variant, memory)
    beats = pad.row_beats(variant)
    strides = tuple(beats * math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return MemoryView(strides, num_rows * pad.row_bytes, first_row * beats)


def _interleaved(
    graph: Graph, node: Node, part: SubKernel, shape: tuple[int, ...], variant: Variant
) -> MemoryView:
    """A strided view of the result's rows and columns."""
    pad = scratchpad(variant, Memory.OUT)
    images, blocks, _, _, vectors, _, _ = shape
    _, _, height, width = graph.types[node.output].shape
    down, right = ints(node.attrs, "strides")
    pixel = vectors * pad.row_beats(variant)
    line = (row_pitch(graph, node.output) or width) * pixel
    plane = height * line
    strides = (blocks * plane, plane, down * line, right * pixel, pad.row_beats(variant))
    offset = part[0].phase * line + part[1].phase * pixel
    beats = images * blocks * plane - line + width * pixel
    return MemoryView(strides, beats * variant.bus_bytes, offset)
