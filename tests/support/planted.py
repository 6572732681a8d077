"""A function that GPUs of NVIDIA's lack, planted in their back end."""

from dataclasses import replace

import pytest

from daedal.compiler.codegen.gpu import nvptx
from daedal.compiler.gpu import kept_texts

__all__ = ["LACKING", "plant_no_square_roots"]

LACKING = (
    "kernels for nvptx64-nvidia-cuda must call functions that its code generator has, not "
    "'llvm.sqrt.f32'; leave out this architecture"
)
"""Why a kernel with a square root has no code then."""


def plant_no_square_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the square root from what the back end selects; no cache keeps what is refused so."""
    known = nvptx._BACK_END
    selected = tuple(name for name in known.selected if name != "sqrt")
    assert selected != known.selected
    monkeypatch.setattr(nvptx, "_BACK_END", replace(known, selected=selected))
    monkeypatch.setattr(kept_texts, "sources_have_changed", lambda: True)
