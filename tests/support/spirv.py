"""SPIR-V modules: small ones, what others have in them, and the validator of SPIRV-Tools."""

import shutil
import struct
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from daedal.artifact.spirv_file import MAGIC, instructions

__all__ = [
    "CONSTANT",
    "CONTROL_BARRIER",
    "EXECUTION_MODE",
    "find_validator",
    "found",
    "problem_of",
    "spirv_of",
]

EXECUTION_MODE, CONSTANT, CONTROL_BARRIER = 16, 43, 224
"""Numbers of instructions."""
_ENVIRONMENT = "opencl2.2"


def spirv_of(*symbols: str) -> bytes:
    """A module with entry points alone, whose functions are not there."""
    text = MAGIC + struct.pack("<IIII", 0x10200, 0, 100, 0) + struct.pack("<HHI", 17, 2, 6)
    for number, symbol in enumerate(symbols):
        name = symbol.encode() + b"\0"
        name += bytes(-len(name) % 4)
        text += struct.pack("<HHII", 15, 3 + len(name) // 4, 6, number + 1) + name
    return text


def found(module: bytes, number: int) -> Iterator[tuple[int, ...]]:
    """The words of each instruction `number`, after the first."""
    for other, content in instructions(module):
        if other == number:
            yield struct.unpack(f"<{len(content) // 4}I", content)


@lru_cache(maxsize=1)
def find_validator() -> str | None:
    """`spirv-val`, of the wheel or on the path; None where it is not installed.

    The wheel's command is a Python program that starts the one of its prefix.
    """
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "bin"
    tool = shutil.which("spirv-val", path=str(prefix))
    return tool or shutil.which("spirv-val")


def problem_of(module: bytes) -> str:
    """What the validator says of a module; empty if it is valid for OpenCL."""
    tool = find_validator()
    assert tool is not None
    done = subprocess.run(
        [tool, "--target-env", _ENVIRONMENT, "-"], input=module, capture_output=True, check=False
    )
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    assert bool(said) == bool(done.returncode), said
    return said
