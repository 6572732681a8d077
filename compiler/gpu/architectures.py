"""`gpu_architectures`: what kernels can be compiled for here.

``emulated`` stands for object code of this processor, which an emulated GPU runs, and ``spirv`` for
modules that OpenCL loads on GPUs of any vendor. Others are NVIDIA's generations; later ones run the
code of earlier ones, but for those that end in a letter.
"""

from collections.abc import Sequence

from daedal.artifact.gpu_code import EMULATED, SPIRV
from daedal.common.errors import UserError
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, GROUP_ARCHITECTURES
from daedal.native.levels import host_level

__all__ = ["best_architecture", "gpu_architectures", "have_group_products"]

_EMULATED = EMULATED.rstrip("-")
DEFAULT = (_EMULATED, "sm_80")
"""Every GPU from 2020 on runs the code of sm_80."""


def gpu_architectures(names: Sequence[str] = ()) -> tuple[str, ...]:
    """The architectures that `names` ask for, by default `DEFAULT`; each once.

    Raises UserError for a name that stands for none, and for a processor that emulates none.
    """
    found: list[str] = []
    for name in names or DEFAULT:
        here = f"{EMULATED}{host_level()}" if name.startswith(_EMULATED) else None
        if name not in (_EMULATED, here, SPIRV, *ARCHITECTURES):
            known = ", ".join((_EMULATED, *sorted(ARCHITECTURES), SPIRV))
            raise UserError(f"an architecture of a GPU must be one of {known}, not {name[:80]!r}")
        found.append(here or name)
    return tuple(dict.fromkeys(found))


def best_architecture(names: Sequence[str]) -> str | None:
    """The first of a device's architectures that kernels can be compiled for here."""
    for name in names:
        try:
            gpu_architectures([name])
        except UserError:
            continue
        return name
    return None


def have_group_products(names: Sequence[str]) -> bool:
    """Whether all of some architectures run products of matrices of groups of four warps. The
    emulator does, but alone it stands for any GPU."""
    others = [name for name in names if not name.startswith(_EMULATED)]
    return bool(others) and all(name in GROUP_ARCHITECTURES for name in others)
