"""The public function `profile`: where the cycles of a compiled network go.

>>> result = daedal.profile(artifact, device="rtl", timeline=True)
>>> [(layer.layer.name, layer.cycles, layer.bound) for layer in result.layers]
"""

from typing import Any

from daedal.devices import open_device
from daedal.isa.artifact import Artifact
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.network_profile import NetworkProfile

__all__ = ["profile"]


def profile(
    artifact: Artifact,
    *,
    device: str = "rtl",
    memory: MemoryModel = PRESETS["ddr"],
    timeline: bool = False,
    name: str = "",
    **options: Any,
) -> NetworkProfile:
    """Run `artifact` once on a device that counts cycles; no inputs are needed.

    `timeline` adds a second launch in which every instruction is marked. `options` go to the
    device. `name` is for titles.

    Raises UserError for a device without cycles or a variant without counters, DeviceError where
    the machine fails.
    """
    # The functional device has no memory model; it opens without one, and `measure` refuses it.
    timing = {} if device == "functional" else {"timing": memory}
    opened = open_device(device, artifact.variant, **timing, **options)
    return measure(artifact, opened, memory=memory.name, name=name, with_timeline=timeline)
