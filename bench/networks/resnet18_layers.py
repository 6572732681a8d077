"""ResNet-18's convolutions on the RTL, each alone.

    python bench/networks/resnet18_layers.py [--json F]

Every layer's bytes are checked against numpy. Bars, on variant `vta` with memory preset `ddr`:

- the sum over the layers, with multiplicity, and each layer's share of its roofline: padded with 0,
  whose products the compiler leaves out (shares over 100 % are possible), and with -128;
- what hiding latency is worth: one thread, buffers in one place and tiles chosen for that, over
  the default, with the cycles in which the multipliers wait;
- the depthwise layers of MobileNet (`bench.networks.depthwise_layers`);
- four layers on `wide` against its own roofline; the same on `int16` and `batch4`, right;
- processor time to compile one layer.

Exit status 1 when a bar is missed or a byte is wrong.
"""

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.networks.conv_layers import LAYERS, ConvLayer, LayerProgram
from bench.networks.depthwise_layers import depthwise_rows
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.space import ConvSpace, decode
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.timing.device import TimingDevice

__all__ = ["LayerRow", "main"]

SUM_BAR = 7_000_000
SHARE_BARS = {(3, 1): 0.93, (3, 2): 0.88, (1, 2): 0.75}
"""Share of the roofline by kernel and stride."""
OVERLAP_BAR = 1.15
OTHER_VARIANTS = {"wide": 0.85, "int16": None, "batch4": None}
"""Share of its own roofline that a variant must reach, where there is a bar."""
OTHER_LAYERS = ("C2", "C5", "C8", "C11")
COMPILE_BAR_SECONDS = 1.0
ZERO_POINTS = (0, -128)
SERIAL_CANDIDATES = 8
"""Tiles that are tried without overlap: the best of them is what overlap is compared with."""


@dataclass(frozen=True)
class LayerRow:
    """One layer on one variant."""

    variant: str
    layer: str
    count: int
    zero_point: int
    cycles: int
    roofline: int
    share: float
    bar: float | None
    bytes_wrong: int
    compile_seconds: float
    waits: dict[str, int]

    @property
    def passed(self) -> bool:
        """Whether the bytes are right and the bars hold."""
        fast = self.bar is None or self.share >= self.bar
        return fast and not self.bytes_wrong and self.compile_seconds < COMPILE_BAR_SECONDS


def measure_layer(layer: ConvLayer, device: Device, bar: float | None, zero_point: int) -> LayerRow:
    """Compile and run one layer with the compiler's own tile."""
    program = LayerProgram(layer, device.variant, zero_point)
    profile, wrong = program.run(device)
    assert profile.cycles is not None
    roofline = layer.roofline(device.variant)
    return LayerRow(
        device.variant.name,
        layer.name,
        layer.count,
        zero_point,
        profile.cycles,
        roofline,
        roofline / profile.cycles,
        bar,
        wrong,
        program.compile_seconds,
        _waits(profile),
    )


def _waits(profile: Profile) -> dict[str, int]:
    """Cycles in which the multipliers did not multiply, by class."""
    classes = profile.units[Unit.GEMM].classes
    return {
        kind.name.lower(): count
        for kind, count in classes.items()
        if count and kind is not CycleClass.BUSY
    }


def measure_overlap(layer: ConvLayer, device: Device) -> dict[str, Any]:
    """One layer without overlap: the best tile of some, chosen with the cycle model."""
    variant = device.variant
    timing = TimingDevice(variant)
    shape = LayerProgram(layer, variant).shape
    configs = ConvSpace([shape], variant, overlap=False).ranked()[:SERIAL_CANDIDATES]
    tiles = [decode(config, shape)[1] for config in configs]

    def compiled(tile: ConvTile) -> LayerProgram:
        return LayerProgram(layer, variant, tile=tile, renaming=False)

    best = min((compiled(tile) for tile in tiles), key=lambda item: item.count(timing))
    profile, wrong = best.run(device)
    return {
        "layer": layer.name,
        "serial_cycles": profile.cycles,
        "bytes_wrong": wrong,
        "waits": _waits(profile),
    }


def measure(say: Callable[[str], None], native: Callable[[Variant], Device]) -> dict[str, Any]:
    """Everything; keys ``layers``, ``overlap``, ``depthwise``."""
    vta = native(load_variant("vta"))
    rows = []
    for zero_point in ZERO_POINTS:
        for layer in LAYERS:
            say(f"{layer.name}, padded with {zero_point}")
            bar = SHARE_BARS[layer.kernel, layer.stride]
            rows.append(measure_layer(layer, vta, bar, zero_point))
    overlap = []
    for layer, row in zip(LAYERS, rows, strict=False):
        say(f"{layer.name} without overlap")
        found = measure_overlap(layer, vta)
        ratio = found["serial_cycles"] / row.cycles
        overlap.append({**found, "cycles": row.cycles, "ratio": ratio, "waits_hidden": row.waits})
    say("depthwise layers")
    depthwise = list(depthwise_rows(vta))
    for name, bar in OTHER_VARIANTS.items():
        device = native(load_variant(name))
        for layer in LAYERS:
            if layer.name in OTHER_LAYERS:
                say(f"{layer.name} on {name}")
                rows.append(measure_layer(layer, device, bar, -128))
    return {"layers": rows, "overlap": overlap, "depthwise": depthwise}


def judge(found: dict[str, Any]) -> dict[str, Any]:
    """The figures that have bars over several layers."""
    rows = found["layers"]
    sums = {
        zero_point: sum(
            row.count * row.cycles
            for row in rows
            if row.variant == "vta" and row.zero_point == zero_point
        )
        for zero_point in ZERO_POINTS
    }
    ratios = [item["ratio"] for item in found["overlap"]]
    geomean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    passed = (
        all(row.passed for row in rows)
        and all(row.passed for row in found["depthwise"])
        and not any(item["bytes_wrong"] for item in found["overlap"])
        and all(total <= SUM_BAR for total in sums.values())
        and geomean >= OVERLAP_BAR
    )
    return {"sum_cycles": sums, "overlap_geomean": geomean, "passed": passed}


def show(console: Console, found: dict[str, Any], figures: dict[str, Any]) -> None:
    """Tables of everything."""
    table = Table("variant", "layer", "pad", "cycles", "roofline", "share", "bar", "wrong", "s", "")
    for row in found["layers"]:
        table.add_row(
            row.variant,
            f"{row.layer} x{row.count}",
            str(row.zero_point),
            f"{row.cycles:,}",
            f"{row.roofline:,}",
            f"{row.share:.1%}",
            "" if row.bar is None else f"{row.bar:.0%}",
            str(row.bytes_wrong),
            f"{row.compile_seconds:.2f}",
            "" if row.passed else "missed",
        )
    console.print(table)
    table = Table("layer", "no overlap", "default", "ratio", "GEMM waits without", "and with")
    for item in found["overlap"]:
        table.add_row(
            item["layer"],
            f"{item['serial_cycles']:,}",
            f"{item['cycles']:,}",
            f"{item['ratio']:.2f}",
            *(
                ", ".join(f"{kind} {count:,}" for kind, count in item[key].items())
                for key in ("waits", "waits_hidden")
            ),
        )
    console.print(table)
    table = Table("layer", "cycles", "taps", "bar", "share", "wrong", "")
    for row in found["depthwise"]:
        table.add_row(
            row.layer,
            f"{row.cycles:,}",
            f"{row.tap_cycles:,}",
            f"{row.bar_cycles:,.0f}",
            f"{row.share_of_roofline:.1%}",
            str(row.bytes_wrong),
            "" if row.passed else "missed",
        )
    console.print(table)
    for zero_point, total in figures["sum_cycles"].items():
        console.print(f"C2..C11, padded with {zero_point}: {total:,} cycles (bar {SUM_BAR:,})")
    ratio = figures["overlap_geomean"]
    console.print(f"hiding latency: {ratio:.3f} times as fast (bar {OVERLAP_BAR})")


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    console = Console(stderr=True)

    def native(variant: Variant) -> Device:
        return RtlDevice(variant, report=console.log)

    found = measure(console.log, native)
    figures = judge(found)
    show(Console(width=150), found, figures)
    content = {
        **figures,
        "layers": [{**asdict(row), "passed": row.passed} for row in found["layers"]],
        "overlap": found["overlap"],
        "depthwise": [asdict(row) for row in found["depthwise"]],
    }
    write_json(options.json, content)
    return int(not figures["passed"])


if __name__ == "__main__":
    sys.exit(main())
