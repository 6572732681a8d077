"""The public function `synth`: what a variant takes of an FPGA, and how fast it is there.

>>> found = daedal.synth("tiny", "ecp5-85f")
>>> found.used["lut"], found.shortfalls, found.best.slowest_mhz
"""

import os
from collections.abc import Callable
from pathlib import Path

from daedal.common.errors import UserError
from daedal.common.reporting import log
from daedal.hw.synth.families import Target, find_target
from daedal.hw.synth.flow import PLACED, Implementation, implement
from daedal.hw.synth.place import PlaceRequest
from daedal.isa.variant import Variant, load_variant
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl import verilog
from daedal.sim.rtl.device import default_cache_dir

__all__ = ["AIM_MHZ", "synth"]

AIM_MHZ = 150.0
"""What the placer aims at where no clock is asked for: more than a machine reaches there."""


def synth(
    variant: Variant | str | Path,
    fpga: str,
    *,
    mhz: float | None = None,
    seeds: int = 1,
    jobs: int | None = None,
    estimate: bool = False,
    report: Callable[[str], None] | None = None,
) -> Implementation:
    """Synthesize a variant for an FPGA, and on ``ecp5-85f`` place and route it out of context.

    Takes minutes the first time; answers are kept in the cache, each seed as soon as it is done.

    Parameters
    ----------
    variant : a name, a .toml file or a `Variant`.
    fpga : the device: ``xc7z020``, ``xczu3eg`` or ``ecp5-85f``.
    mhz : a clock that must be reached; `succeeded` of the result says whether it is.
    seeds : number of seeds to place and route, of which `best` of the result is the fastest.
    jobs : seeds in parallel; by default one per processor.
    estimate : only estimate the area: no place and route.
    report : called with a sentence before each long step.

    Raises
    ------
    ToolError
        A tool is missing, or failed.
    UserError, VariantError
        An unknown variant or device, or a clock or seeds without place and route.
    """
    chosen = variant if isinstance(variant, Variant) else load_variant(variant)
    device = find_target(fpga)
    requests = _requests(device, mhz, seeds, estimate)
    tell = report or log
    text = verilog.kept_verilog(chosen, default_cache_dir(), tell, family=device.family)
    what = f"{'synthesizing' if requests else 'estimating'} variant {chosen.name} on {device.value}"
    tell(what)
    return implement(
        chosen,
        text,
        device.family,
        cache_folder("synth"),
        requests=requests,
        asked_mhz=mhz,
        num_processes=jobs or os.cpu_count() or 1,
        progress=lambda step: tell(f"{what}: {step}"),
    )


def _requests(target: Target, mhz: float | None, seeds: int, estimate: bool) -> list[PlaceRequest]:
    """One for each seed; none for an estimate."""
    if estimate or target.family not in PLACED:
        if mhz is not None or seeds > 1:
            raise UserError(
                "a clock and seeds belong to place and route, which only ecp5-85f has, without an "
                f"estimate; leave clock and seeds out ({target.value})"
            )
        return []
    if seeds < 1:
        raise UserError(f"seeds must be at least 1, not {seeds}")
    aim = AIM_MHZ if mhz is None else mhz
    return [PlaceRequest(target_mhz=aim, seed=seed) for seed in range(1, seeds + 1)]
