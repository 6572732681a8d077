"""Symbols of object files: those that LLVM wrote, and bytes that are none."""

import struct

import pytest

from daedal.artifact.host_code import LEVEL_MACHINES
from daedal.artifact.object_file import read_symbols
from daedal.native.codegen import compile_text
from daedal.native.levels import LEVELS, level_cpu

TEXT = """
declare float @other(float)
define private float @inner(float %x) noinline {
  %y = call float @other(float %x)
  ret float %y
}
define float @given(float %x) {
  %y = call float @inner(float %x)
  ret float %y
}
"""


@pytest.fixture(scope="module", params=list(LEVELS))
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_an_object_file_defines_and_needs(level: str) -> None:
    found = read_symbols(compile_text(TEXT, level_cpu(level)))
    assert found.defined == {"given"}
    assert "other" in found.undefined
    assert found.machine == LEVEL_MACHINES[level]


def test_other_files_are_refused() -> None:
    data = compile_text(TEXT, level_cpu("x86-64"))
    for wrong in (b"", b"\x7fELF", b"MZ" + data[2:], data[:100], data[:-200], data[:16] * 9):
        with pytest.raises((ValueError, struct.error)):
            read_symbols(wrong)


@pytest.mark.filterwarnings("error")
def test_damaged_files_give_an_error_or_symbols() -> None:
    data = compile_text(TEXT, level_cpu("x86-64"))
    refused = 0
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x81
        try:
            read_symbols(bytes(changed))
        except (ValueError, LookupError, struct.error, OverflowError):
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("too_many", [0, 1])
def test_files_of_very_many_symbols_are_refused(too_many: int) -> None:
    """A header, a table of symbols and their names."""
    header, section, symbol = 64, 64, 24
    count = (1 << 16) + too_many
    places = header + 3 * section, header + 3 * section + count * symbol
    data = bytearray(places[1] + 1)
    head = (b"\x7fELF\x02\x01\x01", 1, 62, 1, 0, 0, header, 0, header, 0, 0, section, 3, 2)
    struct.pack_into("<16sHHIQQQIHHHHHH", data, 0, *head)
    sections = [(1, 2, places[0], count * symbol, 2), (2, 3, places[1], 1, 0)]
    for number, kind, offset, size, names in sections:
        values = (0, kind, 0, 0, offset, size, names, 0, 1, symbol)
        struct.pack_into("<IIQQQQIIQQ", data, header + number * section, *values)
    if too_many:
        with pytest.raises(ValueError, match="at most 65536 symbols"):
            read_symbols(bytes(data))
    else:
        assert not read_symbols(bytes(data)).defined
