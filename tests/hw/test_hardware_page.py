"""docs/hardware.md: the numbers in it are those of the code."""

import re
from pathlib import Path

from daedal.hw.alu.alu_lanes import AluLanes
from daedal.hw.alu.requantize import Requantizer
from daedal.hw.control import marks, supervisor
from daedal.hw.gemm.product import DotProducts
from daedal.hw.memory import accumulators
from daedal.isa import registers
from daedal.isa.variant import load_variant

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hardware.md").read_text()


def test_constants() -> None:
    """Every `NAME` (value) of the page."""
    quoted = re.findall(r"`([A-Z_]+)` \((\d+)\)", PAGE)
    assert len({name for name, _ in quoted}) >= 5
    for name, value in quoted:
        modules = (accumulators, marks, supervisor, registers)
        homes = [module for module in modules if hasattr(module, name)]
        assert [getattr(module, name) for module in homes] == [int(value)], name


def test_latencies() -> None:
    vta = load_variant("vta")
    assert AluLanes.latency() == 7 and "ordinary operations then take 7" in PAGE
    requantize = f"(`vta`: {Requantizer.latency(vta)} in all)"
    assert f"REQUANTIZE 6 plus the latency of its multiplier {requantize}" in PAGE
    assert f"`DotProducts.latency` (`vta`: {DotProducts.latency(vta.array)})" in PAGE


def test_every_file_named_is_there() -> None:
    """In hw/, or from the root of the repository."""
    root = Path(__file__).resolve().parents[2]
    names = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(names) > 20
    places = {name: (root / "hw" / name, root / name) for name in names}
    assert [name for name, found in places.items() if not any(p.is_file() for p in found)] == []
