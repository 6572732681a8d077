"""Broken copies of blocks: a claim that no broken copy breaks would prove nothing."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

__all__ = ["broken_copy", "first_quick"]


def broken_copy(module: ModuleType, right: str, wrong: str, folder: Path) -> ModuleType:
    """`module` with one piece of its source replaced, under another name."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count(right) == 1, f"{right!r} stands {source.count(right)} times, not once"
    path = folder / f"broken_{module.__name__.rpartition('.')[2]}.py"
    path.write_text(source.replace(right, wrong), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def first_quick(cases: dict[str, tuple[Any, ...]], *, quick: int = 1) -> list[Any]:
    """Parameters named by their keys; all but the first few are `slow`."""
    return [
        pytest.param(*case, id=name, marks=() if number < quick else pytest.mark.slow)
        for number, (name, case) in enumerate(cases.items())
    ]
