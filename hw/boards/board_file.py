"""`load_board`: boards by name or from TOML files, whose keys are described in docs/boards.md."""

import tomllib
from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from daedal.common.errors import UserError, first_line
from daedal.common.inputs import read_input
from daedal.hw.boards.board import PINS, SDRAM_PINS, Board, BoardSdram, Pin
from daedal.hw.boards.board_names import FOLDER, board_names

__all__ = ["load_board"]

_MAX_BYTES = 64 * 1024
_MAX_SHOWN = 80

_KEYS = {
    "name": str,
    "title": str,
    "device": str,
    "package": str,
    "speed_grade": int,
    "oscillator_mhz": float,
    "pins": dict,
}
_MORE_KEYS = {"held": dict, "sdram": dict}
_PIN = {"sites": str, "options": str}
_SDRAM = {"memory": str, "options": str, "sites": dict}


def load_board(name_or_path: str | Path) -> Board:
    """A board that comes with Daedal by name, or any from the path of a TOML file.

    Text that ends with ``.toml`` is a path, any other is a name.

    Raises
    ------
    UserError
        There is no such board, or the file describes none.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and not text.endswith(".toml"):
        if text not in board_names():
            raise UserError(
                f"a board is one of {', '.join(board_names())}, or the path of a .toml file, not "
                f"{text!r:.80}"
            )
        source = resources.files("daedal.hw.boards") / FOLDER / f"{text}.toml"
        return _parsed(source.read_bytes(), f"board {text!r}")
    board = _parsed(read_input(text, "a board file", _MAX_BYTES), repr(Path(text).name))
    if board.name in board_names():
        raise UserError(
            f"{Path(text).name!r} must have another name than a board that comes with Daedal, not "
            f"{board.name!r}"
        )
    return board


def _parsed(data: bytes, source: str) -> Board:
    try:
        found = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"a board file must be UTF-8 text; {source} is not") from error
    except RecursionError as error:
        raise UserError(f"{source} must be a board, not values within values") from error
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise UserError(f"{source} must be valid TOML: {first_line(error)}") from error
    try:
        return _board(found)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def _board(data: Mapping[str, Any]) -> Board:
    values = _typed("a board", data, _KEYS, _MORE_KEYS)
    pins = values.pop("pins")
    _known("[pins]", pins, PINS)
    held = values.pop("held", {})
    sdram = values.pop("sdram", None)
    return Board(
        **values,
        pins={name: _pin(f"pins.{name}", pins[name]) for name in PINS if name in pins},
        held={name: _pin(f"held.{name}", pin) for name, pin in held.items()},
        sdram=None if sdram is None else _sdram(sdram),
    )


def _pin(where: str, table: object) -> Pin:
    values = _typed(where, table, _PIN, {"level": int})
    return Pin(tuple(values["sites"].split()), values["options"], values.get("level", 1))


def _sdram(table: object) -> BoardSdram:
    values = _typed("[sdram]", table, _SDRAM)
    sites = values["sites"]
    _known("[sdram.sites]", sites, SDRAM_PINS)
    texts = _typed("[sdram.sites]", sites, dict.fromkeys(sites, str))
    pins = {
        name: Pin(tuple(texts[name].split()), values["options"])
        for name in SDRAM_PINS
        if name in texts
    }
    return BoardSdram(values["memory"], pins)


def _typed(
    where: str,
    table: object,
    needed: Mapping[str, type],
    more: Mapping[str, type] | None = None,
) -> dict[str, Any]:
    """The values of a table with these keys and types; whole numbers are of type float, too."""
    if not isinstance(table, dict):
        raise UserError(f"{where} must be a table, not {_shown(table)}")
    kinds = {**needed, **(more or {})}
    _known(where, table, kinds)
    missing = [key for key in needed if key not in table]
    if missing:
        raise UserError(f"{where} must have {', '.join(missing)}")
    found = {}
    for key, value in table.items():
        kind = kinds[key]
        if kind is float and type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        if type(value) is not kind:
            name = "a table" if kind is dict else f"of type {kind.__name__}"
            raise UserError(f"{key} of {where} must be {name}, not {_shown(value)}")
        found[key] = value
    return found


def _known(where: str, table: Mapping[str, Any], keys: Collection[str]) -> None:
    for key in table:
        if key not in keys:
            raise UserError(f"{where} has no key {_shown(key)}; it has {', '.join(keys)}")


def _shown(value: object) -> str:
    """A value of the file for a message, shortened if necessary."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 1 << 53:
        return "a number of more than 53 bits"
    return repr(value)[:_MAX_SHOWN]
