"""The public function `profile`: where the cycles of a compiled network go.

>>> result = daedal.profile(artifact, timeline=True)
>>> [(layer.layer.name, layer.cycles, layer.bound) for layer in result.layers]
"""

from typing import Any

from daedal.artifact.artifact import Artifact
from daedal.devices import open_device, takes_option
from daedal.isa.memory_file import AnyMemory, memory_key
from daedal.isa.protocols import Device
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.network_profile import NetworkProfile

__all__ = ["profile"]

_OWN = "its own"
"""The memory of a device that has no model of one."""


def profile(
    artifact: Artifact,
    *,
    device: str | Device = "timing",
    memory: AnyMemory | None = None,
    timeline: bool = False,
    name: str = "",
    **options: Any,
) -> NetworkProfile:
    """Run `artifact` once on a device that counts cycles; no inputs are needed.

    `memory` is behind the bus; by default what the artifact was compiled for. `timeline` adds a
    second launch in which every instruction is marked. `options` go to a device that is given by
    its name. `name` is for titles.

    Raises UserError for a device without cycles or a variant without counters, DeviceError where
    the machine fails.
    """
    if not isinstance(device, str):
        return measure(artifact, device, memory=_OWN, name=name, with_timeline=timeline)
    # The functional device has no memory model, and a board has its own memory.
    has_memory = takes_option(device, "timing")
    behind = artifact.memory_or(memory)
    timing = {"timing": behind} if has_memory else {}
    opened = open_device(device, artifact.variant, **timing, **options)
    kind = memory_key(behind) if has_memory else _OWN
    return measure(artifact, opened, memory=kind, name=name, with_timeline=timeline)
