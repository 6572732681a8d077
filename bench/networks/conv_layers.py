"""Convolutions of ResNet-18, one layer to a program: shapes, rooflines, compiling, running.

Source: He et al., arXiv:1512.03385, table 1, each distinct convolution of the 18-layer network.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bench.networks.reference import convolution
from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype, element_dtype
from daedal.compiler.graph.window_extents import output_extent
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.ops.accelerator.conv.conv2d import schedule_conv2d
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.template import ConvTemplate
from daedal.compiler.ops.conv2d import Gather, conv2d
from daedal.compiler.ops.requantize import Bounds
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice

__all__ = ["LAYERS", "ConvLayer", "LayerProgram"]

PARAMETER_BYTES = 8
"""Bias, multiplier and shift of a channel, as every roofline counts them."""


@dataclass(frozen=True)
class ConvLayer:
    """A square convolution, `count` times in the network."""

    name: str
    count: int
    size: int
    channels: tuple[int, int]
    kernel: int
    stride: int

    @property
    def output_size(self) -> int:
        """Rows and columns of the result; pads are half the kernel on each side."""
        pad = self.kernel // 2
        return output_extent(self.size, self.kernel, self.stride, (pad, pad))

    def mac_cycles(self, variant: Variant) -> int:
        """Products with padding over what the array multiplies in a cycle, for a full batch."""
        inner, outer = self.channels
        macs = self.output_size**2 * inner * outer * self.kernel**2
        return macs // (variant.array.block_in * variant.array.block_out)

    def memory_cycles(self, variant: Variant) -> int:
        """Cycles of the bus for input rows touched, weights, outputs and parameters, once."""
        inner, outer = self.channels
        rows = self.size if self.kernel > 1 else self.output_size
        pixels = rows * self.size * inner + self.output_size**2 * outer
        elements = variant.array.batch * pixels + inner * outer * self.kernel**2
        size = elements * variant.array.input_bits // 8 + PARAMETER_BYTES * outer
        return size // variant.bus_bytes

    def roofline(self, variant: Variant) -> int:
        """The least cycles that a machine could take that makes the products with padding too."""
        return max(self.mac_cycles(variant), self.memory_cycles(variant))


LAYERS = (
    ConvLayer("C2", 4, 56, (64, 64), 3, 1),
    ConvLayer("C3", 1, 56, (64, 128), 3, 2),
    ConvLayer("C4", 1, 56, (64, 128), 1, 2),
    ConvLayer("C5", 3, 28, (128, 128), 3, 1),
    ConvLayer("C6", 1, 28, (128, 256), 3, 2),
    ConvLayer("C7", 1, 28, (128, 256), 1, 2),
    ConvLayer("C8", 3, 14, (256, 256), 3, 1),
    ConvLayer("C9", 1, 14, (256, 512), 3, 2),
    ConvLayer("C10", 1, 14, (256, 512), 1, 2),
    ConvLayer("C11", 3, 7, (512, 512), 3, 1),
)


class LayerProgram:
    """One layer with random operands, compiled for a variant.

    Parameters
    ----------
    zero_point : of the input map: what it is padded with.
    tile : the compiler's choice where not given.
    renaming : as `daedal.compiler.link.link` has it.
    """

    def __init__(
        self,
        layer: ConvLayer,
        variant: Variant,
        zero_point: int = 0,
        tile: ConvTile | None = None,
        renaming: bool = True,
    ) -> None:
        self.layer = layer
        self.variant = variant
        self._zero_point = zero_point
        array = variant.array
        inner, outer = layer.channels
        rng = np.random.default_rng(layer.size * inner + outer)
        limit = 1 << (array.weight_bits - 1)
        self._weights = rng.integers(-limit + 1, limit, (outer, inner, layer.kernel, layer.kernel))
        self._params = _random_params(rng, outer, inner * layer.kernel**2, variant)
        limit = 1 << (array.input_bits - 1)
        self._x = rng.integers(-limit, limit, (array.batch, inner, layer.size, layer.size))
        self._bounds = Bounds(3, -limit, limit - 1)
        begin = time.process_time()
        self.program = self._compile(tile, renaming)
        self.compile_seconds = time.process_time() - begin

    def _compile(self, tile: ConvTile | None, renaming: bool) -> Program:
        """Tensor expression, schedule, code, tokens, verification."""
        layer, array, variant = self.layer, self.variant.array, self.variant
        inner, outer = layer.channels
        parts, block = variant.block // array.block_in, variant.block
        x_shape = (1, inner // block, layer.size, layer.size, parts, array.batch, array.block_in)
        blocks = (outer // array.block_out, inner // array.block_in)
        w_shape = (*blocks, layer.kernel, layer.kernel, array.block_out, array.block_in)
        x = te.placeholder(x_shape, element_dtype(array.input_bits), "x")
        w = te.placeholder(w_shape, element_dtype(array.weight_bits), "w")
        params = te.placeholder((blocks[0], array.block_out, 3), "int64", "params")
        strides, pads = (layer.stride, layer.stride), (layer.kernel // 2,) * 4

        def build(gather: Gather | None) -> tuple[PrimFunc, ConvShape]:
            y = conv2d(
                x,
                w,
                params,
                strides=strides,
                pads=pads,
                dilations=(1, 1),
                pad_value=self._zero_point,
                bounds=self._bounds,
                accumulator=accumulator_dtype(variant),
                gather=gather,
            )
            func = te.create_prim_func([x, w, params], [y], layer.name)
            shape = ConvShape.of(x, w, y, strides, (1, 1), pads, self._zero_point, gather=gather)
            return func, shape

        func, self.shape = build(None)
        schedule = (
            ConvTemplate(build, variant).schedule()
            if tile is None
            else schedule_conv2d(func, self.shape, variant, tile)
        )
        weights = self._weights.reshape(
            blocks[0], array.block_out, blocks[1], array.block_in, layer.kernel, layer.kernel
        ).transpose(0, 2, 4, 5, 1, 3)
        given = TensorSpec("x", 0, 0, self._x.shape, array.input_bits, array.batch, block)
        result = (array.batch, outer, layer.output_size, layer.output_size)
        return ProgramBuilder(variant, renaming).build(
            schedule,
            constants={
                "w": weight_bytes(variant, weights),
                "params": parameter_bytes(variant, self._params.reshape(params.shape)),
            },
            inputs=[given],
            outputs=[replace(given, name="y", shape=result)],
        )

    def count(self, device: TimingDevice) -> int:
        """Cycles by the cycle model."""
        loaded = LoadedProgram.place(self.program, device)
        return device.launch(self.program, loaded.bases).cycles or 0

    def run(self, device: Device) -> tuple[Profile, int]:
        """What the device counted, and how many outputs differ from numpy's."""
        loaded = LoadedProgram.place(self.program, device)
        outputs, profile = loaded.run({"x": self._x})
        expected = convolution(
            self._x,
            self._weights,
            self._params,
            stride=self.layer.stride,
            pad=self.layer.kernel // 2,
            zero_points=(self._zero_point, self._bounds.zero_point),
            bounds=(self._bounds.low, self._bounds.high),
        )
        return profile, int(np.count_nonzero(outputs["y"] != expected))


def _random_params(
    rng: np.random.Generator, channels: int, terms: int, variant: Variant
) -> npt.NDArray[np.int64]:
    """Bias, multiplier and shift that spread the sums of `terms` products over the outputs."""
    array = variant.array
    multiplier_bits = variant.units.multiplier_bits
    sum_bits = array.input_bits + array.weight_bits - 2 + int(np.log2(terms)) // 2
    shift = sum_bits + multiplier_bits - array.output_bits
    bias = rng.integers(-(1 << sum_bits) // 4, (1 << sum_bits) // 4, channels)
    multiplier = rng.integers(1 << (multiplier_bits - 1), 1 << multiplier_bits, channels)
    shifts = rng.integers(shift - 1, shift + 1, channels)
    return np.stack([bias, multiplier, shifts], axis=-1)
