"""Whole networks on the accelerator.

    python bench/networks/networks.py [NETWORK ...] [--rtl] [--json F]

The ten networks of `bench.zoo`, quantized, on one variant with memory preset `ddr`. For each: share
of the multiply-accumulates on the accelerator, launches, instructions, cycles on the cycle model
and with `--rtl` on the native RTL, every byte of every layer against the integer reference,
processor time to compile beside a calibration kernel, peak memory of the plan against the largest
live set, each layer's share of its roofline, and layers, cycles and bytes moved without fusion.

Exit status 1 when a bar is missed or a network fails; 2 for a mistake on the command line.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.networks.network_row import COMPILE_BARS, NetworkRow
from bench.networks.network_run import NetworkBench
from bench.speed import REPETITIONS
from bench.zoo.images import images
from bench.zoo.networks import NETWORKS, Network
from bench.zoo.quantized import quantized
from daedal.common.errors import UserError
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import RtlDevice

__all__ = ["main", "run_networks"]

ROOT = Path(__file__).resolve().parents[2]
IMAGE_SEED = 17
"""Of the image that runs: none of those that the networks were calibrated with."""
RTL_NETWORKS = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2")
"""What `--rtl` runs on the RTL, too."""
SLOWEST = 3
"""Layers of a network that are shown: those that lose the most cycles against their roofline."""


def run_networks(
    bench: NetworkBench, networks: Sequence[Network], keep: Callable[[list[NetworkRow]], None]
) -> list[NetworkRow]:
    """Measure one after the other; `keep` gets what there is after each. An interrupt ends it."""
    rows: list[NetworkRow] = []
    try:
        for network in networks:
            compilations = REPETITIONS if network.name in COMPILE_BARS else 1
            on_rtl = network.name in RTL_NETWORKS
            rows.append(bench.measure(network, compilations=compilations, on_rtl=on_rtl))
            keep(rows)
    except KeyboardInterrupt:
        bench.say(f"interrupted after {len(rows)} of {len(networks)} networks")
    return rows


def show(console: Console, rows: Sequence[NetworkRow]) -> None:
    """Tables: networks, with and without fusion, the layers that lose most, and the bars."""
    heads = "network MACs,M on,acc. launches instructions cycles peak roofline RTL memory bound s"
    table = Table(*(head.replace(",", " ") for head in heads.split()))
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    heads = ("network", "layers unfused", "fused", "cycles unfused", "fused", "", "bytes unfused")
    table = Table(*heads, "fused", "")
    for row in rows:
        if not row.error:
            table.add_row(*_fusion(row))
    console.print(table)
    table = Table("network", "layer", "operator", "cycles", "roofline", "share", "bound")
    for row in rows:
        for layer in _slowest(row):
            table.add_row(
                row.title,
                layer["name"],
                layer["op"],
                f"{layer['cycles']:,}",
                f"{layer['roofline_cycles']:,.0f}",
                f"{layer['roofline_share']:.0%}",
                layer["bound"],
            )
    console.print(table)
    table = Table("network", "what", "found", "bar", "")
    for row in rows:
        for item in row.verdicts():
            table.add_row(
                row.title, item.what, item.found, item.bar, "" if item.passed else "missed"
            )
    console.print(table)


def _cells(row: NetworkRow) -> list[str]:
    if row.error:
        return [row.title, "failed"]
    return [
        row.title,
        f"{row.macs / 1e6:,.0f}",
        f"{row.accelerator_share:.2%}",
        str(row.launches),
        f"{row.instructions:,}",
        f"{row.cycles:,}",
        f"{row.peak_share:.1%}",
        f"{row.roofline_share:.1%}",
        "" if row.rtl_cycles is None else f"{row.rtl_cycles:,}",
        f"{row.peak_bytes:,}",
        f"{row.bound_bytes:,}",
        f"{row.seconds:.1f}",
    ]


def _fusion(row: NetworkRow) -> list[str]:
    """What operators take alone and fused, and the share that is left."""
    before, after = row.unfused, row.fused
    return [
        row.title,
        f"{before.layers}",
        f"{after.layers}",
        f"{before.cycles:,}",
        f"{after.cycles:,}",
        f"{after.cycles / before.cycles:.1%}",
        f"{before.bytes_moved:,}",
        f"{after.bytes_moved:,}",
        f"{after.bytes_moved / before.bytes_moved:.1%}",
    ]


def _slowest(row: NetworkRow) -> list[dict[str, Any]]:
    return sorted(row.layers, key=lambda layer: layer["roofline_cycles"] - layer["cycles"])[
        :SLOWEST
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 where a bar is missed or not everything was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--variant", default="vta", metavar="NAME")
    parser.add_argument("--rtl", action="store_true", help="run some on the native RTL, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    unknown = set(options.networks) - NETWORKS.keys()
    if unknown:
        parser.error(f"a network must be one of {', '.join(NETWORKS)}, not {min(unknown)}")
    chosen = [NETWORKS[name] for name in options.networks or NETWORKS]
    console = Console(stderr=True)

    def keep(rows: list[NetworkRow]) -> None:
        document = {"networks": [row.to_json() for row in rows]}
        write_json(options.json, document)

    try:
        variant = load_variant(options.variant)
        rtl = RtlDevice(variant, report=console.log) if options.rtl else None
    except UserError as error:
        console.print(f"bench/networks/networks.py: {error}")
        return 2
    image = images(np.random.default_rng(IMAGE_SEED), 1)
    bench = NetworkBench(
        variant, image, lambda network: quantized(network, report=console.log), console.log, rtl
    )
    rows = run_networks(bench, chosen, keep)
    show(Console(width=160), rows)
    return int(len(rows) < len(chosen) or not all(row.passed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
