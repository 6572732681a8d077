"""Runs compiled code for AArch64 in an emulator of the processor.

Unicorn (QEMU's translation) executes the object code; a small linker here places its sections.
Source: ELF for the Arm 64-bit Architecture (2023Q3), section 5.7, for the relocations; Procedure
Call Standard for the Arm 64-bit Architecture, for calls.
"""

import ctypes
import ctypes.util
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_MODE_ARM, Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_CPACR_EL1,
    UC_ARM64_REG_D0,
    UC_ARM64_REG_D1,
    UC_ARM64_REG_LR,
    UC_ARM64_REG_S0,
    UC_ARM64_REG_S1,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_CPU_ARM64_MAX,
)

from daedal.artifact.host_code import CodeCall, HostCode, Join

__all__ = ["LEVELS", "run_on_aarch64"]

LEVELS = ("aarch64", "aarch64-dotprod")
"""Those that the emulator has the instructions of."""

_ARGUMENTS = (UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2)
_FLOATS = (UC_ARM64_REG_S0, UC_ARM64_REG_S1)
_DOUBLES = (UC_ARM64_REG_D0, UC_ARM64_REG_D1)

_CODE, _STACK, _ADDRESSES, _MEMORY = 0x10_0000, 0x2000_0000, 0x3000_0000, 0x4000_0000
_STACK_BYTES, _PAGE = 1 << 20, 0x1000
_RETURN = 0x8_0000
"""Where functions return to: emulation stops there."""
_STUBS = 0x9_0000
"""Functions of the C library, of one instruction each: the emulator does the rest."""
_RET = 0xD65F_03C0
_TWO_OPERANDS = {"atan2", "fmod", "pow"}


def run_on_aarch64(
    code: HostCode, inputs: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """The outputs of a part without interpreted nodes, by name; it has code for one of `LEVELS`."""
    machine = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    machine.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
    # Vector instructions do not trap.
    machine.reg_write(UC_ARM64_REG_CPACR_EL1, 3 << 20)
    (objects,) = code.objects.values()
    functions = _linked(machine, objects)
    memory = np.zeros(_pages(code.memory_bytes), np.uint8)
    code.put_constants(memory[: code.memory_bytes])
    for name in code.names.keys() & set(code.inputs):
        _tensor(code, memory, code.names[name])[...] = inputs[name]
    machine.mem_map(_MEMORY, len(memory))
    machine.mem_map(_STACK, _STACK_BYTES)
    machine.mem_map(_ADDRESSES, _PAGE)
    machine.mem_write(_MEMORY, memory.tobytes())
    for step in code.steps:
        if isinstance(step, CodeCall):
            _call(machine, functions[step.symbol], code, step)
        else:
            assert isinstance(step, Join), "a node that ONNX's evaluator runs has no code"
            memory = np.frombuffer(machine.mem_read(_MEMORY, len(memory)), np.uint8).copy()
            *parts, result = (_tensor(code, memory, number) for number in step.buffers)
            result[...] = np.concatenate(parts, step.axis)
            machine.mem_write(_MEMORY, memory.tobytes())
    memory = np.frombuffer(machine.mem_read(_MEMORY, len(memory)), np.uint8).copy()
    return {name: _tensor(code, memory, code.names[name]).copy() for name in code.outputs}


def _call(machine: Uc, function: int, code: HostCode, call: CodeCall) -> None:
    """All iterations, in two calls: kernels take any range of them."""
    addresses = [_MEMORY + code.buffers[number].offset for number in call.buffers]
    machine.mem_write(_ADDRESSES, np.array(addresses, np.uint64).tobytes())
    middle = call.iterations // 2
    for begin, end in ((0, middle), (middle, call.iterations)):
        if begin == end:
            continue
        for register, value in (
            (UC_ARM64_REG_X0, _ADDRESSES),
            (UC_ARM64_REG_X1, begin),
            (UC_ARM64_REG_X2, end),
            (UC_ARM64_REG_LR, _RETURN),
            (UC_ARM64_REG_SP, _STACK + _STACK_BYTES),
        ):
            machine.reg_write(register, value)
        machine.emu_start(function, _RETURN)


def _linked(machine: Uc, objects: Sequence[bytes]) -> dict[str, int]:
    """Put the sections of object files into the machine's memory; the addresses of functions."""
    files = [ELFFile(io.BytesIO(data)) for data in objects]
    places: dict[tuple[int, int], int] = {}
    at = _CODE
    for number, file in enumerate(files):
        for index, section in enumerate(file.iter_sections()):
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                align = max(section["sh_addralign"], 4)
                places[number, index] = at = -(-at // align) * align
                at += section["sh_size"]
    machine.mem_map(_CODE, _pages(at - _CODE))
    machine.mem_map(_RETURN, _PAGE)
    machine.mem_map(_STUBS, _PAGE)
    known: dict[str, int] = {}
    for number, file in enumerate(files):
        for symbol in _symbols(file):
            if symbol["st_info"]["bind"] == "STB_GLOBAL" and symbol["st_shndx"] != "SHN_UNDEF":
                known[symbol.name] = places[number, symbol["st_shndx"]] + symbol["st_value"]
    symbols = [symbol for file in files for symbol in _symbols(file)]
    wanted = {item.name for item in symbols if item.name and item["st_shndx"] == "SHN_UNDEF"}
    for index, name in enumerate(sorted(wanted - known.keys())):
        known[name] = _STUBS + 4 * index
        machine.mem_write(known[name], _RET.to_bytes(4, "little"))
        machine.hook_add(UC_HOOK_CODE, _library_function(name), begin=known[name], end=known[name])
    for number, file in enumerate(files):
        for index, section in enumerate(file.iter_sections()):
            if (number, index) in places and section["sh_type"] != "SHT_NOBITS":
                machine.mem_write(places[number, index], section.data())
        for section in file.iter_sections():
            if section["sh_type"] == "SHT_RELA" and (number, section["sh_info"]) in places:
                _relocate(machine, file, section, number, places, known)
    return known


def _library_function(name: str) -> Callable[..., None]:
    """What the emulator does when the processor comes to a function of the C library."""

    def copy(machine: Uc, *_: Any) -> None:
        to, source, size = (machine.reg_read(register) for register in _ARGUMENTS)
        content = (
            machine.mem_read(source, size) if name != "memset" else bytes([source & 255]) * size
        )
        machine.mem_write(to, bytes(content))

    if name in ("memcpy", "memmove", "memset"):
        return copy
    base = name.removesuffix("f")
    kind, registers = (ctypes.c_double, _DOUBLES) if base == name else (ctypes.c_float, _FLOATS)
    count = 2 if base in _TWO_OPERANDS else 1
    function = ctypes.CDLL(ctypes.util.find_library("m"))[name]
    function.argtypes, function.restype = [kind] * count, kind

    def compute(machine: Uc, *_: Any) -> None:
        bits = [machine.reg_read(register) for register in registers[:count]]
        size = ctypes.sizeof(kind)
        operands = [kind.from_buffer_copy(value.to_bytes(size, "little")) for value in bits]
        result = kind(function(*operands))
        machine.reg_write(registers[0], int.from_bytes(bytes(result), "little"))

    return compute


def _relocate(
    machine: Uc,
    file: ELFFile,
    section: Any,
    number: int,
    places: Mapping[tuple[int, int], int],
    known: Mapping[str, int],
) -> None:
    symbols = file.get_section(section["sh_link"])
    for item in section.iter_relocations():
        symbol = symbols.get_symbol(item["r_info_sym"])
        index = symbol["st_shndx"]
        base = (
            known[symbol.name]
            if index == "SHN_UNDEF"
            else places[number, index] + symbol["st_value"]
        )
        target = base + item["r_addend"]
        place = places[number, section["sh_info"]] + item["r_offset"]
        kind = item["r_info_type"]
        if kind == 257:  # R_AARCH64_ABS64
            machine.mem_write(place, target.to_bytes(8, "little"))
            continue
        (word,) = np.frombuffer(machine.mem_read(place, 4), np.uint32).tolist()
        machine.mem_write(place, _patched(word, kind, target, place).to_bytes(4, "little"))


_SCALED = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""R_AARCH64_ADD_ABS_LO12_NC and LDST8 to LDST128: bits that the offset is shifted by."""


def _patched(word: int, kind: int, target: int, place: int) -> int:
    """An instruction, or 32 bits of data, with the address of its symbol."""
    if kind == 261:  # R_AARCH64_PREL32
        return (target - place) & 0xFFFF_FFFF
    if kind in (275, 276):  # R_AARCH64_ADR_PREL_PG_HI21, and _NC
        pages = ((target >> 12) - (place >> 12)) & 0x1F_FFFF
        return word | (pages & 3) << 29 | (pages >> 2) << 5
    if kind in (282, 283):  # R_AARCH64_JUMP26, R_AARCH64_CALL26
        return word | ((target - place) >> 2) & 0x3FF_FFFF
    return word | ((target & 0xFFF) >> _SCALED[kind]) << 10


def _symbols(file: ELFFile) -> Iterator[Any]:
    for section in file.iter_sections():
        if isinstance(section, SymbolTableSection):
            yield from section.iter_symbols()


def _tensor(code: HostCode, memory: npt.NDArray[np.uint8], number: int) -> npt.NDArray[Any]:
    buffer = code.buffers[number]
    dtype = np.dtype(buffer.dtype)
    size = math.prod(buffer.shape) * dtype.itemsize
    return memory[buffer.offset : buffer.offset + size].view(dtype).reshape(buffer.shape)


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
