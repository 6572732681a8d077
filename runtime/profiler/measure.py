"""`measure`: launches each program once for its profile, and once fully marked for a timeline.

The host computes nothing and no result is read, so devices that compute no data also work. The
machine's cycles do not depend on values, so inputs are not written. Programs with a setup are
measured without it, as in every run but the first.
"""

from daedal.artifact.artifact import Artifact
from daedal.isa.protocols import Device
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.profiler.network_profile import NetworkProfile, network_profile
from daedal.runtime.profiler.timeline import Timeline, mark_all, timeline

__all__ = ["measure"]


def measure(
    artifact: Artifact,
    device: Device,
    *,
    memory: str,
    name: str = "",
    with_timeline: bool = False,
) -> NetworkProfile:
    """Profile one run of `artifact` on `device`; `memory` names its memory model.

    Layers and units are always measured on the original program; only the timeline comes from a run
    in which every instruction has a mark.

    Raises
    ------
    UserError
        The device counts no cycles, or the variant has no counters.
    DeviceError
        The machine fails.
    """
    artifact = artifact.repeated
    loaded = [LoadedProgram.place(launch.program, device) for launch in artifact.launches]
    profiles = [device.launch(item.program, item.bases) for item in loaded]
    result = network_profile(artifact, profiles, memory=memory, name=name)
    if not with_timeline:
        return result
    whole = Timeline(0, ())
    num_layers = num_instructions = 0
    for launch, item in zip(artifact.launches, loaded, strict=True):
        profile = device.launch(mark_all(launch.program), item.bases)
        whole = whole.followed_by(
            timeline(launch.program, profile),
            num_layers=num_layers,
            num_instructions=num_instructions,
        )
        num_layers += len(launch.layers)
        num_instructions += len(launch.program.instructions)
    return result.with_timeline(whole)
