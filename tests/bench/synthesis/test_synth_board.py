"""The record of the whole board: what meets its bars, and what does not."""

import pytest

from bench.synthesis.synth_board import whole_record
from daedal.hw.boards.bitstream import BoardBuild
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.settings import BoardSettings, bank_bytes
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.isa.variant import load_variant

PATH = TimingPath(
    start="a", end="b", start_clock="clk", end_clock="clk", modules=("alu",), signals=(), levels=1,
    logic_ns=1.0, routing_ns=2.0,
)  # fmt: skip


def built(name: str, fmax_mhz: float, bitstream: bytes | None) -> BoardBuild:
    variant = load_variant(name)
    board = load_board("ulx3s-85f")
    settings = BoardSettings.for_baud(board, variant, board.clock(90e6), 2 * bank_bytes(variant))
    routed = Routed(PlaceRequest(target_mhz=90), {"clk": fmax_mhz}, (PATH,), {}, "config")
    report = CellReport.of(Family.ECP5, {"LUT4": 9})
    return BoardBuild(settings, Implementation(variant, report, (routed,), 90.0), bitstream)


def test_a_bitstream_that_is_fast_enough() -> None:
    record = whole_record(built("ecp5", 91.5, b"bits"))
    assert record["met"] is True
    assert (record["fmax_mhz"], record["bitstream_bytes"]) == (91.5, 4)
    assert (record["macs_per_cycle"], record["clock_mhz"]) == (256, 90.0)
    assert record["bar"] == {"macs_per_cycle": 256, "mhz": 90.0}


@pytest.mark.parametrize(
    ("name", "fmax_mhz", "bitstream"),
    [
        ("ecp5", 89.99, b"bits"),  # too slow
        ("ecp5", 120.0, None),  # misses a faster clock that was asked for
        ("ecp5_half", 120.0, b"bits"),  # 128 multiply-accumulates
    ],
)
def test_what_misses_the_bar(name: str, fmax_mhz: float, bitstream: bytes | None) -> None:
    assert whole_record(built(name, fmax_mhz, bitstream))["met"] is False
