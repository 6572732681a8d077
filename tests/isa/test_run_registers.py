"""What a run writes to the registers and what their values mean, against the register map alone."""

import re
import struct

import pytest

from daedal.common.errors import DeviceError
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, ID_VALUE, MARK_BYTES, ErrorCode, register
from daedal.isa.run_registers import (
    REPORT_REGISTERS,
    RunPlacement,
    check_identity,
    num_marked,
    read_report,
    setup_writes,
)
from daedal.isa.table import BASES, Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


def halves(name: str, value: int) -> dict[str, int]:
    return {f"{name}_lo": value & 0xFFFFFFFF, f"{name}_hi": value >> 32}


def report_values() -> dict[str, int]:
    """Every register with a number of its own, but no error and no mark."""
    numbered = {name: 1000 + number for number, name in enumerate(REPORT_REGISTERS)}
    return {**numbered, "error": 4 << 8, "marks_written": 0}


def record(tag: int, unit: Unit, instruction: int, cycle: int) -> bytes:
    # Bits above the unit mean nothing.
    words = [0xAB8 << 16 | unit << 16 | tag, instruction, cycle & 0xFFFFFFFF]
    counters = [100 * instruction + place for place in range(len(CLASSES) + 1)]
    words += [cycle >> 32, *counters]
    words += [0] * (MARK_BYTES // 4 - len(words))
    return struct.pack(f"<{len(words)}I", *words)


def test_setup_writes_every_register_by_name() -> None:
    # A region ends with a whole bus word.
    program = Program(
        TINY,
        tuple(assemble("LOAD mark=1\nLOAD\nFINISH mark=1")),
        region_bytes=(0x108, 0x40, 0x1000, 0x2001),
    )
    sizes = (0x108, 0x40, 0x1000, 0x2008)
    bases = [(number + 1) << 33 | 0x1000 * number for number in range(len(BASES))]
    placement = RunPlacement(5 << 32 | 0x80, bases, 7 << 32 | 0x40, 3)
    written = setup_writes(program, placement, watchdog_cycles=99, drain_limit_cycles=77)
    expected = {
        **halves("program", 5 << 32 | 0x80),
        "program_length": 3,
        "watchdog": 99,
        "drain_limit": 77,
        **{k: v for n, base in enumerate(bases) for k, v in halves(f"base{n}", base).items()},
        **{k: v for n, size in enumerate(sizes) for k, v in halves(f"size{n}", size).items()},
        **halves("marks", 7 << 32 | 0x40),
        "marks_capacity": 3,
        "gie": 1,
        "ier": 1,
    }
    assert dict(written) == {register(name).offset: value for name, value in expected.items()}
    assert len(written) == len(expected)
    assert num_marked(program) == 2


@pytest.mark.parametrize(("number", "change"), [(0, 0), (ID_VALUE, 1), (ID_VALUE, 1 << 32)])
def test_another_machine_is_refused(number: int, change: int) -> None:
    fingerprint = int(TINY.fingerprint, 16)
    check_identity({"id": ID_VALUE, **halves("fingerprint", fingerprint)}, TINY)
    values = {"id": number, **halves("fingerprint", fingerprint ^ change)}
    message = f"{TINY.fingerprint}; it answers {fingerprint ^ change:016x} with ID {number:#010x}"
    with pytest.raises(DeviceError, match=re.escape(message)):
        check_identity(values, TINY)


def test_a_report_is_read_register_by_register() -> None:
    values = report_values()
    values |= halves("cycles", 3_000_000_005) | halves("beats_read", 9) | {"marks_written": 2}
    ring = record(7, Unit.STORE, 1, 2 << 32 | 50) + record(0xFFFF, Unit.LOAD, 2, 40)
    report = read_report(values, ring, device="d", wall_seconds=1.5)
    profile = report.profile
    assert (profile.device, profile.wall_seconds) == ("d", 1.5)
    assert (profile.cycles, profile.beats_read) == (3_000_000_005, 9)
    assert profile.beats_written == values["beats_written_lo"] | values["beats_written_hi"] << 32
    for unit in Unit:
        name = unit.name.lower()
        counters = {kind: values[f"{name}_{kind.name.lower()}"] for kind in CLASSES}
        assert profile.units[unit].classes == counters
        assert profile.units[unit].work == values[f"{name}_work"]
    # In the order in which they retired, not in which they were written.
    marks = [(mark.tag, mark.unit, mark.instruction, mark.cycle) for mark in profile.marks]
    assert marks == [(0xFFFF, Unit.LOAD, 2, 40), (7, Unit.STORE, 1, 2 << 32 | 50)]
    counted = profile.marks[0].counters
    assert counted.classes == {kind: 200 + place for place, kind in enumerate(CLASSES)}
    assert counted.work == 200 + len(CLASSES)
    assert (report.error, report.instruction) == (ErrorCode.NONE, values["error_instruction"])
    report.check()


@pytest.mark.parametrize(("written", "read"), [(0, 0), (1, 1), (2, 2), (5, 2)])
def test_marks_are_read_as_far_as_the_ring_holds_them(written: int, read: int) -> None:
    ring = record(1, Unit.GEMM, 0, 10) + record(2, Unit.GEMM, 1, 20)
    report = read_report(
        {**report_values(), "cycles_hi": 0, "marks_written": written},
        ring,
        device="d",
        wall_seconds=0.0,
    )
    assert [mark.tag for mark in report.profile.marks] == [1, 2][:read]


def test_an_error_names_unit_and_instruction() -> None:
    error = ErrorCode.ROW_RANGE | Unit.ALU << 8
    values = {**report_values(), "error": error, "error_instruction": 12}
    report = read_report(values, b"", device="d", wall_seconds=0.0)
    with pytest.raises(DeviceError, match="it reported ROW_RANGE of ALU at instruction 12"):
        report.check()
    for wrong in (0xFF, 7 << 8, 1 << 16):
        with pytest.raises(DeviceError, match=f"it reads {wrong:#010x}: check the connection"):
            read_report({**values, "error": wrong}, b"", device="d", wall_seconds=0.0)
