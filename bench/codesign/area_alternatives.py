"""What a variant's area buys: compares the variant with versions that change one parameter.

Input: an RTL device. Output: the cycles of the same work on each: networks, and streams of
instructions that one unit limits (`bench.networks.unit_streams`). Where the smaller machine needs
as many cycles, the cells of the larger one buy nothing.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.kept import kept, sources_digest
from bench.left_out import LeftOut
from bench.networks.starvation import fed_and_starved, networks_there
from bench.networks.unit_streams import unit_streams
from bench.networks.units import run_streams
from bench.synthesis.synth_cycles import COMPILED_BY, PACKAGES
from daedal.compiler.model import compile_model
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant
from daedal.runtime.executor import Executor
from daedal.sim.rtl.device import RtlDevice, default_cache_dir
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["ALTERNATIVES", "Alternative", "cycles_of_work", "kept_cycles"]

SOURCES = (*COMPILED_BY, "sim/rtl", "bench/networks/unit_streams.py", "bench/networks/units.py")
"""What the cycles depend on, besides the machine and the networks."""
STREAMS = ("ALU REQUANTIZE to OUT", "double-buffered, bus the busiest")


@dataclass(frozen=True)
class Alternative:
    """A variant with some parameters changed, by name."""

    label: str
    changes: Mapping[str, int | bool | str] = field(default_factory=dict)

    def of(self, variant: Variant) -> Variant:
        """The changed variant. It keeps the name; its fingerprint tells it apart."""
        return variant.replace(None, **self.changes)


ALTERNATIVES = (
    Alternative("as shipped"),
    Alternative("a multiplier per product", {"multiplier_style": "dsp"}),
    Alternative("queues of 16", {"queue_depth": 16}),
    Alternative("4 requantize lanes", {"requantize_lanes": 4}),
)
"""Of `vta`. The first is what the others are compared with."""


def kept_cycles(
    variant: Variant, folder: Path, report: Callable[[str], None], left_out: LeftOut
) -> dict[str, int | None]:
    """`cycles_of_work` on a machine of its own; `folder` keeps answers."""
    files = [path for _, path in networks_there(left_out)]
    networks = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    machine = hashlib.sha256(kept_verilog(variant, default_cache_dir(), report).encode())
    sources = sources_digest(SOURCES, PACKAGES)
    parts = [variant.fingerprint, machine.hexdigest(), sources, *networks]

    def count() -> dict[str, int | None]:
        report("cycles of the same work on the RTL")
        return cycles_of_work(RtlDevice(variant, report=report), left_out)

    return kept(folder, f"{variant.name}-work", parts, count)


def cycles_of_work(device: Device, left_out: LeftOut) -> dict[str, int | None]:
    """Cycles by work, memory preset `ddr`; None where this machine cannot be measured.

    Of networks also the cycles in which a unit starves (`bench.networks.starvation`), all units
    together. Without counters there are no marks, and what needs them is not measured.
    """
    marks = device.variant.units.counters
    cycles: dict[str, int | None] = {}
    for name, path in networks_there(left_out):
        executor = Executor(compile_model(path, device.variant), device)
        inputs = {
            key: np.zeros(shape, dtype=np.float32) for key, shape in executor.input_shapes.items()
        }
        profile = executor.run(inputs).profile
        starved = sum(idle for _, _, idle in fed_and_starved(profile))
        cycles |= {name: profile.cycles, f"{name}, starved": starved if marks else None}
    streams = [stream for stream in unit_streams(device.variant) if stream.name in STREAMS]
    assert len(streams) == len(STREAMS)
    possible = [stream for stream in streams if marks or stream.window is None]
    names = [stream.name for stream in possible]
    found = dict(zip(names, run_streams(device, possible, "ddr"), strict=True))
    return cycles | {stream.name: found.get(stream.name) for stream in streams}
