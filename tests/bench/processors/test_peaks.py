"""The loops that code is compared with have the best instruction of each level, and nothing that
takes as long."""

import re

import numpy as np
import pytest

from bench.processors.peaks import SUMS, TILE_SUMS, byte_loop, real_loop
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
    assembly = assembly_text(byte_loop(level).text, level_cpu(level))
    found = re.findall(rf"\t{name}\t", assembly)
    assert len(found) % count == 0 and found
    assert {item for item in LEVELS if item.startswith("x86")} == INSTRUCTIONS.keys()


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_a_loop_of_reals_is_multiply_adds(level: str) -> None:
    assembly = assembly_text(real_loop(level).text, level_cpu(level))
    assert len(re.findall(r"\t(?:vfmadd\w+|fmla)\t", assembly)) % SUMS == 0
    assert not re.findall(r"\t(?:vaddps|vmulps|fmul|fadd)\t", assembly)


def test_what_loops_compute() -> None:
    """Ones are multiplied and added, five times; products of bytes, too."""
    level = host_level()
    assert set(real_loop(level).compiled(level)(5)[:8].tolist()) == {5.0}
    sums = byte_loop(level).compiled(level)(5)[:4].view(np.int32)
    assert sums[0] > 0 and sums[0] != 0x01010101
