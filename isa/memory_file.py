"""`load_memory`: memory models by name or from TOML files, and as plain data for other processes.

Input: a preset's name, or the path of a TOML file (docs/memory.md has the keys). Output: a
`MemoryModel`. Records and caches know a memory that is no preset by `memory_key`, which has a
digest of all its numbers: two files of one name share nothing.
"""

import dataclasses
import hashlib
import json
import math
import re
import tomllib
import typing
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from daedal.common.errors import UserError, first_line
from daedal.common.inputs import read_input
from daedal.isa.memory_model import PRESETS, MemoryModel, MemoryModelError, memory_model
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.sdram_slots import SlotTimes

__all__ = ["AnyMemory", "load_memory", "memory_from_json", "memory_key", "memory_to_json"]

AnyMemory: TypeAlias = MemoryModel | str | Path
"""What `load_memory` takes."""

_MAX_BYTES = 64 * 1024
_MAX_SHOWN = 80
_MAX_NUMBER = (1 << 63) - 1
_CAPTURE_CLOCKS = 3
"""Of the boards that Daedal builds: their pads have a register each way."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")

_NOT_IN_FILES = ("name", "seed", "sdram")
_PLAIN = {
    spec.name: spec for spec in dataclasses.fields(MemoryModel) if spec.name not in _NOT_IN_FILES
}
_CHIP = {spec.name: spec for spec in dataclasses.fields(SdramChip) if spec.name != "name"}
_SDRAM = ("part", "bus_mhz", "capture_clocks", "phase_cycles", "chip")


def load_memory(memory: AnyMemory, seed: int = 0) -> MemoryModel:
    """A preset by name, or any memory from the path of a TOML file; a model is returned as it is.

    Text that ends with ``.toml`` is a path, any other is a preset's name.

    Raises
    ------
    MemoryModelError
        There is no such preset, or the file is not one of a memory.
    """
    if isinstance(memory, MemoryModel):
        return memory
    if isinstance(memory, str) and not memory.endswith(".toml"):
        if memory not in PRESETS:
            raise MemoryModelError(
                f"memory must be one of {', '.join(PRESETS)}, or the path of a .toml file, not "
                f"{memory!r:.80}"
            )
        return memory_model(memory, seed)
    path = Path(memory)
    data = read_input(path, "a memory file", _MAX_BYTES, MemoryModelError)
    return dataclasses.replace(_parsed(data, path.name, path.stem), seed=seed)


def memory_key(memory: MemoryModel) -> str:
    """What records and caches know a memory by, whatever its seed: a preset's name, or its name
    with a digest of its numbers."""
    data = memory_to_json(memory)
    if isinstance(data, str):
        return data
    text = json.dumps(data, sort_keys=True)
    return f"{memory.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def memory_to_json(memory: MemoryModel) -> "str | dict[str, Any]":
    """A preset's name, or the keys of a file with this memory. The seed is left out."""
    preset = PRESETS.get(memory.name)
    if preset == dataclasses.replace(memory, seed=0):
        return memory.name
    if memory.sdram is None:
        values = {key: getattr(memory, key) for key in _PLAIN}
        return {"name": memory.name, **values, "stall_per_256": list(memory.stall_per_256)}
    return {"name": memory.name, "sdram": _sdram_to_json(memory.sdram)}


def memory_from_json(data: object) -> MemoryModel:
    """The memory that `memory_to_json` wrote. No file is read.

    Raises
    ------
    MemoryModelError
        It is not one.
    """
    if isinstance(data, str):
        return memory_model(data)
    if not isinstance(data, dict):
        raise MemoryModelError(f"a memory must be a name or a table, not {_shown(data)}")
    return _memory(data, "a memory", "")


def _parsed(data: bytes, source: str, stem: str) -> MemoryModel:
    try:
        found = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MemoryModelError(f"a memory file must be UTF-8 text; {source!r} is not") from error
    except RecursionError as error:
        raise MemoryModelError(f"{source!r} must be a memory, not values within values") from error
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise MemoryModelError(f"{source!r} must be valid TOML: {first_line(error)}") from error
    memory = _memory(found, repr(source), stem)
    if memory.name in PRESETS:
        raise MemoryModelError(
            f"{source!r} must have another name than a preset, not {memory.name!r}; give a `name`"
        )
    return memory


def _memory(data: Mapping[str, Any], source: str, stem: str) -> MemoryModel:
    """The memory of a table; `stem` is its name unless it has one."""
    values = dict(data)
    name = values.pop("name", stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MemoryModelError(
            f"{source}: the name of a memory must be at most 32 letters, digits, '-' and '_', not "
            f"{_shown(name)}; give a `name`"
        )
    try:
        if "sdram" not in values:
            return MemoryModel(name, **_plain(values, source))
        sdram = values.pop("sdram")
        _known(values, (), f"{source} with [sdram]")
        return MemoryModel.of_sdram(name, _sdram(sdram, name, source))
    except MemoryModelError:
        raise
    except UserError as error:
        raise MemoryModelError(f"{source}: {first_line(error)}") from error


def _plain(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Arguments of a `MemoryModel` without an SDRAM."""
    _known(values, (*_PLAIN, "sdram"), source)
    kinds = typing.get_type_hints(MemoryModel)
    given = {
        key: _stalls(value, source)
        if key == "stall_per_256"
        else _typed(kinds[key], key, value, source)
        for key, value in values.items()
    }
    needed = [key for key, spec in _PLAIN.items() if spec.default is dataclasses.MISSING]
    _require(given, needed, source, ", or a table [sdram]")
    return given


def _stalls(value: object, source: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise MemoryModelError(f"{source}: stall_per_256 must be a list, not {_shown(value)}")
    return tuple(_typed(int, "stall_per_256", item, source) for item in value)


def _sdram(table: object, name: str, source: str) -> SdramMemory:
    if not isinstance(table, dict):
        raise MemoryModelError(f"{source}: [sdram] must be a table, not {_shown(table)}")
    _known(table, _SDRAM, f"{source}: [sdram]")
    if ("part" in table) == ("chip" in table):
        raise MemoryModelError(
            f"{source}: [sdram] must have either part, one of {', '.join(CHIPS)}, or a table "
            "[sdram.chip]"
        )
    if "part" in table:
        part = table["part"]
        if not isinstance(part, str) or part not in CHIPS:
            raise MemoryModelError(
                f"{source}: sdram.part must be one of {', '.join(CHIPS)}, not {_shown(part)}; "
                "describe others in [sdram.chip]"
            )
        chip = CHIPS[part]
    else:
        chip = _chip(table["chip"], name, source)
    clock_hz = 1e9 / chip.clock_ns
    if "bus_mhz" in table:  # whole Hz, so that text and numbers convert without loss
        clock_hz = round(2e6 * _typed(float, "sdram.bus_mhz", table["bus_mhz"], source))
    numbers = {
        key: _typed(int, f"sdram.{key}", table.get(key, default), source)
        for key, default in (("capture_clocks", _CAPTURE_CLOCKS), ("phase_cycles", 0))
    }
    return SdramMemory(SlotTimes.of(chip, clock_hz), **numbers)


def _chip(table: object, name: str, source: str) -> SdramChip:
    if not isinstance(table, dict):
        raise MemoryModelError(f"{source}: [sdram.chip] must be a table, not {_shown(table)}")
    where = f"{source}: [sdram.chip]"
    _known(table, _CHIP, where)
    kinds = typing.get_type_hints(SdramChip)
    given = {key: _typed(kinds[key], f"sdram.chip.{key}", v, source) for key, v in table.items()}
    needed = [key for key, spec in _CHIP.items() if spec.default is dataclasses.MISSING]
    _require(given, needed, where, "")
    return SdramChip(name=name, **given)


def _sdram_to_json(sdram: SdramMemory) -> dict[str, Any]:
    chip = sdram.chip
    if CHIPS.get(chip.name) == chip:
        found: dict[str, Any] = {"part": chip.name}
    else:
        found = {"chip": {key: getattr(chip, key) for key in _CHIP}}
    if sdram.times.clock_hz != 1e9 / chip.clock_ns:
        found["bus_mhz"] = sdram.times.clock_hz / 2e6
    return found | {"capture_clocks": sdram.capture_clocks, "phase_cycles": sdram.phase_cycles}


def _known(values: Mapping[str, Any], known: Collection[str], where: str) -> None:
    for key in values:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has name only"
            raise MemoryModelError(f"{where} has no key {_shown(key)}; {has}")


def _require(given: Mapping[str, Any], needed: Iterable[str], where: str, more: str) -> None:
    missing = [key for key in needed if key not in given]
    if missing:
        raise MemoryModelError(f"{where} must have {', '.join(missing)}{more}")


def _typed(kind: type, key: str, value: object, source: str) -> Any:
    """`value` if it is of this kind; whole numbers are of kind float, too."""
    if kind is float and type(value) is int:
        value = float(value) if abs(value) <= _MAX_NUMBER else math.inf
    if type(value) is not kind:
        raise MemoryModelError(
            f"{source}: {key} must be of type {kind.__name__}, not {_shown(value)}"
        )
    if isinstance(value, int | float) and not abs(value) <= _MAX_NUMBER:
        raise MemoryModelError(f"{source}: {key} must be a number up to {_MAX_NUMBER}")
    return value


def _shown(value: object) -> str:
    """A value of the file for a message, shortened if necessary."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return "a number of more than 64 bits"
    return repr(value)[:_MAX_SHOWN]
