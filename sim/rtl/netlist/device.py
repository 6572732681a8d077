"""The synthesized netlist of a variant as a device: the input of place and route runs programs.

Input: a variant. Output: an `RtlDevice` whose machine is the mapped netlist, inside the harness of
the RTL simulation: same programs, same bytes, same cycles. The controller of an SDRAM behind it is
a netlist, too.
"""

from collections.abc import Callable
from pathlib import Path

from daedal.common.reporting import log
from daedal.hw.boards.sdram import alone
from daedal.hw.emit import TOP_MODULE
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.near_constants import shared_addresses
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.variant import Variant
from daedal.sim.rtl.device import RtlDevice, default_cache_dir
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from daedal.sim.rtl.verilog import kept_sdram_verilog, kept_verilog

__all__ = ["netlist_device"]


def netlist_device(
    variant: Variant,
    *,
    timing: MemoryModel = PRESETS["ddr"],
    cache_dir: Path | None = None,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> RtlDevice:
    """Synthesize a variant for an ECP5, or use its cached netlist, and return it as a device.

    Parameters
    ----------
    timing
        As for `RtlDevice`.
    cache_dir
        As for `RtlDevice`; netlists are cached next to it, where `daedal synth` keeps them.
    seed
        As for `netlist_verilog`.
    report
        Called with one sentence before each long step.

    Raises
    ------
    ToolError
        Yosys is missing or failed, or the netlist has a cell without a model.
    """
    folder = cache_dir if cache_dir is not None else default_cache_dir()
    tell = report or log
    kept = AreaCache(folder.parent / "synth")

    def translated(verilog: str, top: str, *, models: bool) -> str:
        netlist = kept.netlist(verilog, Family.ECP5, top=top, progress=tell)
        return netlist_verilog(shared_addresses(netlist), top, seed=seed, models=models)

    def controller(sdram: SdramMemory) -> str:
        emitted = kept_sdram_verilog(variant, sdram, folder, tell, family=Family.ECP5)
        return translated(emitted, alone.TOP_MODULE, models=False)

    machine = kept_verilog(variant, folder, tell, family=Family.ECP5)
    return RtlDevice(
        variant,
        timing=timing,
        cache_dir=cache_dir,
        report=report,
        verilog=translated(machine, TOP_MODULE, models=True),
        controller=controller,
    )
