"""`NetworkBench`: compiles one network, runs it on the simulators, and returns the measurements.

Input: a network of the zoo. Output: a `NetworkRow`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import daedal
from bench.calibration import calibrate
from bench.figures import figures_of
from bench.networks.network_memory import largest_live_set, workspace_bytes
from bench.networks.network_row import Effort, NetworkRow
from bench.zoo.builder import IMAGE
from bench.zoo.networks import Network
from daedal.api import SimulationResult
from daedal.artifact.artifact import Artifact, Placement
from daedal.common.errors import DaedalError
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant

__all__ = ["NetworkBench"]

LAYER_FIGURES = (
    "name",
    "op",
    "output",
    "macs",
    "cycles",
    "roofline_cycles",
    "roofline_share",
    "bound",
    "bytes_once",
    "bytes_read",
    "bytes_written",
)


@dataclass(frozen=True)
class NetworkBench:
    """What networks are run with.

    `read` gives a network's quantized model, whose input "image" gets `image`. `rtl` is the device
    that counts cycles beside the cycle model, where it is wanted.
    """

    variant: Variant
    image: npt.NDArray[np.float32]
    read: Callable[[Network], bytes]
    say: Callable[[str], None]
    rtl: Device | None = None

    def measure(self, network: Network, *, compilations: int, on_rtl: bool) -> NetworkRow:
        """Everything about one network; a row with the error where something refuses it."""
        try:
            return self._measure(network, compilations, on_rtl)
        except DaedalError as error:
            return NetworkRow(network.name, network.title, self.variant.name, error=str(error))

    def _measure(self, network: Network, compilations: int, on_rtl: bool) -> NetworkRow:
        model = self.read(network)
        seconds, calibrations = [], []
        for number in range(compilations):
            self.say(f"{network.title}: compiling, {number + 1} of {compilations}")
            calibrations.append(calibrate().processor_seconds)
            began = time.process_time()
            artifact = daedal.compile(model, self.variant, cache=False)
            seconds.append(time.process_time() - began)
        feeds = {IMAGE: self.image}
        self.say(f"{network.title}: cycle model")
        timed = daedal.simulate(artifact, feeds, device="timing")
        self.say(f"{network.title}: without fusion")
        alone = daedal.compile(model, self.variant, fuse=False)
        unfused = _effort(alone)
        self.say(f"{network.title}: functional simulator and reference")
        checked, wrong = _compare(model, artifact, feeds)
        rtl_cycles = None
        if on_rtl and self.rtl is not None:
            self.say(f"{network.title}: RTL")
            rtl_cycles = daedal.simulate(artifact, feeds, device=self.rtl).profiles[0].cycles
        return _row(
            network,
            artifact,
            timed,
            unfused=unfused,
            rtl_cycles=rtl_cycles,
            bytes_checked=checked,
            bytes_wrong=wrong,
            compile_seconds=tuple(seconds),
            calibration_seconds=tuple(calibrations),
        )


def _compare(
    model: bytes, artifact: Artifact, feeds: dict[str, npt.NDArray[np.float32]]
) -> tuple[int, int]:
    """Bytes that layers computed on the functional simulator, and those that differ from the
    integer reference, or from what they are where no memory is shared."""
    check = daedal.check_layers(artifact, model, feeds)
    layers = [item.difference for item in check.tensors if item.layer is not None]
    compared = [item for item in layers if item is not None]
    wrong = [*compared, *(item for _, item in check.overwritten)]
    return sum(item.num_elements for item in compared), sum(item.num_different for item in wrong)


def _row(
    network: Network, artifact: Artifact, timed: SimulationResult, **measured: Any
) -> NetworkRow:
    programs = [launch.program for launch in artifact.launches]
    on_accelerator = [item for item in artifact.placements if item.where == "accelerator"]
    (layers,) = timed.layers
    return NetworkRow(
        network.name,
        network.title,
        artifact.variant.name,
        macs=_macs(artifact.placements),
        accelerator_macs=_macs(on_accelerator),
        launches=len(programs),
        instructions=sum(len(program.instructions) for program in programs),
        fused=_effort(artifact),
        peak_bytes=sum(workspace_bytes(program) for program in programs),
        bound_bytes=sum(largest_live_set(program) for program in programs),
        macs_per_cycle=artifact.variant.macs_per_cycle,
        layers=tuple(_figures([layer.to_json() for layer in layers])),
        host=tuple(
            {"node": item.node, "operator": item.op, "why": item.why}
            for item in artifact.placements
            if item.where == "host"
        ),
        **measured,
    )


def _effort(artifact: Artifact) -> Effort:
    figures = figures_of(launch.program for launch in artifact.launches)
    return Effort(len(artifact.layers), figures.cycles, figures.bytes_moved)


def _figures(layers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: layer[name] for name in LAYER_FIGURES} for layer in layers]


def _macs(placements: Sequence[Placement]) -> int:
    counts = [item.macs for item in placements if item.macs is not None]
    assert len(counts) == len(placements), "every node's multiply-accumulates are known"
    return sum(counts)
