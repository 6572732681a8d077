"""Convolutions over streams of pixels, from logical operands to the machine's bytes."""

from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.instruction_count import count_instructions
from daedal.compiler.codegen.intrinsics import accumulator_dtype, element_dtype
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.windows import convolve
from daedal.compiler.graph.stream_layout import RowStreamWeightLayout
from daedal.compiler.link import LinkedProgram, link
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.ops.accelerator.conv.lower_stream import stream_view
from daedal.compiler.ops.accelerator.conv.stream import stream_template
from daedal.compiler.ops.accelerator.conv.stream_shape import StreamShape
from daedal.compiler.ops.conv2d_stream import StreamWindow, conv2d_stream
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.tir import interpreter
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.numerics import requantize
from daedal.isa.row_stream import RowStream
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from tests.support.accelerator import memory_of, random_params, spec_of

PAD_VALUE = -3
BOUNDS = Bounds(zero_point=1, low=-7, high=6)
"""Narrow, so that every variant can have them; the accumulators are exact in any case."""


@dataclass(frozen=True)
class StreamConvolution:
    """Logical shapes of a convolution, and how its input is held.

    `shape` is (N, C, H, W); `channels`, `group_rows`, `copies` and `group_step` are the stream's.
    """

    shape: tuple[int, int, int, int]
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    channels: int
    group_rows: int
    copies: int = 1
    group_step: int = 0

    @property
    def extent(self) -> tuple[int, int]:
        """Height and width of the result."""
        height, width = (
            (size + self.pads[axis] + self.pads[axis + 2] - self.kernel[axis]) // self.strides[axis]
            + 1
            for axis, size in enumerate(self.shape[2:])
        )
        return height, width

    def layouts(self, variant: Variant, beat: int) -> tuple[RowStream, RowStreamWeightLayout]:
        """How image and weights are held."""
        array = variant.array
        weights = RowStreamWeightLayout(
            array.block_out,
            array.block_in,
            variant.block,
            self.channels,
            self.group_rows,
            self.strides[1],
            beat,
            self.kernel,
        )
        stream = RowStream(
            array.batch,
            array.block_in,
            self.channels,
            self.group_rows,
            self.pads[0] % self.group_rows,
            self.pads[1],
            weights.stream_rows(self.extent[1]),
            PAD_VALUE,
            self.copies,
            self.group_step,
        )
        return stream, weights


@dataclass
class StreamCase:
    """A convolution with random operands: formula, schedule, and what numpy says of it."""

    variant: Variant
    func: PrimFunc
    scheduled: PrimFunc
    y: te.Tensor
    arrays: dict[str, np.ndarray]
    linked: LinkedProgram
    x: np.ndarray
    expected: np.ndarray

    def check(self, interpret: bool) -> None:
        """Numpy = te = loop IR before and after the schedule = the verified program."""
        (formula,) = te.evaluate_tensors([self.y], self.arrays)
        flat = memory_of(self.expected, self.variant)
        np.testing.assert_array_equal(memory_of(formula, self.variant), flat)
        if interpret:
            for func in (self.func, self.scheduled):
                found = interpreter.run(func, self.arrays)["y"]
                np.testing.assert_array_equal(found, formula)
        verify(self.linked.program)
        loaded = LoadedProgram.place(self.linked.program, FunctionalDevice(self.variant))
        loaded.run({"x": self.x})
        (spec,) = self.linked.program.outputs
        found = loaded.read_region(spec.base)[spec.offset_bytes :][: spec.size_bytes]
        np.testing.assert_array_equal(np.frombuffer(found, np.uint8), flat)


def stream_case(
    variant: Variant, rng: np.random.Generator, conv: StreamConvolution, beat: int
) -> StreamCase:
    """Build, schedule and link a convolution whose vectors begin at multiples of `beat`."""
    array = variant.array
    stream, layout = conv.layouts(variant, beat)
    limits = [1 << (bits - 1) for bits in (array.input_bits, array.weight_bits)]
    kind, weight_kind = element_dtype(array.input_bits), element_dtype(array.weight_bits)
    x = rng.integers(-limits[0], limits[0], conv.shape).astype(kind)
    w_shape = (conv.out_channels, conv.shape[1], *conv.kernel)
    w = rng.integers(-limits[1], limits[1], w_shape).astype(weight_kind)
    packed, weights = stream.pack(x), layout.pack(w)
    params = random_params(rng, len(weights), array.block_out)
    # Results spread over the bounds, whatever the widths of the operands.
    params[..., 2] += 4 + 2 * (array.input_bits - 8)

    view_shape, view = stream_view(packed.shape, beat, variant, conv.copies)
    window = StreamWindow.of(
        stream, layout, down=conv.strides[0], pad_top=conv.pads[0], extent=conv.extent
    )
    operands = [
        te.placeholder(view_shape, kind, "x"),
        te.placeholder(weights.shape, weight_kind, "w"),
        te.placeholder(params.shape, "int64", "params"),
    ]
    y = conv2d_stream(
        *operands,
        window=window,
        parts=variant.block // array.block_out,
        pad_value=PAD_VALUE,
        bounds=BOUNDS,
        accumulator=accumulator_dtype(variant),
    )
    func = te.create_prim_func(operands, [y], "stream")
    shape = StreamShape.of(*operands[:2], y, window)
    schedule = stream_template(func, shape, variant).schedule()
    segment = emit_segment(schedule.func, variant, views={"x": view})
    counted = count_instructions(schedule.func, variant, {"x": view})
    assert counted == len(segment.instructions)
    bits = array.input_bits
    linked = link(
        [segment],
        variant,
        constants={"w": weight_bytes(variant, weights), "params": parameter_bytes(variant, params)},
        inputs=[TensorSpec("x", 0, 0, conv.shape, bits, array.batch, array.block_in, stream)],
        outputs=[spec_of("y", y.shape, bits)],
    )
    arrays = {"x": _planes(packed, view_shape, beat, conv.copies), "w": weights, "params": params}
    expected = _reference(variant, conv, x, w, params)
    return StreamCase(variant, func, schedule.func, y, arrays, linked, x, expected)


def _planes(packed: np.ndarray, shape: tuple[int, ...], beat: int, copies: int) -> np.ndarray:
    """What the function reads: every plane `beat` elements later in the stream than the last."""
    blocks, planes, groups, rows, batch, lanes = shape
    streams = packed.transpose(0, 3, 1, 2, 4).reshape(blocks, batch, copies * groups, -1)
    if copies > 1:
        held = streams[..., : rows * lanes].reshape(blocks, batch, planes, groups, rows, lanes)
        return np.ascontiguousarray(held.transpose(0, 2, 3, 4, 1, 5))
    found = [
        streams[..., plane * beat : plane * beat + rows * lanes].reshape(
            blocks, batch, groups, rows, lanes
        )
        for plane in range(planes)
    ]
    return np.ascontiguousarray(np.stack(found, axis=1).transpose(0, 1, 3, 4, 2, 5))


def _reference(
    variant: Variant,
    conv: StreamConvolution,
    x: np.ndarray,
    w: np.ndarray,
    params: np.ndarray,
) -> np.ndarray:
    """The result as blocks, by a convolution of the logical operands; all images of a batch."""
    batch = variant.array.batch
    images = -(-len(x) // batch) * batch
    padded = np.full((images, *x.shape[1:]), PAD_VALUE, dtype=x.dtype)
    padded[: len(x)] = x
    outs = params.shape[0] * params.shape[1]
    weights = np.zeros((outs, *w.shape[1:]))
    weights[: len(w)] = w
    sums = convolve(
        padded.astype(np.float64), weights, conv.strides, conv.pads, (1, 1), 1, PAD_VALUE
    )
    bias, multiplier, shift = (params.reshape(-1, 3)[:, k, None, None] for k in range(3))
    values = requantize(
        sums.astype(np.int64),
        bias,
        multiplier,
        shift,
        BOUNDS.zero_point,
        BOUNDS.low,
        BOUNDS.high,
    )
    return ActivationLayout(batch, variant.block).pack(values)
