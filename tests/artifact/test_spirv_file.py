"""Kernels of SPIR-V modules, and what is no module."""

import struct

import pytest

from daedal.artifact.spirv_file import MAGIC, entry_points, instructions
from tests.support.spirv import spirv_of

MODULE = spirv_of("k0", "k123456789")


def test_entry_points_are_found() -> None:
    assert entry_points(MODULE) == {"k0", "k123456789"}
    assert entry_points(spirv_of()) == frozenset()
    assert [number for number, _ in instructions(MODULE)] == [17, 15, 15]


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (b"", "that begin with 0x07230203"),
        (MAGIC, "that begin with 0x07230203"),
        (MODULE + b"\0", "must be little-endian words"),
        (MAGIC[::-1] + MODULE[4:], "that begin with 0x07230203"),
        (MODULE + bytes(4), "must lie inside it"),
        (MODULE[:-4], "must lie inside it"),
        (MODULE + struct.pack("<HH", 15, 9), "must lie inside it"),
    ],
)
def test_what_is_no_module_is_refused(module: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        entry_points(module)


def test_a_name_must_be_text() -> None:
    entry = struct.pack("<HHII", 15, 4, 6, 1) + b"\xff\xff\0\0"
    with pytest.raises(ValueError, match="codec can't decode"):
        entry_points(spirv_of() + entry)
    assert entry_points(spirv_of() + struct.pack("<HH", 15, 1)) == {""}
