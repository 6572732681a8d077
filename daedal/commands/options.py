"""What commands share: options that several take, and the check of where they write."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from daedal.isa.errors import ToolError, UserError
from daedal.isa.files import check_output_file

__all__ = [
    "ArtifactFile",
    "Assertions",
    "Json",
    "Memory",
    "PoolAddress",
    "PoolCertificates",
    "Simulator",
    "VariantName",
    "check_outputs",
    "needs_pool_packages",
]

ArtifactFile = Annotated[Path, typer.Argument(help="What `daedal compile` wrote.")]
Assertions = Annotated[
    bool,
    typer.Option("--assertions", help="rtl: the machine checks its own contracts; slower."),
]
Json = Annotated[bool, typer.Option("--json", help="Report as JSON on standard output.")]
PoolAddress = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Measure on the pool at this address (docs/pool.md)."),
]
PoolCertificates = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Certificates of the pool.")
]
VariantName = Annotated[
    str, typer.Option("--variant", "-v", help="A shipped variant's name, or a .toml file.")
]


class Memory(StrEnum):
    """Presets of the memory model."""

    ideal = "ideal"
    ddr = "ddr"
    slow = "slow"
    jitter = "jitter"


class Simulator(StrEnum):
    """Simulators of the RTL device."""

    native = "native"
    verilator = "verilator"
    icarus = "icarus"


@contextmanager
def needs_pool_packages() -> Iterator[None]:
    """Raise ToolError where a package that pools need is missing."""
    try:
        yield
    except ImportError as error:
        raise ToolError(
            f"a pool needs the Python package {error.name!r}, which is missing; install "
            "daedal[tune]"
        ) from error


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
