"""Counts instructions in machine code of NVIDIA's GPUs, without a disassembler.

From compute capability 7.0 on, an instruction has 128 bits, and its lowest twelve are the
operation. Source: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking", 2018, chapter 2; the numbers are those that NVIDIA's disassembler shows.
"""

import struct
from collections import Counter

__all__ = ["operations"]

_NUMBERS = {
    0x223: "FFMA",
    0x237: "IMMA",
    0x23C: "HMMA",
    0x83B: "LDSM",
    0x9F0: "HGMMA",
    0x9F1: "IGMMA",
    0x5B4: "UTMALDG",
    0xB1D: "BAR",
    0x9AF: "LDGDEPBAR",
    0x91A: "DEPBAR",
    0xFAE: "LDGSTS",
}
_INSTRUCTION_BYTES = 16
_SECTION = struct.Struct("<IIQQQQIIQQ")


def operations(cubin: bytes) -> Counter[str]:
    """How often each known operation is in the code of all kernels of a cubin."""
    found = Counter[str]()
    for name, code in _sections(cubin):
        if name.startswith(b".text."):
            for (low,) in struct.iter_unpack("<Q8x", code):
                found[_NUMBERS.get(low & 0xFFF, "")] += 1
    return found


def _sections(data: bytes) -> list[tuple[bytes, bytes]]:
    """Name and content of each section of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    found = [_SECTION.unpack_from(data, table + number * size) for number in range(count)]
    first = found[names][4]
    return [
        (
            data[first + name : data.index(b"\0", first + name)],
            data[offset : offset + length] if kind != 8 else b"",  # without content
        )
        for name, kind, _, _, offset, length, *_ in found
    ]
