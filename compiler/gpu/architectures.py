"""`gpu_architectures`: what kernels can be compiled for here.

``emulated`` stands for object code of this processor, which an emulated GPU runs.
"""

from collections.abc import Sequence

from daedal.artifact.gpu_code import EMULATED
from daedal.common.errors import UserError
from daedal.native.levels import host_level

__all__ = ["gpu_architectures"]

_EMULATED = EMULATED.rstrip("-")


def gpu_architectures(names: Sequence[str] = ()) -> tuple[str, ...]:
    """The architectures that `names` ask for, by default all; each once.

    Raises UserError for a name that stands for none, and for a processor that emulates none.
    """
    found: list[str] = []
    for name in names or (_EMULATED,):
        here = f"{EMULATED}{host_level()}"
        if name not in (_EMULATED, here):
            raise UserError(
                f"an architecture of a GPU must be one of {_EMULATED}, not {name[:80]!r}"
            )
        found.append(here)
    return tuple(dict.fromkeys(found))
