"""Levels of a processor: sets of features that object code may rely on.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement,
"Micro-Architecture Levels"; LLVM has a processor of each name. Levels with `VNNI` or `AMX` are
ours: they add the instructions for products of 8 and 16 bits, and of matrices of 8 bits, which no
level of that document has. Levels of AArch64 are ours, too; the features have the names of the Arm
Architecture Reference Manual for A-profile, FEAT_DotProd and FEAT_I8MM.
"""

from collections.abc import Collection

from daedal.common.errors import UserError
from daedal.native.bodies.tile_products import TILE_FEATURES
from daedal.native.cpu import Cpu, host_cpu
from daedal.native.tile_trial import tile_problem

__all__ = [
    "AMX",
    "AMX_LEVEL",
    "LEVELS",
    "VNNI",
    "VNNI_LEVEL",
    "adds_quads",
    "host_level",
    "level_cpu",
    "level_to_run",
    "levels_to_run",
    "plain_level",
]

_V3 = frozenset(["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])

VNNI = "-vnni"
"""Ends the names of levels with products of integers that are added up in one instruction."""

AMX = "-amx"
"""Ends the name of the level that has these, and products of matrices in tile registers."""

DOT, MIXED = "-dotprod", "-i8mm"
"""End the names of levels of AArch64 that add four products of bytes to a sum in one instruction:
of two int8, and of an uint8 and an int8, too."""

VNNI_LEVEL, AMX_LEVEL = f"x86-64-v4{VNNI}", f"x86-64-v4{AMX}"

LEVELS: dict[str, frozenset[str]] = {
    AMX_LEVEL: _V4 | {"avx512vnni"} | TILE_FEATURES,
    VNNI_LEVEL: _V4 | {"avx512vnni"},
    "x86-64-v4": _V4,
    f"x86-64-v3{VNNI}": _V3 | {"avxvnni"},
    "x86-64-v3": _V3,
    "x86-64": frozenset(),
    f"aarch64{MIXED}": frozenset(["dotprod", "i8mm"]),
    f"aarch64{DOT}": frozenset(["dotprod"]),
    "aarch64": frozenset(),
}
"""What each level needs of a processor, the best first."""

_ARM = "aarch64"
_ADDING = (VNNI, AMX, DOT, MIXED)


def level_cpu(level: str) -> Cpu:
    """The processor that code of a level is compiled for."""
    if level.startswith(_ARM):
        return Cpu("aarch64-unknown-linux-gnu", "generic", LEVELS[level])
    return Cpu("x86_64-unknown-linux-gnu", plain_level(level), LEVELS[level])


def plain_level(level: str) -> str:
    """The same level without instructions that add products of bytes."""
    for end in _ADDING:
        level = level.removesuffix(end)
    return level


def adds_quads(level: str) -> bool:
    """Whether a processor of a level adds four products of 8 bits in one instruction."""
    return level.endswith(_ADDING)


def levels_to_run() -> tuple[str, ...]:
    """All levels that this processor has, the best first; that with AMX if a trial of its
    instructions succeeds (`native.tile_trial`)."""
    host = host_cpu()
    machine = host.triple.split("-", 1)[0]
    return tuple(
        level
        for level, needed in LEVELS.items()
        if level_cpu(level).triple.startswith(machine) and needed <= host.features
        if level != AMX_LEVEL or tile_problem() is None
    )


def level_to_run(found: Collection[str]) -> str | None:
    """The best of some levels that this processor has, or None where it has none of them."""
    return next((level for level in levels_to_run() if level in found), None)


def host_level() -> str:
    """The best level that this processor has. Raises UserError where it has none."""
    level = level_to_run(LEVELS)
    if level is None:
        raise UserError(
            "compiled code needs a processor that LLVM has a level for, not "
            f"{host_cpu().triple}; run the model with --target of a variant"
        )
    return level
