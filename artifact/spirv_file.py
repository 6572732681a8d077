"""`entry_points`: the kernels of a SPIR-V module.

Input: the bytes of a module, untrusted. Nothing of it is run.
Source: Khronos, SPIR-V Specification 1.2, "Physical Layout of a SPIR-V Module and Instruction".
"""

import struct
from collections.abc import Iterator

__all__ = ["MAGIC", "entry_points", "instructions"]

MAGIC = b"\x03\x02\x23\x07"
"""The first word, 0x07230203, in the order of bytes that is read here."""

_HEADER_WORDS = 5
_ENTRY_POINT = 15
_NAME = 3
"""The word of an entry point that its name begins in; before it are the kind and the number."""


def instructions(module: bytes) -> Iterator[tuple[int, bytes]]:
    """Each instruction: its number, and its words after the first. Raises ValueError."""
    if not module.startswith(MAGIC) or len(module) % 4 or len(module) < 4 * _HEADER_WORDS:
        raise ValueError("a SPIR-V module must be little-endian words that begin with 0x07230203")
    at = 4 * _HEADER_WORDS
    while at < len(module):
        number, words = struct.unpack_from("<HH", module, at)
        if not words or at + 4 * words > len(module):
            raise ValueError("instructions of a SPIR-V module must lie inside it")
        yield number, module[at + 4 : at + 4 * words]
        at += 4 * words


def entry_points(module: bytes) -> frozenset[str]:
    """Names of its entry points. Raises ValueError for anything else than a module."""
    names = (
        content[4 * (_NAME - 1) :].partition(b"\0")[0]
        for number, content in instructions(module)
        if number == _ENTRY_POINT
    )
    return frozenset(name.decode() for name in names)
