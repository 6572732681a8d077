"""What commands share: options that several take, and the check of where they write."""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from daedal.common.errors import UserError
from daedal.common.files import check_output_file
from daedal.hw.boards.board_names import board_names
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import shipped_variants

__all__ = [
    "BOARDS",
    "MEASURED",
    "MEMORY",
    "VARIANTS",
    "VARIANT_OPTION",
    "ArtifactFile",
    "ArtifactMemory",
    "Assertions",
    "BoardName",
    "HostRatesOf",
    "Json",
    "MemoryName",
    "PoolAddress",
    "PoolCertificates",
    "Simulator",
    "VariantArgument",
    "check_outputs",
    "complete_device",
    "complete_target",
    "parse_shapes",
    "parse_states",
]

_EXTENT = re.compile("[0-9]{1,10}")


ArtifactFile = Annotated[Path, typer.Argument(help="What `daedal compile` wrote.")]
Assertions = Annotated[
    bool,
    typer.Option("--assertions", help="rtl: the machine checks its own contracts; slower."),
]
MEASURED = "measured"
"""The host rates of this machine, as `daedal.host.rates` names them."""
HostRatesOf = Annotated[
    str,
    typer.Option(
        "--host-rates",
        metavar="RATES",
        autocompletion=lambda: ["default", MEASURED],
        help="Rates of the host in every latency: measured (of this machine), default (assumed), "
        "or a JSON file.",
    ),
]
BOARDS = f"{', '.join(board_names())}, or a .toml file (docs/boards.md)"
BoardName = Annotated[
    str,
    typer.Option(
        "--board",
        metavar="BOARD|FILE",
        help=f"The board: {BOARDS}.",
        autocompletion=board_names,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Report as JSON on standard output.")]
MEMORY = typer.Option(
    "--memory",
    autocompletion=lambda: list(PRESETS),
    metavar="PRESET|FILE",
    help=f"The memory behind the bus: {', '.join(PRESETS)}, or a .toml file (docs/memory.md).",
)
MemoryName = Annotated[str, MEMORY]
ArtifactMemory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        autocompletion=lambda: list(PRESETS),
        metavar="PRESET|FILE",
        help=f"The memory behind the bus: {', '.join(PRESETS)}, or a .toml file (docs/memory.md); "
        "by default what ARTIFACT was compiled for.",
    ),
]
PoolAddress = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Measure on the pool at this address (docs/pool.md)."),
]
PoolCertificates = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Certificates of the pool.")
]
VARIANTS = f"{', '.join(shipped_variants())}, or a .toml file"
VARIANT_OPTION = typer.Option(
    "--variant",
    "-v",
    metavar="VARIANT|FILE",
    help=f"The machine, as --target: {VARIANTS}.",
    autocompletion=shipped_variants,
)
VariantArgument = Annotated[
    str, typer.Argument(help=f"The machine: {VARIANTS}.", autocompletion=shipped_variants)
]


def complete_device() -> list[str]:
    """What the shell completes as a device."""
    from daedal.devices import device_names, gpu_names

    return [*device_names(), *gpu_names()]


def complete_target() -> list[str]:
    """What the shell completes as a target."""
    return [*shipped_variants(), "cpu", "gpu"]


class Simulator(StrEnum):
    """Simulators of the RTL device."""

    native = "native"
    verilator = "verilator"
    icarus = "icarus"


def check_outputs(*outputs: Path | None) -> None:
    """Refuse outputs that cannot be written before the work is done, not after."""
    targets = set()
    for path in outputs:
        if path is not None:
            target = check_output_file(path)
            if target in targets:
                raise UserError(
                    f"outputs must be different files, and {str(path)!r} is asked for twice; "
                    "choose another path"
                )
            targets.add(target)


def parse_shapes(options: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input from ``NAME=1x3x224x224``; raises UserError for any other form."""
    shapes: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, equals, extents = option.rpartition("=")
        parts = extents.split("x")
        if not (name and equals and all(_EXTENT.fullmatch(part) for part in parts)):
            raise UserError(
                f"a shape must be NAME=1x3x224x224, the name of an input and numbers, not "
                f"{option!r}"
            )
        if name in shapes:
            raise UserError(f"an input must have one shape, and {name!r} is given two")
        shapes[name] = tuple(map(int, parts))
    return shapes


def parse_states(options: Sequence[str]) -> dict[str, str]:
    """Outputs by inputs from ``INPUT=OUTPUT``; raises UserError for any other form."""
    states: dict[str, str] = {}
    for option in options:
        name, equals, new = option.partition("=")
        if not (name and equals and new) or name in states:
            raise UserError(
                "a state must be INPUT=OUTPUT, an input of the model and the output with its new "
                f"rows, and each input one state, not {option!r}"
            )
        states[name] = new
    return states
