"""Simulates the synthesized netlist of a whole board, driven through its serial pins.

Input: the settings of a board. Output: a `Built` for `sim.rtl.board`, built from the netlist that
goes to place and route.
"""

from collections.abc import Callable
from pathlib import Path

from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.top import TOP_MODULE
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.near_constants import shared_addresses
from daedal.sim.rtl.board import chip_parameters
from daedal.sim.rtl.build import Built, build_board_simulator
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from daedal.sim.rtl.verilog import kept_board_verilog

__all__ = ["build_board_netlist"]


def build_board_netlist(
    settings: BoardSettings, cache_dir: Path, report: Callable[[str], None]
) -> Built:
    """Synthesize a board's design and build its simulator, or return them from the cache.

    Parameters
    ----------
    cache_dir
        As for `RtlDevice`; netlists are cached next to it, where `daedal build` keeps them.
    report
        Called with one sentence before each long step.

    Raises
    ------
    ToolError
        A tool is missing or failed, or the netlist has a cell without a model.
    """
    verilog = kept_board_verilog(settings, cache_dir, report, family=Family.ECP5)
    kept = AreaCache(cache_dir.parent / "synth")
    netlist = kept.netlist(verilog, Family.ECP5, top=TOP_MODULE, progress=report)
    text = netlist_verilog(shared_addresses(netlist), TOP_MODULE)
    return build_board_simulator(
        text,
        top=TOP_MODULE,
        cache_dir=cache_dir,
        chip=chip_parameters(settings),
        progress=report,
    )
