"""Values that tests keep between runs."""

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.kept_value import kept

made: list[int] = []


def numbers() -> list[int]:
    made.append(1)
    return [len(made), 7]


def test_a_value_is_made_once_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.clear()
    for _ in range(2):
        assert kept(numbers, "numpy", "onnx", folder=tmp_path / "kept") == [1, 7]
    # Not the version of a class: what is imported meanwhile may find packages by one of its own.
    other = SimpleNamespace(name="numpy", version="0.0", locate_file=lambda _path: tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _package: other)
    assert kept(numbers, "numpy", "onnx", folder=tmp_path / "kept") == [2, 7]
    assert len(list((tmp_path / "kept").iterdir())) == 2
