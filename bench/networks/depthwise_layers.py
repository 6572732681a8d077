"""The depthwise layers of MobileNet, each alone on the RTL: cycles against their bar.

    python bench/networks/depthwise_layers.py [--layer NAME ...] [--variant V]
        [--device native|timing]
                                     [--json F]

Every layer is compiled as a network of its own, with random weights, and its bytes are compared
with a reference in numpy that shares no code with the compiler. A layer passes where the bytes are
equal and its cycles at most `BAR` times the longer of its tap cycles (products of the depthwise
mode, padding included) and the cycles that its bytes take on the bus, each moved once. Exit status
1 where one does not. `--device timing` takes the cycle model and the functional simulator instead.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import bytes_moved
from bench.json_file import write_json
from bench.networks.reference import convolution
from bench.qdq_model import QdqModel
from daedal.common.errors import UserError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.window_extents import output_extent
from daedal.compiler.pipeline import CompiledGraph, compile_graph
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.timing.device import timing_with_values

__all__ = ["BAR", "LAYERS", "DepthwiseLayer", "DepthwiseRow", "depthwise_model", "depthwise_rows"]

BAR = 1.25
"""Cycles allowed, as a multiple of the roofline."""

KERNEL = 3
PARAMETER_BYTES = 8
"""Bias, multiplier and shift of a channel, as every roofline counts them."""

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DepthwiseLayer:
    """A 3x3 depthwise convolution of a square map with one pixel of padding around it.

    Source: Howard et al., "MobileNets", arXiv:1704.04861, table 1.
    """

    name: str
    size: int
    channels: int
    stride: int

    @property
    def output_size(self) -> int:
        """Rows and columns of the result."""
        return output_extent(self.size, KERNEL, self.stride, (1, 1))

    def tap_cycles(self, variant: Variant) -> int:
        """Products in depthwise mode: some taps of one vector of channels in a cycle."""
        vectors = -(-self.channels // variant.array.block_out) * self.output_size**2
        return vectors * KERNEL * -(-KERNEL // variant.array.depthwise_taps)

    @property
    def bytes_once(self) -> int:
        """Bytes of the input rows that windows touch, weights, outputs and parameters, once."""
        rows = min(self.size, (self.output_size - 1) * self.stride + KERNEL - 1)
        pixels = rows * self.size + self.output_size**2
        return self.channels * (pixels + KERNEL * KERNEL + PARAMETER_BYTES)


LAYERS = (
    DepthwiseLayer("D1", 112, 32, 1),
    DepthwiseLayer("D2", 112, 64, 2),
    DepthwiseLayer("D3", 56, 128, 1),
    DepthwiseLayer("D4", 56, 128, 2),
    DepthwiseLayer("D5", 28, 256, 1),
    DepthwiseLayer("D6", 28, 256, 2),
    DepthwiseLayer("D7", 14, 512, 1),
    DepthwiseLayer("D8", 14, 512, 2),
    DepthwiseLayer("D9", 7, 1024, 1),
)


@dataclass(frozen=True)
class DepthwiseRow:
    """What one layer took; `bytes_wrong` of its outputs differ from the reference."""

    layer: str
    cycles: int
    tap_cycles: int
    bytes_once: int
    bytes_moved: int
    bar_cycles: float
    share_of_roofline: float
    bytes_wrong: int
    passed: bool


def depthwise_rows(
    device: Device, layers: Sequence[DepthwiseLayer] = LAYERS
) -> Iterator[DepthwiseRow]:
    """Compile each layer for the device's variant, run it, compare and count."""
    variant = device.variant
    for layer in layers:
        model, weights = depthwise_model(layer)
        compiled = compile_graph(load_onnx(model.SerializeToString()), variant)
        rng = np.random.default_rng(layer.size)
        x = rng.integers(-128, 128, (1, layer.channels, layer.size, layer.size))
        loaded = LoadedProgram.place(compiled.launch.program, device)
        (given,), (result,) = compiled.launch.program.inputs, compiled.launch.program.outputs
        outputs, profile = loaded.run({given.name: x})
        expected = convolution(
            x,
            weights,
            _parameters(compiled, layer.channels),
            stride=layer.stride,
            pad=KERNEL // 2,
            zero_points=(ZERO_POINT, ZERO_POINT),
            bounds=BOUNDS,
        )
        wrong = int(np.count_nonzero(outputs[result.name] != expected))
        assert profile.cycles is not None, f"{device.name} counts cycles"
        taps = layer.tap_cycles(variant)
        roofline = max(taps, layer.bytes_once / variant.bus_bytes)
        yield DepthwiseRow(
            layer.name,
            profile.cycles,
            taps,
            layer.bytes_once,
            bytes_moved(profile, compiled.launch.program),
            BAR * roofline,
            roofline / profile.cycles,
            wrong,
            not wrong and profile.cycles <= BAR * roofline,
        )


ZERO_POINT = -128
"""Of both maps, as after ReLU6."""

BOUNDS = (-128, 100)
"""What ReLU6 leaves of the outputs' range."""


def depthwise_model(layer: DepthwiseLayer) -> tuple[onnx.ModelProto, Array]:
    """The layer between int8 maps x and y, and its weights (C, KERNEL, KERNEL)."""
    rng = np.random.default_rng(layer.size * layer.channels + layer.stride)
    maker = QdqModel()
    x = maker.input("x", (1, layer.channels, layer.size, layer.size), "int8")
    weights = rng.integers(-127, 128, (layer.channels, 1, KERNEL, KERNEL)).astype(np.int8)
    scales = rng.uniform(0.005, 0.02, layer.channels).astype(np.float32)
    bias = rng.integers(-2000, 2000, layer.channels)
    scale = np.float32(0.02)
    y = maker.op(
        "Conv",
        maker.dequantize(x, float(scale), ZERO_POINT),
        maker.weights(weights, scales),
        maker.bias(bias, scales * scale),
        group=layer.channels,
        strides=[layer.stride, layer.stride],
        pads=[1, 1, 1, 1],
        kernel_shape=[KERNEL, KERNEL],
    )
    high = maker.constant(np.float32((BOUNDS[1] - ZERO_POINT) * 0.05))
    y = maker.op("Clip", y, maker.constant(np.float32(0)), high)
    maker.quantize(y, 0.05, ZERO_POINT, output="y")
    return maker.model("y", dtype="int8"), weights[:, 0].astype(np.int64)


def _parameters(compiled: CompiledGraph, channels: int) -> Array:
    """Bias, multiplier and shift of each channel: (C, 3)."""
    (node,) = compiled.launch.graph.nodes
    return compiled.launch.graph.constant(node.inputs[-1]).reshape(-1, 3)[:channels]


def main() -> int:
    """Measure, print a line per layer, write the file; 1 where a layer misses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [layer.name for layer in LAYERS]
    parser.add_argument("--layer", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--variant", default="vta", metavar="V")
    parser.add_argument("--device", default="native", choices=("native", "timing"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        variant = load_variant(options.variant)
        rtl = options.device == "native"
        device = RtlDevice(variant, report=show) if rtl else timing_with_values(variant)
        rows = []
        layers = [layer for layer in LAYERS if layer.name in options.layer]
        for row in depthwise_rows(device, layers):
            rows.append(row)
            print(_line(row), flush=True)
    except UserError as error:
        print(f"bench/networks/depthwise_layers.py: {error}", file=sys.stderr)
        return 2
    content = {"variant": variant.name, "rows": [asdict(row) for row in rows]}
    write_json(options.json, content)
    return int(not all(row.passed for row in rows))


def show(text: str) -> None:
    """Report a long step beside the table."""
    print(text, file=sys.stderr, flush=True)


def _line(row: DepthwiseRow) -> str:
    """One layer for the eye."""
    return (
        f"{row.layer}: {row.cycles:8,} cycles, {row.tap_cycles:8,} taps, {row.bytes_once:9,} bytes "
        f"once, {row.bytes_moved:9,} moved; {row.share_of_roofline:6.1%} of roofline, "
        f"bar {row.bar_cycles:9,.0f}; {row.bytes_wrong} bytes wrong"
        f"{'' if row.passed else '  MISSED'}"
    )


if __name__ == "__main__":
    sys.exit(main())
