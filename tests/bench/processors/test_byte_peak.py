"""The loop that integers are compared with has the best instruction of each level, and nothing
that takes as long."""

import re

import pytest

from bench.processors.byte_peak import SUMS, TILE_SUMS, peak_loop
from daedal.native.codegen import assembly_text
from daedal.native.levels import AMX_LEVEL, LEVELS, host_level, level_cpu

INSTRUCTIONS = {
    AMX_LEVEL: ("tdpbusd", TILE_SUMS),
    "x86-64-v4-vnni": ("vpdpbusd", SUMS),
    "x86-64-v4": ("vpmaddwd", SUMS),
    "x86-64-v3-vnni": ("vpdpbusd", SUMS),
    "x86-64-v3": ("vpmaddwd", SUMS),
    "x86-64": ("pmaddwd", 2 * SUMS),
}


@pytest.mark.parametrize("level", INSTRUCTIONS)
def test_a_loop_has_the_instruction_of_its_level(level: str) -> None:
    name, count = INSTRUCTIONS[level]
    assembly = assembly_text(peak_loop(level).text, level_cpu(level))
    found = re.findall(rf"\t{name}\t", assembly)
    assert len(found) % count == 0 and found
    assert {item for item in LEVELS if item.startswith("x86")} == INSTRUCTIONS.keys()


def test_it_runs() -> None:
    level = host_level()
    peak_loop(level).compiled(level)(3)
