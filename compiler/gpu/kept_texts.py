"""`KeptTexts`: texts of kernels on disk, and why others have none, so that a kernel is scheduled
once for all models."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from daedal.artifact.gpu_code import TensorMap
from daedal.common.errors import ScheduleError, UnsupportedError
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.space import Config
from daedal.compiler.version import compiler_version, sources_have_changed
from daedal.native.cache import ObjectCache

__all__ = ["KeptTexts"]

FORMAT = "daedal text of a GPU's kernel 2"
REFUSALS = {kind.__name__: kind for kind in (ScheduleError, UnsupportedError)}
"""What says that a kernel has no text; kept, too, so that none is tried twice."""
_REFUSAL = "refusal"


class KeptTexts:
    """Texts by the formulas of kernels and their schedules; the compiler's sources count, too.

    Parameters
    ----------
    cache : None: nothing is kept, and nothing is while the compiler's sources are being edited.
    options : what else texts depend on.
    """

    def __init__(self, cache: ObjectCache | None, options: str) -> None:
        self._cache = None if cache is None or sources_have_changed() else cache
        self._options = options

    def get(
        self, kernel: Kernel, config: Config | None, write: Callable[[], KernelText]
    ) -> KernelText:
        """The text of a kernel, without a symbol; `write` makes it where none is kept.

        Raises what `write` raises, or raised when the text was asked for first.
        """
        if self._cache is None:
            return write()
        parts = (FORMAT, compiler_version(), self._options, config, kernel.key, kernel.is_guarded)
        key = "\n".join(map(str, parts))
        return _from_bytes(self._cache.get(key, lambda: _to_bytes(write)))


def _to_bytes(write: Callable[[], KernelText]) -> bytes:
    try:
        fields = asdict(write())
    except tuple(REFUSALS.values()) as error:
        fields = {_REFUSAL: type(error).__name__, "message": str(error)}
    return json.dumps(fields).encode()


def _from_bytes(data: bytes) -> KernelText:
    fields: dict[str, Any] = json.loads(data)
    if _REFUSAL in fields:
        raise REFUSALS[fields[_REFUSAL]](fields["message"])
    for name in ("grid", "block"):
        fields[name] = tuple(fields[name])
    fields["maps"] = tuple(
        TensorMap(item["argument"], item["dtype"], tuple(item["shape"]), tuple(item["box"]))
        for item in fields["maps"]
    )
    return KernelText(**fields)
