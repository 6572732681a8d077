"""`read_symbols`: which functions an object file defines, and which it needs.

Input: the bytes of a relocatable ELF file of 64 bits, untrusted. Nothing of it is run.
Source: Tool Interface Standard, Executable and Linking Format 1.2; ELF-64 Object File Format 1.5.
"""

import struct
from dataclasses import dataclass

__all__ = ["MACHINES", "ObjectSymbols", "read_symbols"]

MACHINES = {62: "x86_64", 183: "aarch64"}
"""ELF's numbers of the processors that code is compiled for."""

_MAGIC = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_RELOCATABLE = 1
_SYMBOL_TABLE = 2
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_GLOBAL_BINDINGS = (1, 2)  # global, weak
_MAX_SYMBOLS = 1 << 16


@dataclass(frozen=True)
class ObjectSymbols:
    """Names of an object file that others may use, and those that it takes from others.

    `machine` is one of the values of `MACHINES`.
    """

    machine: str
    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(data: bytes) -> ObjectSymbols:
    """The symbols of an object file. Raises ValueError or struct.error for anything else."""
    ident, kind, machine, _, _, _, table, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if not ident.startswith(_MAGIC) or kind != _RELOCATABLE or machine not in MACHINES:
        raise ValueError("object code must be a relocatable ELF file of a known processor")
    if size != _SECTION.size:
        raise ValueError("an object file must have section headers of the standard size")
    sections = [_SECTION.unpack_from(data, table + number * size) for number in range(count)]
    defined: set[str] = set()
    undefined: set[str] = set()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = _content(data, sections[section[6]])
        symbols = _content(data, section)
        if len(symbols) > _MAX_SYMBOLS * _SYMBOL.size:
            raise ValueError(f"an object file must have at most {_MAX_SYMBOLS} symbols")
        for name, info, _, index, _, _ in _SYMBOL.iter_unpack(symbols):
            if info >> 4 in _GLOBAL_BINDINGS:
                (undefined if index == 0 else defined).add(_text(names, name))
    return ObjectSymbols(MACHINES[machine], frozenset(defined), frozenset(undefined))


def _content(data: bytes, section: tuple[int, ...]) -> bytes:
    offset, size = section[4], section[5]
    if offset + size > len(data):
        raise ValueError("sections of an object file must lie inside it")
    return data[offset : offset + size]


def _text(names: bytes, offset: int) -> str:
    end = names.index(b"\0", offset)
    return names[offset:end].decode("ascii")
