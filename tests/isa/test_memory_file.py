"""`load_memory`: memories from TOML files, their keys, and one sentence for every bad file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daedal.isa.memory_file import load_memory, memory_from_json, memory_key, memory_to_json
from daedal.isa.memory_model import PRESETS, MemoryModel, MemoryModelError
from daedal.isa.sdram_chip import CHIPS

PLAIN = """
read_latency_cycles = 40
write_latency_cycles = 20
max_read_bursts = 8
max_write_bursts = 4
shared_bus = true
"""
PART = '[sdram]\npart = "W9825G6KH-6"\n'
CHIP = """
[sdram]
bus_mhz = 66.5
capture_clocks = 2
phase_cycles = 7
[sdram.chip]
data_bits = 16
row_bits = 12
column_bits = 8
bank_bits = 2
cas_latency = 2
clock_ns = 7.5
row_to_data_ns = 20
precharge_ns = 20
row_open_ns = 44
row_cycle_ns = 66
write_recovery_ns = 15
refresh_ns = 66
row_to_row_ns = 15
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of that name."""

    def write(text: str, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_an_abstract_memory(write: Write) -> None:
    path = write(PLAIN, "my-ddr_3.toml")
    expected = MemoryModel("my-ddr_3", 40, 20, 8, 4, shared_bus=True)
    assert load_memory(path) == load_memory(str(path)) == expected
    options = "beat_cycles = 3\nstall_per_256 = [1, 2, 3, 4, 5]\nextra_latency_cycles = 7\n"
    path = write(f'name = "other"\n{PLAIN}{options}')
    assert load_memory(path, 9) == replace(
        expected,
        name="other",
        beat_cycles=3,
        stall_per_256=(1, 2, 3, 4, 5),
        extra_latency_cycles=7,
        seed=9,
    )


def test_an_sdram_by_its_part_has_the_fastest_clock_and_the_pads_of_our_boards(
    write: Write,
) -> None:
    found = load_memory(write('[sdram]\npart = "IS42S16160G-7"\n'))
    assert found == replace(PRESETS["ulx3s"], name="mine")


def test_an_sdram_by_its_data_sheet(write: Write) -> None:
    sdram = load_memory(write(CHIP)).sdram
    assert sdram is not None
    assert (sdram.chip.name, sdram.chip.row_bits, sdram.chip.precharge_ns) == ("mine", 12, 20.0)
    assert (sdram.times.clock_hz, sdram.capture_clocks, sdram.phase_cycles) == (133_000_000, 2, 7)
    assert sdram.chip.init_refreshes == CHIPS["W9825G6KH-6"].init_refreshes


def test_a_preset_and_a_model_are_what_they_are() -> None:
    assert load_memory("jitter", 5) == replace(PRESETS["jitter"], seed=5)
    assert load_memory(PRESETS["slow"]) is PRESETS["slow"]


@pytest.mark.parametrize("text", [PLAIN, PART, CHIP, f"{PART}bus_mhz = 66.7\n"])
def test_a_memory_travels_as_plain_data(write: Write, text: str) -> None:
    memory = load_memory(write(text))
    assert memory_from_json(memory_to_json(memory)) == memory


def test_presets_travel_by_name() -> None:
    for name, preset in PRESETS.items():
        assert memory_to_json(replace(preset, seed=3)) == memory_key(preset) == name
        assert memory_from_json(name) == preset


def test_keys_tell_memories_of_one_name_apart(write: Write) -> None:
    texts = [PLAIN, PLAIN.replace("40", "41"), PART, CHIP, CHIP.replace("44", "45")]
    texts.append(f"{PART}phase_cycles = 1\n")
    keys = [memory_key(load_memory(write(text))) for text in texts]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("mine-") and len(key) == 17 for key in keys)
    changed = replace(PRESETS["ddr"], max_read_bursts=1)
    assert memory_key(changed).startswith("ddr-"), "a changed preset is no preset"
    assert memory_key(load_memory(write(PLAIN), 1)) == keys[0], "the seed is another matter"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "'mine.toml' must be valid TOML: "),
        ("", "'mine.toml' must have read_latency_cycles, .*, or a table .sdram."),
        (PLAIN + "latency = 3", "'mine.toml' has no key 'latency'; it has read_latency_cycles, "),
        (PLAIN.replace("40", '"a"'), "read_latency_cycles must be of type int, not 'a'"),
        (PLAIN.replace("40", "true"), "read_latency_cycles must be of type int, not True"),
        (PLAIN.replace("true", "1"), "shared_bus must be of type bool, not 1"),
        (PLAIN.replace("40", "0"), "read_latency_cycles must be 1 to 65535, not 0"),
        (PLAIN.replace("40", "9" * 30), "must be of type int|must be a number up to"),
        (PLAIN + "stall_per_256 = 3", "stall_per_256 must be a list, not 3"),
        (PLAIN + "stall_per_256 = [3]", "stall_per_256 must be five numbers"),
        ('name = "a b"\n' + PLAIN, "must be at most 32 letters, .*, not 'a b'; give a `name`"),
        ('name = "ddr"\n' + PLAIN, "must have another name than a preset, not 'ddr'"),
        ("sdram = 3", ".sdram. must be a table, not 3"),
        (PLAIN + PART, "'mine.toml' with .sdram. has no key 'read_latency_cycles'"),
        ("[sdram]", "must have either part, one of IS42S16160G-7, .* or a table .sdram.chip."),
        (CHIP.replace("bus_mhz", 'part = "W9825G6KH-6"\nbus_mhz'), "must have either part"),
        ('[sdram]\npart = "MT48"', "sdram.part must be one of .*, not 'MT48'; describe others in"),
        (PART + "mhz = 3", ".sdram. has no key 'mhz'; it has part, bus_mhz, capture_clocks, "),
        (PART + "bus_mhz = 100", "must be at most 166.667 MHz, not 200 MHz"),
        (PART + "bus_mhz = nan", "sdram.bus_mhz must be a number up to"),
        (PART + "bus_mhz = -inf", "sdram.bus_mhz must be a number up to"),
        (PART + "bus_mhz = 0", "the clock of an SDRAM must be more than 0 Hz, not 0"),
        (PART + "capture_clocks = 9", "capture_clocks of an SDRAM must be 1 to 4, not 9"),
        (PART + "phase_cycles = 9999", "phase_cycles of an SDRAM must be 0 to "),
        ("[sdram]\nchip = 3", ".sdram.chip. must be a table, not 3"),
        ("[sdram.chip]\ndata_bits = 16", ".sdram.chip. must have row_bits, column_bits, "),
        (CHIP + "tRP = 3", ".sdram.chip. has no key 'tRP'; it has data_bits, row_bits, "),
        (CHIP.replace("44", "1e9"), "row_open_ns must be more than 0 and at most 10,000, not 1e"),
        (CHIP.replace("7.5", "0.1"), "clock_ns must be at least 1, not 0.1"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(write: Write, text: str, message: str) -> None:
    with pytest.raises(MemoryModelError, match=message) as caught:
        load_memory(write(text))
    assert "\n" not in str(caught.value)


def test_names_and_files_that_are_no_memory(tmp_path: Path, write: Write) -> None:
    with pytest.raises(MemoryModelError, match=r"one of ideal, .*, or the path of a .toml file"):
        load_memory("hbm")
    with pytest.raises(MemoryModelError, match="a memory file"):
        load_memory(tmp_path / "none.toml")
    with pytest.raises(MemoryModelError, match=r"'ddr.toml' must have another name .*, not 'ddr'"):
        load_memory(write(PLAIN, "ddr.toml"))
    with pytest.raises(MemoryModelError, match="not 'my ddr'; give a `name`"):
        load_memory(write(PLAIN, "my ddr.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(MemoryModelError, match=r"must be UTF-8 text; 'bytes.toml' is not"):
        load_memory(tmp_path / "bytes.toml")


@pytest.mark.parametrize("data", [None, 3, [], {}, "fast", {"name": 3}, {"name": "a", "sdram": 1}])
def test_plain_data_that_is_no_memory(data: Any) -> None:
    with pytest.raises(MemoryModelError):
        memory_from_json(data)


def test_plain_data_names_no_file(write: Write) -> None:
    with pytest.raises(MemoryModelError, match="must be one of"):
        memory_from_json(str(write(PLAIN)))
